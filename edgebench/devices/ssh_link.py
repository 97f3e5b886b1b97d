"""A link over SSH, by paramiko."""

from __future__ import annotations

import getpass
import logging
import shlex
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.devices.remote_link import ShellResult
from edgebench.devices.ssh_address import SshAddress
from edgebench.errors import ConfigError, EdgebenchError, MissingError, StageError, missing_extra, one_line

if TYPE_CHECKING:
    import paramiko

    from edgebench.devices.remote_link import Link

_CONNECT_TIMEOUT_S = 10.0
_KEEPALIVE_S = 15
_TRANSFER_TIMEOUT_S = 60.0


def connect(address: SshAddress, name: str) -> Link:
    """A link to the machine `name`, with the keys of ~/.ssh and of the agent, and what ~/.ssh/config says.

    Its host key must be in known_hosts: an unknown one is never taken in silence.

    Raises:
        MissingError: it can't be reached, is unknown, or does not let us in; says what to do.
        ConfigError: ~/.ssh/config can't be read, or asks for what is not supported.
    """
    try:
        import paramiko
    except ImportError as error:
        raise missing_extra("paramiko", "lab", f"device '{name}'") from error
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # it prints tracebacks of what is told here in one line
    config = _config(address.host)
    host = config.get("hostname", address.host)
    said_port = config.get("port", "22")
    if not said_port.isdecimal():
        raise ConfigError(f"~/.ssh/config: Port {said_port} of {address.host} is no number")
    port = address.port or int(said_port)
    user = address.user or config.get("user") or getpass.getuser()
    keys: Any = [str(Path(file).expanduser()) for file in config.get("identityfile", [])]  # typed as one, takes many
    client = paramiko.SSHClient()
    try:
        client.load_system_host_keys()
        for file in config.get("userknownhostsfile", "").split():
            if Path(file).expanduser().is_file():
                client.load_system_host_keys(str(Path(file).expanduser()))
        client.set_missing_host_key_policy(_refusing(name, port, host))
        client.connect(
            host,
            port,
            user,
            key_filename=keys or None,
            sock=_proxy(config),
            timeout=_CONNECT_TIMEOUT_S,
            banner_timeout=_CONNECT_TIMEOUT_S,
            auth_timeout=_CONNECT_TIMEOUT_S,
        )
        transport = client.get_transport()
        if transport is None:
            raise MissingError(f"device '{name}' at {host}:{port} closed the connection; try again")
        transport.set_keepalive(_KEEPALIVE_S)
        if isinstance(transport.sock, socket.socket):  # without Nagle's delay of each command; not so a ProxyCommand
            transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return SshLink(client, transport, name)
    except BaseException as error:
        client.close()
        if isinstance(error, EdgebenchError) or not isinstance(error, Exception):
            raise
        # paramiko lets through errors of sockets, key files and its own.
        raise MissingError(f"device '{name}' at {user}@{host}:{port} {_why(error, host, port)}") from error


class SshLink:
    """A connected paramiko client as a Link."""

    def __init__(self, client: paramiko.SSHClient, transport: paramiko.Transport, name: str) -> None:
        self._client = client
        self._transport = transport
        self._name = name
        self._sftp: paramiko.SFTPClient | None = None

    def shell(self, command: str, timeout_s: float) -> ShellResult:
        with self._translated("a command"), self._transport.open_session(timeout=_CONNECT_TIMEOUT_S) as channel:
            channel.settimeout(timeout_s)  # of each silence; the whole is bounded on the device
            channel.exec_command(f"exec sh -c {shlex.quote(command)}")  # the login shell may be any
            # Both at once: the device waits when either of the two windows is full.
            errors: list[bytes] = []
            reader = threading.Thread(target=_read_all, args=(channel.makefile_stderr("rb"), errors), daemon=True)
            reader.start()
            stdout = channel.makefile("rb").read()
            reader.join(timeout_s)
            if reader.is_alive() or not channel.status_event.wait(timeout_s):
                raise TimeoutError
            status = channel.recv_exit_status()
        if status < 0:  # no status came: the connection broke, or a signal ended the shell itself
            raise StageError(f"device '{self._name}': a command failed: the answer was cut before its exit status")
        return ShellResult(exit_code=status, stdout=stdout, stderr=b"".join(errors))

    def push(self, local: Path, remote: str, mode: int) -> None:
        with self._translated(f"sending '{local.name}'"):
            sftp = self._files()
            sftp.put(str(local), remote, confirm=False)  # size and hash are compared later
            sftp.chmod(remote, mode)

    def pull(self, remote: str, local: Path) -> None:
        with self._translated(f"fetching '{local.name}'"):
            self._files().get(remote, str(local))

    def close(self) -> None:
        self._client.close()

    def _files(self) -> paramiko.SFTPClient:
        if self._sftp is None:
            import paramiko

            self._sftp = paramiko.SFTPClient.from_transport(self._transport)
            if self._sftp is None:
                raise StageError("it offers no SFTP")
            channel = self._sftp.get_channel()
            if channel is not None:
                channel.settimeout(_TRANSFER_TIMEOUT_S)
        return self._sftp

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except (EOFError, ConnectionError) as error:
            raise StageError(f"device '{self._name}': {what} failed: the connection was cut before its end") from error
        except TimeoutError as error:
            raise StageError(f"device '{self._name}': {what} failed: no answer in time") from error
        except Exception as error:  # paramiko lets through errors of sockets, of the protocol and its own
            raise StageError(f"device '{self._name}': {what} failed: {one_line(error)}") from error


def _read_all(stream: Any, into: list[bytes]) -> None:
    try:
        into.append(stream.read())
    except OSError:  # cut: the other stream, or the exit status, tells
        return


def _config(host: str) -> dict[str, Any]:
    import paramiko

    file = Path.home() / ".ssh" / "config"
    if not file.is_file():
        return {}
    try:
        return dict(paramiko.SSHConfig.from_path(str(file)).lookup(host))
    except Exception as error:  # paramiko's parser raises what it finds
        raise ConfigError(f"{file} can't be read: {one_line(error)}") from error


def _proxy(config: dict[str, Any]) -> Any:
    import paramiko

    if "proxyjump" in config:
        jump = config["proxyjump"]
        raise ConfigError(f"~/.ssh/config: ProxyJump {jump} is not supported; write: ProxyCommand ssh -W %h:%p {jump}")
    return paramiko.ProxyCommand(config["proxycommand"]) if "proxycommand" in config else None


def _refusing(name: str, port: int, host: str) -> paramiko.MissingHostKeyPolicy:
    import paramiko

    class Refusing(paramiko.MissingHostKeyPolicy):
        def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
            raise MissingError(
                f"device '{name}' shows a host key that known_hosts lacks ({key.get_name()} {key.fingerprint}); when "
                f"that is the device's own: ssh-keyscan -p {port} {host} >>~/.ssh/known_hosts"
            )

    return Refusing()


def _why(error: Exception, host: str, port: int) -> str:
    import paramiko

    known = host if port == 22 else f"[{host}]:{port}"
    if isinstance(error, paramiko.BadHostKeyException):
        return (
            "has another host key than known_hosts: another machine, or one that was set up again; if so: "
            f"ssh-keygen -R '{known}' and ssh-keyscan -p {port} {host} >>~/.ssh/known_hosts"
        )
    if isinstance(error, paramiko.PasswordRequiredException):
        return "needs a key that has a passphrase: ssh-add it to an agent first"
    if isinstance(error, paramiko.AuthenticationException) or "No authentication methods" in str(error):
        return "takes none of the keys of ~/.ssh and of the agent: ssh-copy-id one there"
    if isinstance(error, socket.gaierror):
        return "can't be found: its host name is unknown; check `address:` in its file"
    if isinstance(error, TimeoutError):
        return "does not answer: check that it is on and in reach"
    if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError):
        return "can't be reached: check that it is on, that sshd runs there, and the port"
    return f"can't be used: {one_line(error)}"
