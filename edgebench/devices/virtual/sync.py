"""The `sync:` service: stat, list, push and pull, in their first and second forms (AOSP, file_sync_protocol.h)."""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from edgebench.devices.virtual.connection import Stream
from edgebench.devices.virtual.state import PhoneState

_MAX_DATA_BYTES = 64 * 1024
_MAX_PATH_BYTES = 1024
_SHELL_USER = 2000  # Android's uid and gid of the shell
_WRITE_BYTES = 1024 * 1024  # blocks of clients are as small as 2 KiB
_HEAD = struct.Struct("<4sI")
_STAT_1 = struct.Struct("<4sIII")
_STAT_2 = struct.Struct("<4sIQQIIIIQqqq")
_PADDING_1, _PADDING_2 = bytes(16), bytes(72)  # of the DONE that ends a list
_SUCCESS = b"OKAY" + bytes(4)


class _Disconnected(Exception):
    """The client closed in the middle of a request."""


class _Dropped(_Disconnected):
    """The fault that cuts the connection in the middle of a push."""


class _Refused(Exception):
    """A request that ends the service; the text is sent to the client."""


class _Input:
    """A stream's bytes, cut as the protocol asks."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._rest = memoryview(b"")

    def pieces(self, size_bytes: int) -> Iterator[memoryview]:
        """The next `size_bytes`, in the pieces that they came in."""
        while size_bytes:
            if not self._rest:
                data = self._stream.read()
                if data is None:
                    raise _Disconnected
                self._rest = data
            piece, self._rest = self._rest[:size_bytes], self._rest[size_bytes:]
            size_bytes -= len(piece)
            yield piece

    def take(self, size_bytes: int) -> bytes:
        return b"".join(self.pieces(size_bytes))

    def take_head(self) -> tuple[bytes, int]:
        """A request's or a block's four letters and its number."""
        if len(self._rest) >= _HEAD.size:
            name, number = _HEAD.unpack_from(self._rest)
            self._rest = self._rest[_HEAD.size :]
        else:
            name, number = _HEAD.unpack(self.take(_HEAD.size))
        return name, number


def serve_sync(stream: Stream, state: PhoneState) -> None:
    """Answer requests until QUIT, a failure, or the client's end."""
    source = _Input(stream)
    answers = {
        b"STAT": lambda path: stream.write(_stat_1(state, path)),
        b"STA2": lambda path: stream.write(_stat_2(state, b"STA2", path, follow=True)),
        b"LST2": lambda path: stream.write(_stat_2(state, b"LST2", path, follow=False)),
        b"LIST": lambda path: stream.write(b"".join(_list_1(state, path))),
        b"LIS2": lambda path: stream.write(b"".join(_list_2(state, path))),
        b"RECV": lambda path: _send_file(stream, state, path),
        b"SEND": lambda path: _receive_file(stream, source, state, path),
    }
    try:
        while True:
            name, length = source.take_head()
            if name == b"QUIT":
                return
            if name not in answers:
                raise _Refused(f"unknown command {name.decode('ascii', 'replace')}")
            if length > _MAX_PATH_BYTES:
                raise _Refused("path too long")
            path = source.take(length).decode("utf-8", "surrogateescape")
            answers[name](path)
    except _Dropped:
        stream.abort_connection()
    except _Disconnected:
        return
    except _Refused as refusal:
        stream.write(_failure(str(refusal)))


def _failure(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return b"FAIL" + struct.pack("<I", len(data)) + data


def _stat_1(state: PhoneState, path: str) -> bytes:
    try:
        found = _look(state.jail.locate(path, follow=False), follow=False)
    except OSError:
        return _STAT_1.pack(b"STAT", 0, 0, 0)
    return _STAT_1.pack(b"STAT", *_numbers_1(found))


def _stat_2(state: PhoneState, name: bytes, path: str, *, follow: bool) -> bytes:
    try:
        found = _look(state.jail.locate(path, follow=follow), follow=follow)
    except OSError as error:
        return _STAT_2.pack(name, error.errno or errno.EIO, *[0] * 10)
    return _STAT_2.pack(name, 0, *_numbers_2(found))


def _list_1(state: PhoneState, path: str) -> Iterator[bytes]:
    for name, found in _entries(state, path):
        yield _STAT_1.pack(b"DENT", *_numbers_1(found)) + struct.pack("<I", len(name)) + name
    yield b"DONE" + _PADDING_1


def _list_2(state: PhoneState, path: str) -> Iterator[bytes]:
    for name, found in _entries(state, path):
        yield _STAT_2.pack(b"DNT2", 0, *_numbers_2(found)) + struct.pack("<I", len(name)) + name
    yield b"DONE" + _PADDING_2


def _entries(state: PhoneState, path: str) -> Iterator[tuple[bytes, os.stat_result]]:
    try:
        folder = state.jail.locate(path)
        names = [".", "..", *sorted(entry.name for entry in folder.iterdir())]
    except OSError:
        return  # the real daemon lists nothing, too
    for name in names:
        try:
            yield os.fsencode(name), _look(folder / name, follow=False)
        except OSError:
            continue  # gone since


def _look(path: Path, *, follow: bool) -> os.stat_result:
    return path.stat(follow_symlinks=follow)


def _numbers_1(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_mode, found.st_size & 0xFFFFFFFF, int(found.st_mtime) & 0xFFFFFFFF


def _numbers_2(found: os.stat_result) -> tuple[int, ...]:
    times = (int(found.st_atime), int(found.st_mtime), int(found.st_ctime))
    identity = (found.st_dev, found.st_ino, found.st_mode, found.st_nlink)
    return (*identity, _SHELL_USER, _SHELL_USER, found.st_size, *times)


def _send_file(stream: Stream, state: PhoneState, path: str) -> None:
    try:
        file = state.jail.locate(path).open("rb", buffering=0)
    except OSError as error:
        stream.write(_failure(f"open failed: {error.strerror}"))
        return
    with file:
        pending = bytearray()
        while data := file.read(_MAX_DATA_BYTES):
            pending += b"DATA" + struct.pack("<I", len(data)) + data
            if len(pending) >= 8 * _MAX_DATA_BYTES:
                stream.write(bytes(pending))
                pending.clear()
    stream.write(bytes(pending) + b"DONE" + bytes(4))


def _receive_file(stream: Stream, source: _Input, state: PhoneState, request: str) -> None:
    path, _, number = request.rpartition(",")
    mode = int(number) if number.isdecimal() else 0o644
    failed = "couldn't create file"
    try:
        target = _make_room(state, path, mode)
        failed = "write failed"
        modified_s = _store(source, state, target)
        target.chmod(_permissions(state, target, mode))
        os.utime(target, (modified_s, modified_s))
    except OSError as error:
        # At once, in the middle of the transfer; then what still comes is thrown away up to its end, so that clients
        # that write without reading see the failure too.
        stream.write(_failure(f"{failed}: {error.strerror}"))
        _discard(source)
        raise _Disconnected from error  # the daemon closes the stream after a failed push
    stream.write(_SUCCESS)


def _make_room(state: PhoneState, path: str, mode: int) -> Path:
    """Where the file goes, with its folder made and an old file of that name removed."""
    if state.faults.is_read_only:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))
    if stat.S_ISLNK(mode):
        raise OSError(errno.EPERM, "the virtual phone takes no symbolic links")
    target = state.jail.locate_writable(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir():
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if target.exists():
        state.space.take(-target.stat().st_size)
        target.unlink()
    return target


def _store(source: _Input, state: PhoneState, target: Path) -> int:
    """Write the blocks that come to `target`; gives its modification time, seconds since 1970, as the client says."""
    stored = 0
    identity: os.stat_result | None = None
    try:
        with target.open("wb", buffering=_WRITE_BYTES) as file:
            identity = os.fstat(file.fileno())
            while True:
                name, number = source.take_head()
                if name == b"DONE":
                    break
                if name != b"DATA" or number > _MAX_DATA_BYTES:
                    raise OSError(errno.EINVAL, "oversize data message" if name == b"DATA" else "invalid data message")
                for piece in source.pieces(number):
                    if state.is_push_dropped(stored + len(piece)):
                        raise _Dropped
                    state.space.take(len(piece))
                    file.write(piece)
                    stored += len(piece)
            if state.faults.short_push_bytes:
                file.truncate(max(0, stored - state.faults.short_push_bytes))
    except (OSError, _Disconnected):
        state.space.take(-stored)
        _remove_if_ours(target, identity)
        raise
    return number


def _remove_if_ours(target: Path, identity: os.stat_result | None) -> None:
    """Remove what a failed push left, unless the client, back already, has put a new file there."""
    if identity is not None and target.exists() and os.path.samestat(target.stat(), identity):
        target.unlink()


def _permissions(state: PhoneState, target: Path, mode: int) -> int:
    owner = (mode >> 6) & 7
    if state.faults.is_exec_denied or not state.jail.has_executable_storage(target):
        owner &= ~1
    return owner << 6 | owner << 3 | owner  # the daemon copies the owner's bits to group and others


def _discard(source: _Input) -> None:
    while True:
        name, number = source.take_head()
        if name != b"DATA":
            return
        for _ in source.pieces(number):
            pass
