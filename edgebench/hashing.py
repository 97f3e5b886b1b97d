"""The content hash of a file: what proves that two files, here or on a device, are the same."""

from __future__ import annotations

import hashlib
from pathlib import Path


def file_sha256(path: Path) -> str:
    """The sha256 of a file's bytes in hexadecimal digits; OSError where it can't be read."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
