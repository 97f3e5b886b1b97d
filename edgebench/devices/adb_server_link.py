"""A link through the adb server, by adbutils: for USB that other tools share, phones paired over Wi-Fi, emulators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.devices import adb_sync
from edgebench.devices.remote_link import ShellResult
from edgebench.devices.shell_marker import MarkedCommand
from edgebench.errors import EdgebenchError, InputError, MissingError, StageError, missing_extra, one_line

if TYPE_CHECKING:
    from edgebench.devices.remote_link import Link

_CONNECT_TIMEOUT_S = 10.0
_TRANSFER_TIMEOUT_S = 60.0  # of one silence: slow flash may take long to write what came before

# What to do about each state that `adb devices` may show, but "device".
_WAYS_OUT = {
    "unauthorized": "accept the dialog on its screen",
    "authorizing": "accept the dialog on its screen",
    "offline": "check that it is on and awake, and plug it in again (adb reconnect)",
    "no permissions": "install the udev rules for Android (package android-sdk-platform-tools-common)",
    "bootloader": "start Android on it (fastboot reboot)",
    "recovery": "start Android on it (adb reboot)",
    "sideload": "start Android on it (adb reboot)",
}


def only_serial(name: str) -> str:
    """The serial of the only device that is attached, for a device `name` whose file says none.

    Raises:
        InputError: several are attached; lists them.
        MissingError: none is, or the server can't be used.
    """
    with _server_errors(name):
        states = _states(_client(name))
    if len(states) == 1:
        return next(iter(states))
    if not states:
        raise MissingError(
            f"device '{name}': no Android device is attached: plug it in, switch on USB debugging, then: adb devices"
        )
    raise InputError(
        f"device '{name}': {len(states)} Android devices are attached ({_listed(states)}); say which one in "
        f"devices/{name}.yaml, such as `address: server:{min(states)}`"
    )


def connect(serial: str, name: str) -> Link:
    """A link to the device `name` by its serial; one that is a HOST:PORT, and new to the server, is connected first.

    Raises:
        MissingError: there is no such device, or it does not let us in; says what to do.
    """
    with _server_errors(name):
        client = _client(name)
        states = _states(client)
        if serial not in states and ":" in serial:
            # Its words are of no use: `adb connect` says "failed" in many ways and the list tells the same.
            client.connect(serial, timeout=_CONNECT_TIMEOUT_S)
            states = _states(client)
        _check_state(states, serial, name)
        device = client.device(serial=serial)
        return AdbServerLink(device, name, has_shell_v2="shell_v2" in device.get_features().split(","))


class AdbServerLink:
    """A device of the adb server (`adbutils.AdbDevice`) as a Link; each operation has a connection of its own."""

    def __init__(self, device: Any, name: str, has_shell_v2: bool) -> None:
        self._device = device
        self._name = name
        self._has_shell_v2 = has_shell_v2

    def shell(self, command: str, timeout_s: float) -> ShellResult:
        with self._translated("a command"):
            if self._has_shell_v2:
                done = self._device.shell2(command, timeout=timeout_s, encoding=None, v2=True)
                return ShellResult(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)
            marked = MarkedCommand(command)
            return marked.result(self._device.shell(marked.line, timeout=timeout_s, encoding=None))

    def push(self, local: Path, remote: str, mode: int) -> None:
        with self._translated(f"sending '{local.name}'"):
            self._send(local, remote, mode)

    def pull(self, remote: str, local: Path) -> None:
        with self._translated(f"fetching '{local.name}'"):
            self._fetch(remote, local)

    def close(self) -> None:
        """Nothing is held between operations."""

    # adbutils' own transfers have no time limit, and do not pass on why the device refused one.

    def _send(self, local: Path, remote: str, mode: int) -> None:
        with self._sync() as connection:
            try:
                for data in adb_sync.sending(local, remote, mode):
                    connection.conn.sendall(data)
            except (BrokenPipeError, ConnectionResetError) as error:
                _check(connection, b"OKAY")  # a device that can't go on says why, and closes
                raise EOFError from error
            _check(connection, b"OKAY")

    def _fetch(self, remote: str, local: Path) -> None:
        with self._sync() as connection, local.open("wb") as file:
            connection.conn.sendall(adb_sync.fetching(remote))
            while size := _check(connection, b"DATA", b"DONE"):
                file.write(connection.read_exact(size))

    @contextmanager
    def _sync(self) -> Iterator[Any]:
        with self._device.open_transport(timeout=_TRANSFER_TIMEOUT_S) as connection:
            connection.send_command("sync:")
            connection.check_okay()
            yield connection

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        from adbutils.errors import AdbTimeout

        try:
            yield
        except StageError as error:
            raise StageError(f"device '{self._name}': {what} failed: {error}") from error
        except EOFError as error:  # the server closed the connection because the device went away
            raise StageError(f"device '{self._name}': {what} failed: the connection was cut before its end") from error
        except (AdbTimeout, TimeoutError) as error:
            raise StageError(f"device '{self._name}': {what} failed: no answer in time") from error
        except Exception as error:  # adbutils raises what it finds: AdbError, OSError, ValueError
            raise StageError(f"device '{self._name}': {what} failed: {one_line(error)}") from error


def _check(connection: Any, *wanted: bytes) -> int:
    """The number of the next head, 0 for DONE; StageError unless its word is wanted."""
    word, number = adb_sync.HEAD.unpack(connection.read_exact(adb_sync.HEAD.size))
    if word == b"FAIL":
        raise adb_sync.refusal(connection.read_exact(number))
    if word not in wanted:
        raise StageError(f"the device answered {word!r} to a transfer")
    return 0 if word == b"DONE" else int(number)


def _client(name: str) -> Any:
    try:
        import adbutils
    except ImportError as error:
        raise missing_extra("adbutils", "lab", f"device '{name}'") from error
    return adbutils.AdbClient()


def _states(client: Any) -> dict[str, str]:
    """What each attached device is in, by serial."""
    return {str(info.serial): str(info.state) for info in client.list()}


@contextmanager
def _server_errors(name: str) -> Iterator[None]:
    try:
        yield
    except EdgebenchError:
        raise
    except Exception as error:  # adbutils lets through errors of sockets, processes and its own
        raise MissingError(
            f"device '{name}': the adb server can't be used: {one_line(error)}; see: adb devices"
        ) from error


def _check_state(states: dict[str, str], serial: str, name: str) -> None:
    if serial not in states:
        found = f"attached: {_listed(states)}" if states else "none is attached"
        raise MissingError(
            f"device '{name}': no Android device has serial '{serial}' ({found}); check its cable or network, then: "
            "adb devices"
        )
    state = states[serial]
    if state != "device":
        way_out = next((way for word, way in _WAYS_OUT.items() if state.startswith(word)), "plug it in again")
        raise MissingError(f"device '{name}' ({serial}) is {state}: {way_out}, then: edgebench devices check {name}")


def _listed(states: dict[str, str]) -> str:
    return ", ".join(sorted(states))
