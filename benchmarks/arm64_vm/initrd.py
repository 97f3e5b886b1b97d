"""What the machine boots: Debian's kernel, and a first file system with Python, busybox and the virtual phone."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from edgebench.atomic import replacing
from edgebench.devices import adb_keys
from edgebench.devices.kit.fetch import fetch
from edgebench.devices.kit.sources import DebianPackage
from edgebench.errors import StageError

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
PACKAGE = REPOSITORY / "edgebench"
MODULES = ["virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci"]
MODULES += ["failover", "net_failover", "virtio_net"]

KERNEL = DebianPackage(
    place="l/linux-signed-arm64/linux-image-6.1.0-50-cloud-arm64_6.1.176-1_arm64.deb",
    sha256="9d41a53f5d687ae1a33cf546d0ed8be955f72e5f9e97b2b4e45e41dff3353b97",
    license="GPL-2.0-only",
    members={},
)
# Not busybox-static: its shell and its `timeout` take their own programs before those of the phone that lie on PATH.
BUSYBOX = DebianPackage(
    place="b/busybox/busybox_1.35.0-4%2bdeb12u1%2bb1_arm64.deb",
    sha256="a745b681c0c52e4e0f028e0dab7b85078de1199c1d86c7b4c12502061c24f297",
    license="GPL-2.0-only",
    members={},
)


def make(folder: Path, archives: Path) -> tuple[Path, Path]:
    """The kernel and the initrd in `folder`; packages are kept in `archives`. The phone lets in this user's adb key.

    Raises:
        MissingError: a registry can't be reached.
        StageError: an archive is not what is pinned, or no Python could be laid, which has said why.
    """
    root = folder / "root"
    lay_python = REPOSITORY / "tests" / "hardware" / "arm64_python.py"
    command = [sys.executable, str(lay_python), str(root), "cryptography", "cffi"]
    if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode != 0:
        raise StageError("the machine gets no Python: its reason is above")
    _extract(BUSYBOX, root, archives)
    _extract(KERNEL, folder / "kernel", archives)
    (kernel,) = (folder / "kernel" / "boot").glob("vmlinuz-*")
    (root / "modules").mkdir()
    for name in MODULES:
        (module,) = (folder / "kernel" / "lib" / "modules").rglob(f"{name}.ko")
        shutil.copy(module, root / "modules")
    shutil.copytree(PACKAGE, root / "edgebench", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(HERE / "guest.py", root / "guest.py")
    for name, place in (("init.sh", "init"), ("run_as_it_is.sh", "bin/qemu-aarch64-static")):
        shutil.copyfile(HERE / name, root / place)
        (root / place).chmod(0o755)
    (root / "adbkey.pub").write_bytes(adb_keys.public_key())
    shutil.rmtree(root / "usr" / "share")  # manuals
    with replacing(folder / "initrd") as temporary, temporary.open("wb") as file:
        _write_newc(root, file)
    return kernel, folder / "initrd"


def _extract(package: DebianPackage, target: Path, archives: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["dpkg-deb", "--extract", fetch(package, archives), target], check=True)


def _write_newc(root: Path, file: BinaryIO) -> None:
    """The files under `root` as a cpio archive, all owned by root (Linux, driver-api/early-userspace/buffer-format)."""
    for number, (name, mode, content) in enumerate(_entries(root), start=1):
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + name + b"\0"
        file.write(head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4))


def _entries(root: Path) -> Iterator[tuple[bytes, int, bytes]]:
    """Name, mode and content of each file, folders before what is in them; the archive's end is the last."""
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        content = b""
        if stat.S_ISLNK(mode):
            content = bytes(path.readlink())
        elif stat.S_ISREG(mode):
            content = path.read_bytes()
        yield bytes(path.relative_to(root)), mode, content
    yield b"TRAILER!!!", 0, b""
