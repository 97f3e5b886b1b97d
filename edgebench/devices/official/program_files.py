"""The file of an official program: taken from its path or fetched by https, proven by its hash, kept in the cache."""

from __future__ import annotations

import hashlib
import shutil
import urllib.error
import urllib.request
from dataclasses import dataclass, fields, replace
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from edgebench.atomic import replacing
from edgebench.cache_folder import cache_folder
from edgebench.errors import InputError, MissingError, StageError
from edgebench.hashing import file_sha256
from edgebench.types import OfficialTool, OfficialTools

_LIMIT_S = 60.0  # without a byte
_MAX_BYTES = 256 << 20  # benchmark_model with the Flex operators has about 100 MB
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFile:
    """A program on this machine, executable; `sha256` names the build, because the programs tell no version."""

    path: Path
    sha256: str


def beside(tools: OfficialTools, folder: Path) -> OfficialTools:
    """The tools with their relative paths made relative to `folder`, where the file that names them lies."""
    given: dict[str, OfficialTool | None] = {field.name: getattr(tools, field.name) for field in fields(tools)}
    return replace(
        tools,
        **{
            name: replace(tool, path=str(folder / Path(tool.path).expanduser()))
            for name, tool in given.items()
            if tool is not None and tool.path is not None
        },
    )


def bring(tool: OfficialTool, name: str, device: str) -> ProgramFile:
    """The program `name` of device `device`, as a file of the cache folder that nobody else writes.

    Raises:
        InputError: the file is not there, or is another one than its sha256 says.
        MissingError: the address can't be reached, or gives no file.
        StageError: what came is too long, or not what the sha256 says.
    """
    where = f"device '{device}', {name}"
    home = cache_folder("official-tools")
    if tool.path is not None:
        return _taken(Path(tool.path), tool.sha256, home, name, where)
    sha256 = (tool.sha256 or "").lower()
    kept = home / sha256 / name
    if not (kept.is_file() and file_sha256(kept) == sha256):
        with replacing(kept) as temporary:
            _download(str(tool.url), sha256, temporary, where)
            temporary.chmod(0o755)
    return ProgramFile(path=kept, sha256=sha256)


def _taken(path: Path, wanted: str | None, home: Path, name: str, where: str) -> ProgramFile:
    if not path.is_file():
        raise InputError(f"{where}: {path} is {'a folder' if path.is_dir() else 'not there'}; name the program's file")
    try:
        sha256 = file_sha256(path)
        if wanted is not None and sha256 != wanted.lower():
            raise InputError(
                f"{where}: {path} has the sha256 {sha256}, not {wanted.lower()}; take the right file, or correct "
                "`sha256:`"
            )
        kept = home / sha256 / name
        if not (kept.is_file() and file_sha256(kept) == sha256):
            with replacing(kept) as temporary:
                shutil.copyfile(path, temporary)
                temporary.chmod(0o755)
    except OSError as error:
        raise InputError(f"{where}: {path} can't be read: {error.strerror or error}") from error
    return ProgramFile(path=kept, sha256=sha256)


class _HttpsOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirects from https to https; an address that leads out of it is an error."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        if urlsplit(newurl).scheme != "https":
            raise urllib.error.URLError(f"it leads on to {newurl[:200]!r}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _download(url: str, sha256: str, target: Path, where: str) -> None:
    opener = urllib.request.build_opener(_HttpsOnly())
    digest, size_bytes = hashlib.sha256(), 0
    try:
        with opener.open(url, timeout=_LIMIT_S) as response, target.open("wb") as file:
            while chunk := response.read(_CHUNK_BYTES):
                size_bytes += len(chunk)
                if size_bytes > _MAX_BYTES:
                    raise StageError(f"{where}: {url} gives more than {_MAX_BYTES >> 20} MiB; no program is that long")
                digest.update(chunk)
                file.write(chunk)
    except (OSError, HTTPException, ValueError) as error:  # urllib.error.URLError is an OSError
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise MissingError(
            f"{where}: {url} can't be fetched: {reason}; check the address and the network, or download it and name "
            "its `path:`"
        ) from error
    if digest.hexdigest() != sha256:
        raise StageError(
            f"{where}: {url} gave a file with the sha256 {digest.hexdigest()}, not {sha256}; it was not used"
        )
