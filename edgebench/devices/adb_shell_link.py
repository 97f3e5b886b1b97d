"""A link straight to an Android device, over TCP or USB, by adb-shell: no adb program and no server."""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.devices import adb_keys, adb_shell_push
from edgebench.devices.adb_address import AdbAddress, Route
from edgebench.devices.remote_link import ShellResult
from edgebench.devices.shell_marker import MarkedCommand
from edgebench.errors import EdgebenchError, MissingError, StageError, missing_extra, one_line

if TYPE_CHECKING:
    from edgebench.devices.remote_link import Link

_CONNECT_TIMEOUT_S = 10.0
_AUTH_TIMEOUT_S = 5.0
_TRANSFER_TIMEOUT_S = 60.0  # of one packet: slow flash may take long to write what came before
_STDOUT, _STDERR, _EXIT = 1, 2, 3  # packets of the shell_v2 protocol: a byte, a little-endian length, data


def connect(address: AdbAddress, name: str) -> Link:
    """A link to the device `name` at a TCP or USB address.

    Raises:
        MissingError: it is not there, or does not let us in; says which and what to do.
    """
    try:
        from adb_shell.adb_device import AdbDevice
    except ImportError as error:
        raise missing_extra("adb-shell", "lab", f"device '{name}'") from error
    where = f"{address.host}:{address.port}" if address.route is Route.TCP else f"USB device {address.serial}"
    asked: list[object] = []
    device: Any = None
    try:
        transport = _tcp(address) if address.route is Route.TCP else _usb(address, name)
        device = AdbDevice(transport, default_transport_timeout_s=_CONNECT_TIMEOUT_S)
        device._io_manager = _recording_io(transport)  # no public way to the device's features
        device.connect(
            rsa_keys=[adb_keys.signer()],
            transport_timeout_s=_CONNECT_TIMEOUT_S,
            read_timeout_s=_CONNECT_TIMEOUT_S,
            auth_timeout_s=_AUTH_TIMEOUT_S,
            auth_callback=asked.append,
        )
        banner: bytes = device._io_manager.banner
        if not banner.startswith(b"device:"):
            state = banner.partition(b":")[0].decode("ascii", "replace")[:40]
            raise MissingError(f"device '{name}' at {where} is in state '{state}', not 'device': start Android on it")
    except BaseException as error:
        if device is not None:
            device.close()
        if isinstance(error, EdgebenchError) or not isinstance(error, Exception):
            raise
        if asked:
            raise MissingError(
                f"device '{name}' at {where} is unauthorized: accept the dialog on its screen, then: "
                f"edgebench devices check {name}"
            ) from error
        # adb-shell lets through errors of sockets, USB, struct and its own.
        raise MissingError(f"device '{name}' at {where} {_why(error)}") from error
    return AdbShellLink(device, name, has_shell_v2=b"shell_v2" in banner)


class AdbShellLink:
    """A connected `adb_shell.AdbDevice` as a Link."""

    def __init__(self, device: Any, name: str, has_shell_v2: bool) -> None:
        self._device = device
        self._name = name
        self._has_shell_v2 = has_shell_v2

    def shell(self, command: str, timeout_s: float) -> ShellResult:
        with self._translated("a command"):
            if self._has_shell_v2:
                return _unpacked(self._output(b"shell,v2,raw", command, timeout_s))
            marked = MarkedCommand(command)
            return marked.result(self._output(b"shell", marked.line, timeout_s))

    def push(self, local: Path, remote: str, mode: int) -> None:
        with self._translated(f"sending '{local.name}'"):
            adb_shell_push.push(self._device, local, remote, mode, _TRANSFER_TIMEOUT_S)

    def pull(self, remote: str, local: Path) -> None:
        with self._translated(f"fetching '{local.name}'"):
            self._device.pull(
                remote, str(local), transport_timeout_s=_TRANSFER_TIMEOUT_S, read_timeout_s=_TRANSFER_TIMEOUT_S
            )

    def close(self) -> None:
        try:
            self._device.close()
        except Exception:  # it is given up; what its socket or USB stack says now matters no more
            return

    def _output(self, service: bytes, command: str, timeout_s: float) -> bytes:
        # The first two bound each silence, which may be as long as the command; only the third bounds the whole.
        output: bytes = self._device._service(
            service,
            command.encode("utf-8"),
            transport_timeout_s=timeout_s,
            read_timeout_s=timeout_s,
            timeout_s=timeout_s,
            decode=False,
        )
        return output

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except StageError as error:
            raise StageError(f"device '{self._name}': {what} failed: {error}") from error
        except Exception as error:  # adb-shell raises KeyError and struct.error for answers that it does not expect
            raise StageError(f"device '{self._name}': {what} failed: the device {_why(error)}") from error


def _unpacked(stream: bytes) -> ShellResult:
    """The packets of a shell_v2 stream put together; StageError when it ends before the exit packet."""
    parts: dict[int, list[bytes]] = {_STDOUT: [], _STDERR: []}
    place = 0
    while place + 5 <= len(stream):
        kind, length = struct.unpack_from("<BI", stream, place)
        data = stream[place + 5 : place + 5 + length]
        place += 5 + length
        if kind == _EXIT and len(data) == 1:
            return ShellResult(exit_code=data[0], stdout=b"".join(parts[_STDOUT]), stderr=b"".join(parts[_STDERR]))
        parts.setdefault(kind, []).append(data)
    raise StageError("the device's answer was cut before its exit status")


def _tcp(address: AdbAddress) -> Any:
    from adb_shell.transport.tcp_transport import TcpTransport

    class Transport(TcpTransport):  # type: ignore[misc]  # adb-shell has no types
        """Without Nagle's delay (44 ms a command), and whole: the original loses what one `send` did not take, and
        spins on a connection that the device closed."""

        def connect(self, transport_timeout_s: float | None) -> None:
            super().connect(transport_timeout_s)
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def bulk_read(self, numbytes: int, transport_timeout_s: float | None) -> bytes:
            data: bytes = super().bulk_read(numbytes, transport_timeout_s)
            if not data:
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            return data

        def bulk_write(self, data: bytes, transport_timeout_s: float | None) -> int:
            left = memoryview(data)
            while left:
                _, writable, _ = select.select([], [self._connection], [], transport_timeout_s)
                if not writable:
                    raise TimeoutError
                left = left[self._connection.send(left) :]
            return len(data)

    return Transport(address.host, address.port)


def _usb(address: AdbAddress, name: str) -> Any:
    try:
        from adb_shell.transport.usb_transport import UsbTransport
    except (ImportError, OSError) as error:  # OSError: the system's libusb is absent
        raise missing_extra("libusb1", "lab", f"device '{name}' over USB") from error
    return UsbTransport.find_adb(serial=address.serial, default_transport_timeout_s=_CONNECT_TIMEOUT_S)


def _recording_io(transport: Any) -> Any:
    from adb_shell import constants
    from adb_shell.adb_device import _AdbIOManager

    class RecordingIo(_AdbIOManager):  # type: ignore[misc]  # adb-shell has no types
        """Keeps the banner of the device's CNXN packet, which holds its state and features."""

        banner = b""

        def _read_expected_packet_from_device(self, expected_cmds: Any, adb_info: Any) -> Any:
            packet = super()._read_expected_packet_from_device(expected_cmds, adb_info)
            if packet[0] == constants.CNXN:
                self.banner = bytes(packet[3])
            return packet

    return RecordingIo(transport)


def _why(error: Exception) -> str:
    """What a foreign error says about the device, with the way out."""
    from adb_shell import exceptions as foreign

    if isinstance(error, socket.gaierror):
        return "can't be found: its host name is unknown; check `address:` in its file"
    if isinstance(error, ConnectionRefusedError):
        return "refuses connections: switch on its debugging over the network (adb tcpip 5555), or check the port"
    if isinstance(error, OSError) and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return "has no route to it: check that both are in one network"
    if isinstance(error, ConnectionError):
        return "closed the connection: check its cable or network, and that no other adb client holds it"
    if isinstance(error, (TimeoutError, foreign.AdbTimeoutError, foreign.TcpTimeoutException)):
        return "does not answer (offline): check that it is on, awake and in reach"
    if isinstance(error, foreign.InvalidCommandError) and "STLS" in str(error):
        return "wants TLS (wireless debugging): pair it once (adb pair), and use its address server:HOST:PORT"
    if isinstance(error, foreign.UsbDeviceNotFoundError):
        return "is not attached: check its cable and that USB debugging is on; see: adb devices"
    if type(error).__name__ == "USBErrorBusy":
        return "is held by another program, often the adb server: adb kill-server, or use its address server:SERIAL"
    if type(error).__name__ == "USBErrorAccess":
        return "may not be opened by this user: install the udev rules for Android (package android-sdk-platform-tools)"
    return f"answered in a way that can't be used ({one_line(error)})"
