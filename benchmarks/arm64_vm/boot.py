"""Boot a whole arm64 virtual machine with a virtual phone inside, and measure on it from outside.

    python benchmarks/arm64_vm/boot.py [--keep]

First `edgebench devices check`, then `edgebench measure` of the small int8 files of that check, with the native kit as
runner. With --keep the machine stays until Ctrl-C, for commands of your own. See README.md here.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import initrd

from edgebench.cache_folder import cache_folder
from edgebench.errors import EdgebenchError, MissingError, StageError

QEMU = "qemu-system-aarch64"
GUEST_PORT = 5037  # as in guest.py
NAME = "arm64-vm"
READY = "phone ready"
BOOT_LIMIT_S = 300.0
CHECK_MODELS = initrd.REPOSITORY / "edgebench" / "pipeline" / "check_models"


def main(keeps: bool) -> int:
    if shutil.which(QEMU) is None:
        raise MissingError(f"{QEMU} is not there: apt install --no-install-recommends qemu-system-arm")
    with tempfile.TemporaryDirectory(prefix="edgebench-arm64-vm-") as name:
        folder = Path(name)
        kernel, disk = initrd.make(folder, cache_folder("kits") / "archives")
        print(f"initrd of {disk.stat().st_size / 1e6:.0f} MB made", flush=True)
        with _machine(kernel, disk, folder / "console.log") as address:
            (folder / "devices").mkdir()
            device = f"driver: adb\naddress: {address}\nrunner: kit\ndescription: An arm64 machine under {QEMU}\n"
            (folder / "devices" / f"{NAME}.yaml").write_text(device)
            print(device, flush=True)
            files = [str(CHECK_MODELS / file) for file in ("tflite-int8.tflite", "onnx-int8.onnx")]
            quick = ["--rounds", "2", "--min-runs", "10", "--min-seconds", "0.1", "--evaluation-samples", "16"]
            status = _edgebench(folder, "devices", "check", NAME)
            status |= _edgebench(folder, "measure", *files, "--device", NAME, *quick, "--out", "run", "--quiet")
            if keeps:
                print(f"cd {folder}, and use device {NAME} there; Ctrl-C here ends the machine", flush=True)
                with contextlib.suppress(KeyboardInterrupt):
                    signal.pause()
    return status


def _edgebench(folder: Path, *arguments: str) -> int:
    print(f"$ edgebench {' '.join(arguments)}", flush=True)
    return subprocess.run([sys.executable, "-m", "edgebench", *arguments], cwd=folder, check=False).returncode


@contextlib.contextmanager
def _machine(kernel: Path, disk: Path, console: Path) -> Iterator[str]:
    """Boots it, and gives the phone's address on this machine; ends it at the end.

    Raises:
        StageError: no phone answered in time; quotes the console.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # Two CPUs without KVM, of a kind without SME: under `max`, int8 kernels of LiteRT were wrong without a word.
    argv = [QEMU, "-machine", "virt", "-cpu", "neoverse-n1", "-accel", "tcg,thread=multi", "-smp", "2", "-m", "2G"]
    argv += ["-kernel", str(kernel), "-initrd", str(disk), "-append", "console=ttyAMA0 quiet panic=-1", "-no-reboot"]
    argv += ["-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:{GUEST_PORT}"]
    argv += ["-device", "virtio-net-pci,netdev=net,romfile=", "-display", "none", "-monitor", "none"]
    argv += ["-serial", f"file:{console}"]
    started = time.monotonic()
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    try:
        while READY not in (said := console.read_text(errors="replace") if console.exists() else ""):
            if process.poll() is not None or time.monotonic() - started > BOOT_LIMIT_S:
                raise StageError(f"no phone after {time.monotonic() - started:.0f} s; the console said: {said[-2000:]}")
            time.sleep(0.1)
        print(f"{said.strip().splitlines()[-1]}, {time.monotonic() - started:.1f} s after the start", flush=True)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave the machine running until Ctrl-C")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the machine is ended, too
    try:
        sys.exit(main(parser.parse_args().keep))
    except EdgebenchError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_status)
