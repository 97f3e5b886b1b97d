"""A real sshd on a free port of this machine, for this user, with keys and a home of its own."""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin") or ""


class SshServer:
    """`address` is for a device file; `home` is what HOME must be for the client to find its key and known_hosts."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        ssh = self.home / ".ssh"
        ssh.mkdir(parents=True, mode=0o700)
        for file in (folder / "host_key", ssh / "id_ed25519"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True)
        self.port = _free_port()
        self.address = f"{getpass.getuser()}@127.0.0.1:{self.port}"
        kind, key, *_ = (folder / "host_key.pub").read_text().split()
        self.known_hosts = ssh / "known_hosts"
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {kind} {key}\n")
        config = folder / "sshd_config"
        config.write_text(
            f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {folder}/host_key\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {ssh}/id_ed25519.pub\nStrictModes no\nPasswordAuthentication no\n"
            "PermitRootLogin yes\nSubsystem sftp internal-sftp\n"
        )
        self._log = (folder / "sshd.log").open("w")
        self._process = subprocess.Popen([SSHD, "-D", "-e", "-f", config], stderr=self._log)
        _wait_until_open(self.port, self._process, folder / "sshd.log")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()


def start(folder: Path) -> SshServer:
    if not SSHD or not shutil.which("ssh-keygen"):
        pytest.skip("needs sshd and ssh-keygen (package openssh-server)")
    if sys.platform == "linux" and not Path("/run/sshd").is_dir():
        Path("/run/sshd").mkdir(parents=True) if _is_root() else None  # sshd's empty folder, made by its service
    return SshServer(folder)


def _is_root() -> bool:
    import os

    return os.geteuid() == 0


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_until_open(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except ConnectionRefusedError:
            if process.poll() is not None:
                pytest.skip(f"sshd does not start here: {log.read_text().strip()[-300:]}")
    raise TimeoutError("sshd does not listen")
