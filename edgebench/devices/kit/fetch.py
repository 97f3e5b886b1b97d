"""Archives fetched from their registry into a cache, proven by their hash, and single files taken out of them."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

from edgebench.atomic import replacing
from edgebench.devices.kit.sources import DebianPackage, Wheel
from edgebench.errors import MissingError, StageError
from edgebench.hashing import file_sha256

_LIMIT_S = 900
_MAX_PACKAGE_BYTES = 64 << 20


def fetch(archive: Wheel | DebianPackage, cache: Path) -> Path:
    """The archive in the folder `cache`, from the network where it is not there yet (1 to 23 MB).

    Raises:
        MissingError: the registry can't be reached or has no such archive.
        StageError: what came is not what is pinned.
    """
    path = cache / archive.sha256
    if path.is_file() and file_sha256(path) == archive.sha256:
        return path
    with replacing(path) as temporary:
        if isinstance(archive, Wheel):
            _download_wheel(archive, temporary)
        else:
            _download_package(archive, temporary)
        found = file_sha256(temporary)
        if found != archive.sha256:
            raise StageError(
                f"{archive.name} came with SHA-256 {found[:12]}..., not {archive.sha256[:12]}...; "
                "it was not used; try another network or index"
            )
    return path


def members_of(archive: Wheel | DebianPackage, path: Path) -> dict[str, bytes]:
    """The wanted files of a fetched archive, by their place in a kit.

    Raises:
        StageError: the archive has not all of them.
    """
    try:
        content = _from_wheel(archive, path) if isinstance(archive, Wheel) else _from_package(archive, path)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, tarfile.TarError) as error:
        raise StageError(f"{archive.name} can't be unpacked: {error}") from error
    return content


def _download_wheel(wheel: Wheel, target: Path) -> None:
    """By pip, which knows the user's index, proxy and certificates."""
    requirement = f"{wheel.package}=={wheel.version}"
    with tempfile.TemporaryDirectory(prefix="edgebench-wheel-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--no-deps"]
        command += ["--only-binary=:all:", "--platform", wheel.platform, "--implementation", "cp"]
        command += ["--python-version", "3.11", "--dest", folder, requirement]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise MissingError(f"the kit needs {requirement} from PyPI, and pip took over {_LIMIT_S} s") from error
        found = list(Path(folder).glob("*.whl"))
        if done.returncode != 0 or len(found) != 1:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise MissingError(
                f"the kit needs the {wheel.platform} wheel of {requirement}, and pip could not fetch it: {reason}; "
                "check the network, then build the kit again"
            )
        target.write_bytes(found[0].read_bytes())


def _download_package(package: DebianPackage, target: Path) -> None:
    try:
        with urllib.request.urlopen(package.source, timeout=60) as response:
            content = response.read(_MAX_PACKAGE_BYTES)
    except (urllib.error.URLError, OSError) as error:
        raise MissingError(
            f"the kit needs {package.name}, which can't be fetched: {getattr(error, 'reason', error)}; "
            "check the network, then build the kit again"
        ) from error
    target.write_bytes(content)


def _from_wheel(wheel: Wheel, path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {place: archive.read(member) for member, place in wheel.members.items()}


def _from_package(package: DebianPackage, path: Path) -> dict[str, bytes]:
    """A .deb is an `ar` archive (deb(5)); its data.tar holds the files."""
    content = {}
    with tarfile.open(fileobj=io.BytesIO(_data_of(path.read_bytes())), mode="r:*") as archive:
        for member, place in package.members.items():
            file = archive.extractfile(member)
            if file is None:
                raise ValueError(f"{member} is not a file")
            content[place] = file.read()
    return content


def _data_of(deb: bytes) -> bytes:
    """The data.tar of a .deb: members of `ar` have a header of 60 bytes, the size at 48, and begin at even places."""
    at = 8
    while deb.startswith(b"!<arch>\n") and at + 60 <= len(deb):
        name, size = deb[at : at + 16].strip(b" /"), int(deb[at + 48 : at + 58])
        if name.startswith(b"data.tar"):
            return deb[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
    raise ValueError("it is not a Debian package")
