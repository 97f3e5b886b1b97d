"""`VirtualPhone`: a phone that listens on loopback until it is stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from edgebench.devices.virtual.auth import Keyring
from edgebench.devices.virtual.connection import Connection
from edgebench.devices.virtual.faults import Faults
from edgebench.devices.virtual.profile import Profile
from edgebench.devices.virtual.services import route
from edgebench.devices.virtual.state import PhoneState
from edgebench.errors import ConfigError, InputError
from edgebench.types import Origin

_SOCKET_BUFFER_BYTES = 1024 * 1024
_END_TRIES = 50  # looks for processes that were being started while others were ended
_ADB_EMULATOR_PORTS = range(5555, 5586)


class VirtualPhone:
    """An Android device on 127.0.0.1. Use as a context manager, or `start` and `stop`.

    Shell commands of a client run on this machine as the user who made the phone: only keys in `authorized_keys` (files
    such as ~/.android/adbkey.pub) may connect. With `accepts_any_key` every process of this machine may.
    """

    def __init__(
        self,
        profile: Profile | None = None,
        root: Path | None = None,
        faults: Faults | None = None,
        *,
        port: int = 0,
        authorized_keys: Sequence[Path] = (),
        accepts_any_key: bool = False,
        origin: Origin = Origin.SIMULATED,
    ) -> None:
        """A phone whose files lie in `root`; without one they are in a temporary folder that `stop` removes.

        `origin` is what it says its latencies are: emulated where ARM programs run on it, under qemu.

        Raises:
            ConfigError: a file of `authorized_keys` is wrong.
        """
        self.profile = profile or Profile()
        self._root = root
        self._first_faults = faults or Faults()
        self._port = port
        self._keyring = Keyring(authorized_keys)
        self._accepts_any_key = accepts_any_key
        self._origin = origin
        self._state: PhoneState | None = None
        self._listener: socket.socket | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._connections: set[Connection] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def faults(self) -> Faults:
        return self._state.faults if self._state else self._first_faults

    @property
    def root(self) -> Path:
        """The folder that is the phone's root; InputError before `start`."""
        return self._running().jail.root

    @property
    def address(self) -> str:
        """Where it listens, "127.0.0.1:PORT"; InputError before `start`."""
        if self._listener is None:
            raise InputError("the virtual phone is not started")
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def let_in(self, public_key: bytes) -> None:
        """One more key that may connect; ConfigError when it is no ADB public key."""
        if not self._keyring.add(public_key):
            raise ConfigError("what should be let in is no ADB public key")

    def start(self) -> str:
        """Listen, and give the address "127.0.0.1:PORT".

        Raises:
            InputError: the port is taken, or `root` can't be a phone's root.
        """
        self._stopping.clear()
        self._listener = _listen(self._port)
        root = self._root
        if root is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="edgebench-phone-root-", ignore_cleanup_errors=True)
            root = Path(self._temporary.name)
        try:
            self._state = PhoneState(self.profile, root, self._first_faults, self._origin)
        except BaseException:
            self._listener.close()
            self._listener = None
            raise
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._accept, self._keep_time)]
        for thread in self._threads:
            thread.start()
        return self.address

    def stop(self) -> None:
        """Cut every connection, end every process that a client started, and remove what is temporary."""
        if self._listener is None or self._state is None:
            return
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept
        self._listener.close()
        self._cut_connections()
        for thread in self._threads:
            thread.join()
        _end_marked_processes(self._state.mark)
        self._state.remove()
        if self._temporary is not None:
            self._temporary.cleanup()
        self._listener = self._state = self._temporary = None

    def inject(self, faults: Faults) -> None:
        """Make `faults` the ones that are on, now; `Faults()` mends everything.

        Going unauthorized, and any mending of that or of offline, cuts the connections as a real phone does.
        """
        before = self.faults
        self._running().inject(faults)
        if faults.is_unauthorized != before.is_unauthorized or (before.is_offline and not faults.is_offline):
            self._cut_connections()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _running(self) -> PhoneState:
        if self._state is None:
            raise InputError("the virtual phone is not started")
        return self._state

    def _accept(self) -> None:
        listener, state = self._listener, self._state
        if listener is None or state is None:
            return
        while not self._stopping.is_set():
            try:
                link, _ = listener.accept()
            except OSError:
                return
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER_BYTES)
            connection = Connection(
                link, state, self._keyring, lambda name: route(state, name), accepts_any=self._accepts_any_key
            )
            with self._lock:
                self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        connection.serve()
        with self._lock:
            self._connections.discard(connection)

    def _keep_time(self) -> None:
        """Write the heat down as it comes, also while one long command runs."""
        state = self._state
        while state is not None and not self._stopping.wait(min(state.next_change_s() or 0.25, 0.25)):
            state.refresh()

    def _cut_connections(self) -> None:
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.abort()


def _listen(port: int) -> socket.socket:
    if port in _ADB_EMULATOR_PORTS:
        raise InputError(
            f"the adb server takes ports 5555 to 5585 for emulators; give the virtual phone another than {port}"
        )
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise InputError(f"the virtual phone can't listen on 127.0.0.1:{port}: {error}") from error
    listener.listen()
    return listener


def _end_marked_processes(mark: str) -> None:
    """End every process that has `mark` in its environment, also those that moved to another session."""
    for _ in range(_END_TRIES):
        found = _marked_processes(mark.encode())
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _marked_processes(mark: bytes) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue  # ended, or another user's
    return found
