"""A virtual phone in a process of its own, started by the command that users have, and what is left on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PhoneProcess:
    """`root` is the phone's root folder on this machine; it stays when the process ends."""

    address: str
    root: Path
    process: subprocess.Popen[str]

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def left_files(self) -> list[Path]:
        """What lies where a client may write."""
        return sorted((self.root / "data/local/tmp").iterdir())

    def processes(self) -> list[int]:
        """Those that a client started on the phone and that still run."""
        mark = f"ANDROID_ROOT={self.root}/".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    is_here = mark in (entry / "environ").read_bytes()
                    is_dead = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
                except OSError:
                    continue  # ended meanwhile
                if is_here and not is_dead:
                    found.append(int(entry.name))
        return found


def start(root: Path, *faults: str) -> PhoneProcess:
    """A phone that lets in the key of this EDGEBENCH_HOME."""
    command = [sys.executable, "-m", "edgebench", "devices", "virtual", "start", "--root", str(root)]
    command += [word for fault in faults for word in ("--fault", fault)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert address, "the phone did not start"
    return PhoneProcess(address, root, process)


def write_device(name: str, phone: PhoneProcess, python: str = sys.executable) -> None:
    """The inventory of the working folder, with the phone as an ordinary ADB device."""
    Path("devices").mkdir(exist_ok=True)
    Path(f"devices/{name}.yaml").write_text(f"driver: adb\naddress: {phone.address}\npython: {python}\n")
