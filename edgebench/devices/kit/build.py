"""Builds a kit: cross-compiles our runner with zig, and lays the runtimes' libraries and a glibc beside it."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path, PurePosixPath

from edgebench.cache_folder import cache_folder
from edgebench.devices.kit import manifest as manifests
from edgebench.devices.kit.fetch import fetch, members_of
from edgebench.devices.kit.manifest import KitFile, Manifest
from edgebench.devices.kit.sources import LITERT, ONNXRUNTIME, PACKAGES, WHEELS
from edgebench.errors import StageError, missing_extra
from edgebench.hashing import file_sha256

RUNNER_SOURCES = Path(__file__).with_name("runner")
# The oldest glibc for aarch64; every newer one runs it.
TARGET = "aarch64-linux-gnu.2.17"
RUNNER = "edgebench-runner"
_LOADER = "ld-linux-aarch64.so.1"
_COMPILE_LIMIT_S = 600


def kit_folder() -> Path:
    """The folder of a whole kit of this edgebench, built in the cache folder where it is not there yet.

    Only one process builds; others wait for it and take what it made.

    Raises:
        MissingError: the extra `kit` is not installed, or a registry can't be reached.
        StageError: an archive is not what is pinned, or the runner does not compile.
    """
    kits = cache_folder("kits")
    folder = kits / _identity()
    kits.mkdir(parents=True, exist_ok=True)
    with (kits / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / manifests.MANIFEST).is_file():
            build(folder)
    return folder


def build(target: Path) -> Manifest:
    """Make the kit in the folder `target` and say what is in it; the manifest is written last.

    Archives are kept in the cache folder, so only the first build needs the network.

    Raises:
        MissingError, StageError: as `kit_folder` does.
    """
    compiler = _compiler()
    shutil.rmtree(target / "lib", ignore_errors=True)
    (target / manifests.MANIFEST).unlink(missing_ok=True)
    (target / "lib").mkdir(parents=True, exist_ok=True)
    files = []
    for archive in (*WHEELS, *PACKAGES):
        path = fetch(archive, cache_folder("kits") / "archives")
        for place, content in members_of(archive, path).items():
            (target / place).write_bytes(content)
            files.append(_described(target, place, archive.name, archive.source, archive.sha256, archive.license))
    compile_runner(target / RUNNER, TARGET)
    files.append(
        _described(target, RUNNER, "edgebench", "edgebench/devices/kit/runner", sources_sha256(), "Apache-2.0")
    )
    for program in (_LOADER, RUNNER):
        (target / program).chmod(0o755)
    made = Manifest(
        kit=_identity(),
        target=TARGET,
        compiler=compiler,
        runtimes={"litert": LITERT.version, "onnxruntime": ONNXRUNTIME.version},
        files=tuple(files),
    )
    manifests.write(made, target)
    return made


def files(folder: Path) -> dict[str, Path]:
    """What to push: the local file by its path in the kit's folder on the device. The manifest stays here.

    `ld-linux-aarch64.so.1` must be executable there; its files prove themselves by the hashes of the manifest.

    Raises:
        InputError: `folder` holds no kit.
        StageError: a file is gone or is not what the manifest says.
    """
    content = {}
    for file in manifests.read(folder).files:
        path = folder / file.path
        if not path.is_file() or file_sha256(path) != file.sha256:
            raise StageError(
                f"{path} is not what its manifest says; remove {folder}, then: edgebench devices kit build"
            )
        content[file.path] = path
    return content


def command(remote_folder: str) -> tuple[str, ...]:
    """How to start the runner on a device that has the kit in `remote_folder`; append the job and the result path.

    The loader is the program, so neither root nor a library of the device is needed, and the folder may be any.
    """
    folder = PurePosixPath(remote_folder)
    # A program without a slash would be looked for on PATH, and by the loader among the libraries.
    prefix = f"{folder}/" if folder.parts else "./"
    return (prefix + _LOADER, "--library-path", prefix + "lib", prefix + RUNNER)


def compile_runner(output: Path, target: str) -> None:
    """Compile the runner for a zig target like "aarch64-linux-gnu.2.17" into the file `output` (6 s).

    Raises:
        MissingError: the extra `kit` is not installed.
        StageError: it does not compile.
    """
    _compiler()
    argv = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-std=gnu17", "-O2", "-fPIE", "-pie", "-s"]
    argv += ["-Wall", "-Wextra", "-Werror", f'-DLITERT_VERSION="{LITERT.version}"']
    argv += [*map(str, sorted(RUNNER_SOURCES.glob("*.c"))), "-ldl", "-o", str(output)]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_COMPILE_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise StageError(f"compiling the runner for {target} took over {_COMPILE_LIMIT_S} s") from error
    if done.returncode != 0:
        reason = next((line for line in done.stderr.splitlines() if "error" in line), "no message")
        raise StageError(f"the runner does not compile for {target}: {reason.strip()}")


def sources_sha256() -> str:
    """The hash of the runner's source files and their names."""
    digest = hashlib.sha256()
    for path in sorted(RUNNER_SOURCES.glob("*.[ch]")):
        digest.update(f"{path.name} {file_sha256(path)}\n".encode())
    return digest.hexdigest()


def _compiler() -> str:
    if importlib.util.find_spec("ziglang") is None:
        raise missing_extra("ziglang", "kit", "building the kit for devices without Python")
    return f"ziglang {importlib.metadata.version('ziglang')}"


def _identity() -> str:
    """The content hash of everything that a kit is made from, and of what its manifest tells."""
    told = [field.name for field in fields(KitFile)]
    parts = [TARGET, _compiler(), sources_sha256(), *told, *(archive.sha256 for archive in (*WHEELS, *PACKAGES))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _described(target: Path, place: str, package: str, source: str, source_sha256: str, licence: str) -> KitFile:
    path = target / place
    return KitFile(
        path=place,
        sha256=file_sha256(path),
        size_bytes=path.stat().st_size,
        package=package,
        source=source,
        source_sha256=source_sha256,
        license=licence,
    )
