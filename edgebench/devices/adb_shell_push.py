"""Files sent through adb-shell.

Its own `push` looks for the device's answer at the end only. A device that can't go on, its storage full, says so in
the middle and then closes: that push would wait for its time-out, and never tell why. It also adds up each packet's
bytes in Python, which takes longer than sending them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgebench.devices import adb_sync
from edgebench.errors import StageError


def push(device: Any, local: Path, remote: str, mode: int, timeout_s: float) -> None:
    """Send a file over a connected `adb_shell.AdbDevice`; `timeout_s` is for each packet.

    Raises:
        StageError: the device refused it, in its words. Errors of adb-shell and of the socket pass through.
    """
    stream = _SyncStream(device, timeout_s)
    for data in adb_sync.sending(local, remote, mode):
        stream.write(data)
    stream.finish()


class _SyncStream:
    """One stream to the device's sync service, which says nothing but one answer: OKAY at the end, FAIL at any time."""

    def __init__(self, device: Any, timeout_s: float) -> None:
        self._device = device
        self._info = device._open(b"sync:", timeout_s, timeout_s, None)
        self._message = _quick_message()
        self._pending = bytearray()

    def write(self, data: bytes) -> None:
        self._pending += data
        size = self._device._maxdata
        while len(self._pending) >= size:
            self._send(bytes(self._pending[:size]))
            del self._pending[:size]

    def finish(self) -> None:
        """Send what is left, and take the answer; StageError unless it is OKAY."""
        if self._pending:
            self._send(bytes(self._pending))
        self._check(self._read_answer(b""))
        self._device._clse(self._info)

    def _send(self, data: bytes) -> None:
        from adb_shell import constants

        message = self._message(constants.WRTE, self._info.local_id, self._info.remote_id, data)
        self._device._io_manager.send(message, self._info)
        kind, answer = self._read(constants.OKAY)
        if kind != constants.OKAY:
            self._check(self._read_answer(answer))

    def _read(self, *kinds: bytes) -> tuple[bytes, bytes]:
        from adb_shell import constants

        kind, answer = self._device._read_until([*kinds, constants.WRTE, constants.CLSE], self._info)
        if kind == constants.CLSE:
            raise StageError("the device ended the transfer without a word")
        return kind, bytes(answer)

    def _read_answer(self, start: bytes) -> bytes:
        answer = start
        head = adb_sync.HEAD
        while len(answer) < head.size or len(answer) < head.size + head.unpack_from(answer)[1]:
            answer += self._read()[1]
        return answer

    @staticmethod
    def _check(answer: bytes) -> None:
        word, _ = adb_sync.HEAD.unpack_from(answer)
        if word != b"OKAY":
            raise adb_sync.refusal(answer[adb_sync.HEAD.size :])


def _quick_message() -> Any:
    import numpy as np  # not at the top: listing devices must not wait for it
    from adb_shell.adb_message import AdbMessage

    class QuickMessage(AdbMessage):  # type: ignore[misc]  # adb-shell has no types
        @property
        def checksum(self) -> int:
            """The sum of the bytes, 32 bit (AOSP, adb's protocol.txt)."""
            return int(np.frombuffer(self.data, np.uint8).sum(dtype=np.uint32))

    return QuickMessage
