"""Commands on a remote device: each with a time limit that holds there, over a link that is renewed when it broke."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from edgebench.devices import remote_commands
from edgebench.devices.protocol import CommandResult
from edgebench.devices.remote_link import Link, ShellResult
from edgebench.errors import ChildTimeoutError, EdgebenchError, StageError

T = TypeVar("T")

_GRACE_S = 15.0  # what the answer may need beyond the command's own limit
_SMALL_LIMIT_S = 60.0  # of our own small commands
_KILLED = (124, 137)  # exit statuses of `timeout -s KILL` that had to end its command


class RemoteShell:
    """A shell on the device `name`. `connect` makes a link; MissingError when the device can't be reached."""

    def __init__(self, name: str, connect: Callable[[], Link]) -> None:
        self._name = name
        self._connect = connect
        self._session = f"edgebench-{uuid.uuid4().hex}-"
        self._commands = 0
        self._link: Link | None = connect()
        try:
            probe = self._on_link(lambda link: link.shell("timeout -s KILL 5 true >/dev/null 2>&1", _GRACE_S))
        except BaseException:
            self.close()
            raise
        self._has_timeout = probe.exit_code == 0

    def run(self, argv: Sequence[str], limit_s: float, folder: str | None = None) -> CommandResult:
        """Run a command on the device; nothing of it is left there when it had to be ended.

        `limit_s` is rounded up to whole seconds, which is what every device's `timeout` takes.

        Raises:
            ChildTimeoutError: it did not end in time, and was ended.
            StageError: the connection broke, so that nothing is known of its end.
        """
        seconds = max(1, math.ceil(limit_s))
        self._commands += 1
        mark = f"{self._session}{self._commands}-"
        line = remote_commands.limited(argv, seconds, mark, folder, self._has_timeout)
        started = time.monotonic()
        try:
            done = self._on_link(lambda link: link.shell(line, seconds + _GRACE_S))
        except StageError:
            if time.monotonic() - started < seconds + _GRACE_S:
                raise
            done = ShellResult(exit_code=_KILLED[0], stdout=b"", stderr=b"")
        taken_s = time.monotonic() - started
        if taken_s >= seconds and done.exit_code in _KILLED:
            self._kill(mark)
            raise ChildTimeoutError(
                f"'{Path(argv[0]).name}' on device '{self._name}' was ended after its limit of {limit_s:g} s"
            )
        return CommandResult(
            exit_code=128 - done.exit_code if 128 < done.exit_code <= 192 else done.exit_code,
            stdout=done.stdout.decode("utf-8", "replace"),
            stderr=done.stderr.decode("utf-8", "replace"),
            seconds=taken_s,
        )

    def script(self, text: str, folder: str | None = None) -> CommandResult:
        """Run lines of shell that take a moment."""
        return self.run(["sh", "-c", text], _SMALL_LIMIT_S, folder)

    def push(self, local: Path, remote: str, mode: int) -> None:
        self._on_link(lambda link: link.push(local, remote, mode))

    def pull(self, remote: str, local: Path) -> None:
        self._on_link(lambda link: link.pull(remote, local))

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _on_link(self, use: Callable[[Link], T]) -> T:
        """What `use` gives. After any failure, Ctrl-C among them, the link is in an unknown state and is given up."""
        link = self._link or self._renewed()
        try:
            return use(link)
        except BaseException:
            self.close()
            raise

    def _renewed(self) -> Link:
        """A new link, and nothing left on the device of what ran when the last one broke."""
        try:
            self._link = self._connect()
        except EdgebenchError as error:
            raise StageError(str(error)) from error
        self._kill(self._session)
        return self._link

    def _kill(self, mark: str) -> None:
        done = self._on_link(lambda link: link.shell(remote_commands.kill_marked(mark), _GRACE_S + _SMALL_LIMIT_S))
        if done.exit_code != 0:
            left = done.stdout.decode("ascii", "replace").strip()
            raise StageError(
                f"device '{self._name}' still runs what was to be ended (processes {left or 'unknown'}); restart it"
            )
