"""Run a stage in a child process, so that a crash or a hang costs one cell and is told with its cause.

A `Worker` is one long-lived child that runs calls one after another: a framework is imported once for many conversions,
and after a crash or a time-out the next call starts a fresh child. What a call prints goes to the worker's log file;
what it gives to `tell` goes to the worker's `on_told` at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

from edgebench.errors import ChildDiedError, ChildTimeoutError, EdgebenchError, StageError, one_line

P = ParamSpec("P")
T = TypeVar("T")

_LONGEST_WAIT_S = 20 * 24 * 3600.0  # poll(2) counts milliseconds in 31 bits

# A file that is mapped into memory and can't grow on a full disk ends its writer with SIGBUS.
_LIKELY_CAUSES = {"SIGKILL": " (often: out of memory)", "SIGBUS": " (often: a full disk)"}

_QUIET_FRAMEWORKS = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0", "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True, slots=True)
class Finished(Generic[T]):
    """What a call returned, and the child's highest resident memory during it."""

    value: T
    peak_rss_bytes: int | None


class Worker:
    """A child process for calls that may crash. Use it from the main thread, and as a context manager."""

    def __init__(self, log: Path, on_told: Callable[[Any], None] | None = None) -> None:
        self._log = log
        self._on_told = on_told
        self._child: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(
        self, what: str, timeout_s: float, function: Callable[P, T], *arguments: P.args, **named: P.kwargs
    ) -> Finished[T]:
        """The result of `function(*arguments, **named)`, run in the child; `what` names the call in errors and the log.

        The function must be importable and its arguments and result picklable.

        Raises:
            EdgebenchError: as the function raised it.
            StageError: the function raised something else; the traceback is in the log.
            ChildDiedError: a signal ended the child.
            ChildTimeoutError: the call took longer than `timeout_s`.
        """
        connection = self._connection or self._start()
        deadline = time.monotonic() + timeout_s
        try:
            with self._telling_death(what):
                connection.send((what, function, arguments, named))
            while isinstance(message := self._receive(connection, what, timeout_s, deadline), _Told):
                if self._on_told is not None:
                    self._on_told(message.value)
        except BaseException:  # Ctrl-C most of all: the child is amid the call, so the next one needs a fresh child
            self.close()
            raise
        outcome, peak_rss_bytes = message
        if isinstance(outcome, EdgebenchError):
            raise outcome
        if isinstance(outcome, _Unexpected):
            raise StageError(f"{what} failed: {outcome.line}; its output: {self._log}")
        return Finished(outcome, peak_rss_bytes)

    def close(self) -> None:
        """End the child and everything that it started."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
            self._child = None

    def _receive(self, connection: Connection, what: str, timeout_s: float, deadline: float) -> Any:
        """The child's next message: a `_Told`, or the outcome with the peak memory."""
        with self._telling_death(what):
            if connection.poll(min(max(0.0, deadline - time.monotonic()), _LONGEST_WAIT_S)):
                return connection.recv()
        self.close()
        raise ChildTimeoutError(f"{what} was ended after its limit of {timeout_s:g} s; its output: {self._log}")

    @contextlib.contextmanager
    def _telling_death(self, what: str) -> Iterator[None]:
        try:
            yield
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            raise ChildDiedError(f"{what} {self._cause_of_death()}; its output: {self._log}") from error

    def _start(self) -> Connection:
        ours, theirs = _connection_pair()
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-c", f"from edgebench.isolation import serve; serve({theirs.fileno()})"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env={**_QUIET_FRAMEWORKS, **os.environ},
            )
        theirs.close()
        ours.send(sys.path)
        self._connection = ours
        return ours

    def _cause_of_death(self) -> str:
        child = self._child
        assert child is not None  # only asked after a call was sent to it
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=10)
        status = child.returncode
        self.close()
        if status is not None and status < 0:
            name = signal.Signals(-status).name
            return f"was ended by {name}{_LIKELY_CAUSES.get(name, '')}"
        return f"ended its process with status {status}"


@dataclass(frozen=True, slots=True)
class _Unexpected:
    """An exception that is not ours, told in one line."""

    line: str


@dataclass(frozen=True, slots=True)
class _Told:
    """What a call said on its way."""

    value: object


_to_parent: Connection | None = None  # of this process, where it is a worker's child


def tell(value: object) -> None:
    """Send a picklable value to the `on_told` of the worker that this call runs in; does nothing outside of one."""
    if _to_parent is not None:
        _to_parent.send(_Told(value))


def serve(descriptor: int) -> None:
    """The child's loop: receive a call, run it, send its outcome; ends when the parent is gone."""
    global _to_parent
    _end_with_parent()
    _to_parent = connection = Connection(descriptor)
    sys.path[:] = connection.recv()
    while True:
        try:
            what, function, arguments, named = connection.recv()
        except EOFError:
            return
        print(f"=== {what}", flush=True)
        _reset_peak_rss()
        outcome: object
        try:
            outcome = function(*arguments, **named)
        except EdgebenchError as error:
            traceback.print_exc()
            outcome = error
        except Exception as error:
            traceback.print_exc()
            outcome = _Unexpected(one_line(error))
        sys.stdout.flush()
        try:
            connection.send((outcome, peak_rss_bytes()))
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            connection.send((_Unexpected(one_line(error)), peak_rss_bytes()))


def peak_rss_bytes() -> int | None:
    """The highest resident memory of this process since the last call began; None where the kernel doesn't say."""
    try:
        with open("/proc/self/status") as status:
            lines = [line for line in status if line.startswith("VmHWM:")]
    except OSError:
        return None
    return int(lines[0].split()[1]) * 1024 if lines else None


def _reset_peak_rss() -> None:
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")


def _connection_pair() -> tuple[Connection, Connection]:
    ours, theirs = socket.socketpair()
    return Connection(ours.detach()), Connection(theirs.detach())


def _end_with_parent() -> None:
    """Ask Linux to kill this process when its parent dies, so that a kill -9 of edgebench leaves nothing running."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() == 1:
            os._exit(1)
