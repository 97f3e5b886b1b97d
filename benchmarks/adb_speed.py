"""How fast is a device reached over ADB? Our two links and the `adb` program, to one virtual phone on loopback.

    python benchmarks/adb_speed.py [--repeats N]

A file of 32 MiB is pushed, and a shell command that does nothing is run, by each client in turn, N times; the figure is
the median. The phone is in a process of its own. Clients:

- direct: adb-shell, what an address HOST:PORT or usb:SERIAL is driven by;
- server: adbutils through an adb server of our own, what server:SERIAL is driven by;
- adb: the `adb` program itself through the same server, its start included, as a script would use it.

Bounds, of the direct link: push at least 100 MB/s, a shell call at most 5 ms (median of 50 in a row). Exit status 1
when one does not hold. Without `adb` on PATH only the direct link is measured.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from edgebench.devices import adb_address, adb_server_link, adb_shell_link
from edgebench.devices.remote_link import Link

MIN_PUSH_MB_S = 100.0
MAX_SHELL_MS = 5.0
_SIZE_BYTES = 32 << 20
_CALLS = 50
_REMOTE = "/data/local/tmp/speed.bin"

Work = Callable[[], None]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    adb = shutil.which("adb")
    with tempfile.TemporaryDirectory(prefix="edgebench-adb-speed-") as temporary:
        folder = Path(temporary)
        os.environ |= {"HOME": temporary, "EDGEBENCH_HOME": f"{temporary}/home", "ADB_MDNS": "0"}
        os.environ["ANDROID_ADB_SERVER_PORT"] = str(_free_port())
        file = folder / "speed.bin"
        file.write_bytes(os.urandom(_SIZE_BYTES))
        with _phone() as address, _server(adb, address):
            direct = adb_shell_link.connect(adb_address.parse(address, "phone"), "phone")
            pushes, shells = {"direct": _push(direct, file)}, {"direct": _shell(direct)}
            if adb:
                server = adb_server_link.connect(address, "phone")
                pushes |= {"server": _push(server, file), "adb": _by_program(adb, address, "push", str(file), _REMOTE)}
                shells |= {"server": _shell(server), "adb": _by_program(adb, address, "shell", "true")}
            push_s = _medians_s(pushes, repeats, calls=1)
            shell_s = _medians_s(shells, repeats, calls=_CALLS)
            direct.close()
    print(f"{'client':<8}{'push MB/s':>12}{'of adb':>8}{'shell ms':>12}{'of adb':>8}")
    for client in pushes:
        print(
            f"{client:<8}{_SIZE_BYTES / 1e6 / push_s[client]:>12.0f}{_ratio(push_s, 'adb', client):>8}"
            f"{shell_s[client] * 1e3:>12.2f}{_ratio(shell_s, client, 'adb'):>8}"
        )
    if not adb:
        print("adb: skipped, it is not on PATH")
    push_mb_s, shell_ms = _SIZE_BYTES / 1e6 / push_s["direct"], shell_s["direct"] * 1e3
    print(f"bounds for direct: push >= {MIN_PUSH_MB_S:g} MB/s, shell <= {MAX_SHELL_MS:g} ms")
    return int(push_mb_s < MIN_PUSH_MB_S or shell_ms > MAX_SHELL_MS)


def _medians_s(works: dict[str, Work], repeats: int, calls: int) -> dict[str, float]:
    """Seconds a call by client, the clients taking turns so that drift hits all alike."""
    taken_s: dict[str, list[float]] = {client: [] for client in works}
    for _ in range(repeats):
        for client, work in works.items():
            times_s = []
            for _ in range(calls):
                started = time.perf_counter()
                work()
                times_s.append(time.perf_counter() - started)
            taken_s[client].append(statistics.median(times_s))
    return {client: statistics.median(times_s) for client, times_s in taken_s.items()}


def _ratio(seconds: dict[str, float], above: str, below: str) -> str:
    return f"{seconds[above] / seconds[below]:.2f}" if "adb" in seconds else "-"


def _push(link: Link, file: Path) -> Work:
    return lambda: link.push(file, _REMOTE, 0o644)


def _shell(link: Link) -> Work:
    def call() -> None:
        if link.shell("true", 10).exit_code != 0:
            raise SystemExit("the phone's shell does not work")

    return call


def _by_program(adb: str, serial: str, *words: str) -> Work:
    command = [adb, "-s", serial, *words]

    def call() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return call


@contextmanager
def _phone() -> Iterator[str]:
    """The address of a phone in a process of its own."""
    command = [sys.executable, "-m", "edgebench", "devices", "virtual", "start", "--accept-any-key"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def _server(adb: str | None, address: str) -> Iterator[None]:
    """An adb server of our own that knows the phone."""
    if adb is None:
        yield
        return
    subprocess.run([adb, "start-server"], check=True, capture_output=True)
    try:
        subprocess.run([adb, "connect", address], check=True, capture_output=True)
        yield
    finally:
        subprocess.run([adb, "kill-server"], check=False, capture_output=True)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
