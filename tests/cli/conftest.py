"""Call the command line in this process, as its console script does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from calling import Said

from edgebench.cli import main


@pytest.fixture
def edgebench(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Said]:
    monkeypatch.chdir(tmp_path)

    def call(*words: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["edgebench", *(str(word) for word in words)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capfd.readouterr()
        assert "Traceback" not in said.err
        return Said(int(ended.value.code or 0), said.out, said.err)

    return call
