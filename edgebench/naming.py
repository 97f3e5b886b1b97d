"""Names that people and models chose, made safe for file systems and for one line of text."""

from __future__ import annotations

import hashlib
import re

_MAX_LENGTH = 80


def file_name(name: str) -> str:
    """A file name that says `name` and is safe in any folder and shell; unlike names stay unlike."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", name).lstrip(".-")[:_MAX_LENGTH]
    if safe == name:
        return safe
    return f"{safe or 'unnamed'}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def printable(text: str) -> str:
    """The text without what moves a terminal's cursor or breaks the line: control characters as escapes."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
