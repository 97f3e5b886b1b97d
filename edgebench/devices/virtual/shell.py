"""The shell services: a command's process, its streams over the wire, and what becomes of it when the client goes."""

from __future__ import annotations

import os
import struct
import subprocess
import threading
from collections.abc import Callable
from enum import IntEnum
from typing import IO

from edgebench.devices.virtual.connection import Stream
from edgebench.devices.virtual.state import PhoneState

_READ_BYTES = 64 * 1024
_HEAD = struct.Struct("<BI")


class _Id(IntEnum):
    """The kinds of a shell v2 packet."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    EXIT = 3
    CLOSE_STDIN = 4


def serve_plain(stream: Stream, state: PhoneState, command: str) -> None:
    """`shell:` and `exec:`: both outputs as one, no status."""
    process = _start(state, command, stderr=subprocess.STDOUT)
    _in_background(_feed_plain, stream, process)
    _pump(process.stdout, stream.write)
    process.wait()


def serve_v2(stream: Stream, state: PhoneState, command: str) -> None:
    """`shell,v2`: the outputs apart, and the exit status (128 + N for a signal N) at the end."""
    process = _start(state, command, stderr=subprocess.PIPE)
    _in_background(_feed_v2, stream, process)
    errors = _in_background(_pump, process.stderr, lambda data: stream.write(_pack(_Id.STDERR, data)))
    _pump(process.stdout, lambda data: stream.write(_pack(_Id.STDOUT, data)))
    errors.join()
    code = process.wait()
    if not state.faults.is_exit_code_lost:
        stream.write(_pack(_Id.EXIT, bytes([code if code >= 0 else 128 - code])))


def _start(state: PhoneState, command: str, *, stderr: int) -> subprocess.Popen[bytes]:
    state.on_command()
    return subprocess.Popen(
        ["/bin/sh", "-c", state.jail.map_command(command)] if command else ["/bin/sh"],
        cwd=state.jail.root,
        env=state.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        bufsize=0,
        start_new_session=True,
    )


def _pack(kind: _Id, data: bytes) -> bytes:
    return _HEAD.pack(kind, len(data)) + data


def _in_background(work: Callable[..., None], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread


def _pump(source: IO[bytes] | None, send: Callable[[bytes], None]) -> None:
    """Everything of `source` to the client. When that is gone, read on to nowhere: the process is not stopped by it."""
    if source is None:
        return
    is_open = True
    with source:
        while data := os.read(source.fileno(), _READ_BYTES):
            if is_open:
                try:
                    send(data)
                except OSError:
                    is_open = False


def _feed_plain(stream: Stream, process: subprocess.Popen[bytes]) -> None:
    if process.stdin is None:
        return
    with process.stdin as target:
        try:
            while (data := stream.read()) is not None:
                target.write(data)
        except OSError:
            _drain(stream)


def _feed_v2(stream: Stream, process: subprocess.Popen[bytes]) -> None:
    if process.stdin is None:
        return
    pending = bytearray()
    target = process.stdin
    try:
        while (data := stream.read()) is not None:
            pending += data
            while len(pending) >= _HEAD.size:
                kind, length = _HEAD.unpack_from(pending)
                end = _HEAD.size + length
                if len(pending) < end:
                    break
                if kind == _Id.STDIN and not target.closed:
                    target.write(pending[_HEAD.size : end])
                elif kind == _Id.CLOSE_STDIN:
                    target.close()
                del pending[:end]
    except OSError:
        _drain(stream)
    finally:
        target.close()


def _drain(stream: Stream) -> None:
    """The process takes no more input: acknowledge what still comes, so that the client does not wait for it."""
    while stream.read() is not None:
        pass
