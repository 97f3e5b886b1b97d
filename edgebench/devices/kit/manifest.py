"""What is in a kit and where each file came from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from edgebench.atomic import replacing
from edgebench.errors import InputError

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class KitFile:
    """A file of a kit. `path` is relative to the kit's folder; it was part of `package`, whose address is `source`."""

    path: str
    sha256: str
    size_bytes: int
    package: str
    source: str
    source_sha256: str
    license: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A whole kit. `runtimes` are the versions that it runs, by runtime; `compiler` made the runner."""

    kit: str
    target: str
    compiler: str
    runtimes: dict[str, str]
    files: tuple[KitFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def write(manifest: Manifest, folder: Path) -> None:
    """Put the manifest into the kit's folder."""
    with replacing(folder / MANIFEST) as temporary:
        temporary.write_text(json.dumps(asdict(manifest), indent=1) + "\n", encoding="utf-8")


def read(folder: Path) -> Manifest:
    """The manifest of the kit in `folder`.

    Raises:
        InputError: there is none, or it is not one that `write` made.
    """
    path = folder / MANIFEST
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        files = tuple(KitFile(**file) for file in values.pop("files"))
        return Manifest(**values, files=files)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"{path} is not the manifest of a kit ({type(error).__name__}); remove {folder}, "
            "then: edgebench devices kit build"
        ) from error
