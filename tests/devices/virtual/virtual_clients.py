"""adb-shell as the tests use it, and whether a process still runs."""

from __future__ import annotations

import socket
from pathlib import Path

from adb_shell.adb_device import AdbDevice
from adb_shell.auth.sign_cryptography import CryptographySigner
from adb_shell.transport.tcp_transport import TcpTransport


def is_running(pid):
    """Whether the process is there, and no zombie that only waits to be counted."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class QuickTransport(TcpTransport):
    """adb-shell's transport without the wait for a full segment."""

    def connect(self, transport_timeout_s):
        super().connect(transport_timeout_s)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Client:
    """adb-shell, with the two calls that these tests make."""

    def __init__(self, address, key, *, auth_timeout_s=5.0):
        host, _, port = address.partition(":")
        self.device = AdbDevice(QuickTransport(host, int(port)), default_transport_timeout_s=5)
        self.device.connect(rsa_keys=[CryptographySigner(str(key))], auth_timeout_s=auth_timeout_s)

    def shell(self, command):
        """Exit status, stdout and stderr of a command over shell v2."""
        raw = self.device._service(b"shell,v2,raw", command.encode(), timeout_s=20, read_timeout_s=20, decode=False)
        found = {1: b"", 2: b"", 3: b""}
        while raw:
            size = int.from_bytes(raw[1:5], "little")
            found[raw[0]] += raw[5 : 5 + size]
            raw = raw[5 + size :]
        return (found[3][0] if found[3] else None), found[1].decode(), found[2].decode()

    def close(self):
        self.device.close()
