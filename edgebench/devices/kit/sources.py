"""The archives that a kit is made of, pinned by their hash: wheels of PyPI and packages of Debian."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel of PyPI for aarch64 Linux. The Python in its tag does not matter: only its shared library is used."""

    package: str
    version: str
    platform: str
    sha256: str
    license: str
    members: dict[str, str]

    @property
    def name(self) -> str:
        return f"{self.package} {self.version} ({self.platform} wheel)"

    @property
    def source(self) -> str:
        """Its package URL (purl), which names no index: pip asks the user's."""
        return f"pkg:pypi/{self.package}@{self.version}?platform={self.platform}"


_DEBIAN = "http://deb.debian.org/debian/pool/main/"  # without TLS, as apt has it: the hash is what is trusted


@dataclass(frozen=True, slots=True, kw_only=True)
class DebianPackage:
    """A package of Debian 12, by its place in the pool of an archive."""

    place: str
    sha256: str
    license: str
    members: dict[str, str]
    pool: str = _DEBIAN

    @property
    def name(self) -> str:
        return f"{PurePosixPath(self.place).name.split('_')[0]} (Debian package)"

    @property
    def source(self) -> str:
        return self.pool + self.place


# The last ai-edge-litert whose library exports the TensorFlow Lite C API on aarch64: 2.1.2 to 2.3.0 only have the
# C API of LiteRT's compiled models, which choose delegates in other ways than the interpreter that we measure.
LITERT = Wheel(
    package="ai-edge-litert",
    version="2.1.1",
    platform="manylinux_2_27_aarch64",
    sha256="00508a1d289b5662f78a6f2779b2ed1e11b9fd83df39d384468ba6f9a16ce621",
    license="Apache-2.0",
    members={"ai_edge_litert/libLiteRt.so": "lib/libLiteRt.so"},
)
ONNXRUNTIME = Wheel(
    package="onnxruntime",
    version="1.32.0",
    platform="manylinux_2_28_aarch64",
    sha256="2303372a85299b6757b0e11e1cbf13e410ddf7e10c37f4b37e99d1c90e7daf7c",
    license="MIT",
    members={"onnxruntime/capi/libonnxruntime.so.1.32.0": "lib/libonnxruntime.so.1"},
)
WHEELS = (LITERT, ONNXRUNTIME)

_LIBRARIES = "./usr/aarch64-linux-gnu/lib/"
# A phone has bionic, which the libraries can't use: they get the glibc that they were linked against, and its loader.
PACKAGES = (
    DebianPackage(
        place="c/cross-toolchain-base/libc6-arm64-cross_2.36-8cross1_all.deb",
        sha256="91936cbbee75771c360ed16513f6e734a25ca5517fe7c3e13dfd7835d7553186",
        license="LGPL-2.1-or-later",
        members={
            _LIBRARIES + "ld-linux-aarch64.so.1": "ld-linux-aarch64.so.1",
            **{
                _LIBRARIES + name: f"lib/{name}"
                for name in ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1")
            },
        },
    ),
    DebianPackage(
        place="g/gcc-12-cross/libgcc-s1-arm64-cross_12.2.0-14cross1_all.deb",
        sha256="af1e686fc6a416228222e7bfb68317dd2fa2685236301ae29141fc6108a66cac",
        license="GPL-3.0-or-later WITH GCC-exception-3.1",
        members={_LIBRARIES + "libgcc_s.so.1": "lib/libgcc_s.so.1"},
    ),
    DebianPackage(
        place="g/gcc-12-cross/libstdc%2b%2b6-arm64-cross_12.2.0-14cross1_all.deb",
        sha256="9cba984b64d0cf11698978fc5e0fe93c7441d29b9f42f70f1c6c734cc9e2ea41",
        license="GPL-3.0-or-later WITH GCC-exception-3.1",
        members={_LIBRARIES + "libstdc++.so.6.0.30": "lib/libstdc++.so.6"},
    ),
)
