"""What the tests of models share: the nets in the test's own folder, and snapshots of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def nets(tmp_path: Path) -> Path:
    """A folder with torch_nets.py and keras_nets.py."""
    for name in ("torch_nets.py", "keras_nets.py"):
        shutil.copy(Path(__file__).parent / name, tmp_path / name)
    return tmp_path
