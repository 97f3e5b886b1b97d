"""Where the data files are that users edit: recipes (`converters/`) and devices (`devices/`)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

_PACKAGE = Path(__file__).resolve().parent


def folders(kind: Literal["converters", "devices"]) -> list[Path]:
    """The folders that exist, in the order to search them: the user's `./KIND`, then the one that edgebench came with.

    The second is inside the package when it was installed from a wheel, and beside it in a checkout.
    """
    shipped = _PACKAGE / "catalogue" / kind
    candidates = [Path.cwd() / kind, shipped if shipped.is_dir() else _PACKAGE.parent / kind]
    return list(dict.fromkeys(folder.resolve() for folder in candidates if folder.is_dir()))
