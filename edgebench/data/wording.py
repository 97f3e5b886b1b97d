"""How names, shapes and lists of strangers' files are written in one-line messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgebench.naming import printable


def shown(name: object) -> str:
    """The name as one printable line: control characters and undecodable bytes are escaped."""
    return printable(str(name))


def shown_shape(shape: Sequence[int | None]) -> str:
    """A shape as "(n, 224, 224, 3)" is written, with "?" for an open dimension."""
    return "(" + ", ".join("?" if size is None else str(size) for size in shape) + ")"


def listed(names: Iterable[object], limit: int = 5) -> str:
    """The first names, quoted, and how many more there are; "none" when there are none."""
    every = [f"'{shown(name)}'" for name in names]
    if not every:
        return "none"
    rest = len(every) - limit
    return ", ".join(every[:limit]) + (f" and {rest} more" if rest > 0 else "")
