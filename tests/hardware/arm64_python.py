"""Lay an aarch64 Python into a folder, started by its own loader: no root, no foreign architecture for dpkg.

    python tests/hardware/arm64_python.py FOLDER [WHEEL ...]

The interpreter and its libraries are Debian 12's, the wheels PyPI's (by default numpy and both runtimes), each pinned
by its hash and kept in edgebench's cache: 10 MB and 53 MB from the network, once. The last line is the program to give
a virtual phone as `python:`; it starts the interpreter through `timeout`, which is where such a phone calls qemu.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

from edgebench.cache_folder import cache_folder
from edgebench.devices.kit.fetch import fetch
from edgebench.devices.kit.sources import ONNXRUNTIME, DebianPackage, Wheel
from edgebench.errors import EdgebenchError, InputError

ARCHIVES = cache_folder("kits") / "archives"  # the kit's: the wheel of onnxruntime is the same
LIBRARIES = ("lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu")
LOADER = "lib/ld-linux-aarch64.so.1"
PYTHON = "usr/bin/python3.11"
SITE = "site"  # where the wheels lie

# Laid down whole. Each: its place in the pool, its hash, its license.
PACKAGES = tuple(
    DebianPackage(place=f"{place}_arm64.deb", sha256=sha256, license=license, members={})
    for place, sha256, license in (
        (
            "p/python3.11/python3.11-minimal_3.11.2-6%2bdeb12u8",
            "6a07dd571f1a15af2f855d64571766fe44b73a57cc3b5ca79502bc89156a5e12",
            "PSF-2.0",
        ),
        (
            "p/python3.11/libpython3.11-minimal_3.11.2-6%2bdeb12u8",
            "c48bac178c0fc43a2bf8ace784c762b5ee83e2b981894a991dc3ccfd3ec7cd4b",
            "PSF-2.0",
        ),
        (
            "p/python3.11/libpython3.11-stdlib_3.11.2-6%2bdeb12u8",
            "e79876de55c6c2dca10d044b2fa69ccd863950ea01714220c1982d16008105f9",
            "PSF-2.0",
        ),
        (
            "g/glibc/libc6_2.36-9%2bdeb12u14",
            "01f4330719fd4f65580e16ea5a0527f372fca750e8f588d26deaf09f2d3b1cf4",
            "LGPL-2.1-or-later",
        ),
        (
            "g/gcc-12/libgcc-s1_12.2.0-14%2bdeb12u1",
            "576926b283613db80168ddf76380a3bd877602778cf0d226caa7bfbfa71eacf3",
            "GPL-3.0-or-later WITH GCC-exception-3.1",
        ),
        (
            "g/gcc-12/libstdc%2b%2b6_12.2.0-14%2bdeb12u1",
            "26e138c677a985775331373828a6c286c551ff397cb735d00e2383cb273d1cb2",
            "GPL-3.0-or-later WITH GCC-exception-3.1",
        ),
        ("z/zlib/zlib1g_1.2.13.dfsg-1", "52b8b8a145bbe1956bba82034f77022cbef0c3d0885c9e32d9817a7932fe1913", "Zlib"),
        (
            "e/expat/libexpat1_2.5.0-1%2bdeb12u2",
            "8dc1976735acf825e3a922d82f171e20feec7394da2b8c616091983e38706275",
            "MIT",
        ),
        (
            "o/openssl/libssl3_3.0.20-1~deb12u2",
            "a256e03cc3abd7243ac5c6ee91a9deb56478221ef0d3c2b0748551e13140c0bf",
            "Apache-2.0",
        ),
        ("libf/libffi/libffi8_3.4.4-1", "80b5c36177dc0e29d531c7eddbed3cc7355cb490e49f8cfa5959572d161f27b3", "MIT"),
        (
            "b/bzip2/libbz2-1.0_1.0.8-5%2bb1",
            "d3a96ece03326498b39ff093a76800dfcbcb1d4049d6ae6e9f6fa1aa7a590ad6",
            "bzip2-1.0.6",
        ),
        (
            "x/xz-utils/liblzma5_5.4.1-1%2bdeb12u1",
            "647ce9d81e41c30071ce6ac0d3324579216a33aaa1d28971d6952315f6a95a75",
            "0BSD",
        ),
    )
)

# Each: its name and version at PyPI, its platform, its hash, its license.
_PINNED = (
    (
        "numpy",
        "2.4.6",
        "manylinux_2_28_aarch64",
        "0ab0a9c4ffb1a6d95ef519fe4247dba8eb6b18ad93999f76b7f657039acabd47",
        "BSD-3-Clause",
    ),
    (
        "ai-edge-litert",
        "2.3.0",
        "manylinux_2_27_aarch64",
        "853fc608f96da87bd5f3458465dfb9abbf18d5ae6b94eceacead407146f175ae",
        "Apache-2.0",
    ),
    (
        "cryptography",
        "50.0.2",
        "manylinux_2_28_aarch64",
        "f9f6143a8c75945eb960d9eb98905a441394abfa24afaae239d514ffb2586480",
        "Apache-2.0 OR BSD-3-Clause",
    ),
    (
        "cffi",
        "2.1.1",
        "manylinux_2_17_aarch64",
        "3311ed60d36f83378794e1009ac6258bafbf81f7888b4caa7b35a521e3f95813",
        "MIT",
    ),
)
WHEELS = {ONNXRUNTIME.package: ONNXRUNTIME} | {
    package: Wheel(package=package, version=version, platform=platform, sha256=sha256, license=license, members={})
    for package, version, platform, sha256, license in _PINNED
}


def lay(root: Path, wheels: list[str]) -> Path:
    """The Python with these wheels in the folder `root` (227 MB with both runtimes), and the program that starts it.

    Raises:
        InputError: a wheel is not among those that are pinned.
        MissingError: a registry can't be reached.
        StageError: an archive is not what is pinned.
    """
    unknown = [name for name in wheels if name not in WHEELS]
    if unknown:
        raise InputError(f"there is no pinned wheel '{unknown[0]}'; known: {', '.join(WHEELS)}")
    root.mkdir(parents=True, exist_ok=True)
    for deb in PACKAGES:
        subprocess.run(["dpkg-deb", "--extract", fetch(deb, ARCHIVES), root], check=True)
    for name in wheels:
        with zipfile.ZipFile(fetch(WHEELS[name], ARCHIVES)) as archive:
            archive.extractall(root / SITE)
    program = root / "python"
    program.write_text(_starter(root.absolute()))
    program.chmod(0o755)
    return program


def _starter(root: Path) -> str:
    libraries = ":".join(str(root / folder) for folder in LIBRARIES)
    argv = shlex.join([str(root / LOADER), "--library-path", libraries, str(root / PYTHON)])
    return f"""#!/bin/sh
export PYTHONHOME={shlex.quote(str(root / "usr"))} PYTHONPATH={shlex.quote(str(root / SITE))} PYTHONDONTWRITEBYTECODE=1
exec timeout 1d {argv} "$@"
"""


if __name__ == "__main__":
    try:
        print(lay(Path(sys.argv[1]), sys.argv[2:] or ["numpy", "ai-edge-litert", "onnxruntime"]))
    except EdgebenchError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_status)
