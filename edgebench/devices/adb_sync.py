"""What a file transfer looks like in ADB's sync protocol (AOSP, file_sync_protocol.h)."""

from __future__ import annotations

import stat
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from edgebench.errors import StageError

HEAD = struct.Struct("<4sI")  # a word, and a length or a number
_BLOCK_BYTES = 64 * 1024  # the protocol's most


def sending(local: Path, remote: str, mode: int) -> Iterator[bytes]:
    """What a client says to put a file on the device with the permission bits `mode`."""
    yield _request(b"SEND", f"{remote},{stat.S_IFREG | mode}")
    with local.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            yield HEAD.pack(b"DATA", len(block)) + block
    yield HEAD.pack(b"DONE", int(time.time()) & 0xFFFFFFFF)


def fetching(remote: str) -> bytes:
    """What a client says to get a file; blocks of DATA follow, then DONE, or FAIL."""
    return _request(b"RECV", remote)


def refusal(text: bytes) -> StageError:
    """The error for a FAIL with this text."""
    return StageError(f"the device refused it: {' '.join(text.decode('utf-8', 'replace').split())[:200]}")


def _request(word: bytes, text: str) -> bytes:
    data = text.encode("utf-8")
    return HEAD.pack(word, len(data)) + data
