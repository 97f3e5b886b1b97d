"""DATA as an .npz: one array per model input by name, optionally `labels` or `target:OUTPUT`; nothing is unpickled."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
import zlib
from pathlib import Path

import numpy as np

from edgebench.data.samples import AnyArray
from edgebench.data.sources.protocol import ArrayData, Pools, Wanted
from edgebench.data.wording import shown, shown_shape
from edgebench.errors import DataError

_DAMAGE = (OSError, EOFError, ValueError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error)


class Npz:
    """Members are unpacked to temporary files and memory-mapped, so a set larger than memory works."""

    syntax = "an .npz with one array per model input"

    def recognises(self, source: str) -> bool:
        return source.lower().endswith(".npz")

    def file(self, source: str) -> Path:
        return Path(source)

    def open(self, source: str, wanted: Wanted) -> Pools:
        path = Path(source)
        if not path.is_file():
            raise DataError(f"there is no file {shown(path)}")
        arrays = _unpack(path, Path(tempfile.mkdtemp(dir=wanted.scratch)))
        names = tuple(str(index) for index in range(_sample_count(path, arrays)))
        return Pools(evaluation=ArrayData(source=source, names=names, arrays=arrays))


def _unpack(path: Path, folder: Path) -> dict[str, AnyArray]:
    arrays: dict[str, AnyArray] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            _check_space(path, sum(member.file_size for member in archive.infolist()), folder)
            for position, member in enumerate(archive.namelist()):
                name = member.removesuffix(".npy")
                # The member's name never becomes a path.
                unpacked = folder / f"{position}.npy"
                with archive.open(member) as packed, unpacked.open("wb") as file:
                    shutil.copyfileobj(packed, file, 1 << 20)
                arrays[name] = _mapped(path, name, unpacked)
    except _DAMAGE as error:
        raise DataError(f"{shown(path)} is cut short or no .npz file ({error}): write it again") from error
    if not arrays:
        raise DataError(f"{shown(path)} holds no array")
    return arrays


def _check_space(path: Path, unpacked_bytes: int, folder: Path) -> None:
    free_bytes = shutil.disk_usage(folder).free
    if unpacked_bytes > free_bytes:
        raise DataError(
            f"{shown(path)} unpacks to {unpacked_bytes / 1e9:.1f} GB, {free_bytes / 1e9:.1f} GB are free for it: "
            "free some space or give fewer samples"
        )


def _mapped(path: Path, name: str, unpacked: Path) -> AnyArray:
    with unpacked.open("rb") as file:
        try:
            version = np.lib.format.read_magic(file)  # type: ignore[no-untyped-call]  # numpy leaves it untyped
            read_header = (
                np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            )
            _, _, dtype = read_header(file)  # type: ignore[no-untyped-call]  # numpy leaves it untyped
        except ValueError as error:
            raise DataError(f"{shown(path)}: its member '{shown(name)}' is no array ({error})") from error
    if dtype.hasobject:
        raise DataError(
            f"{shown(path)}: the array '{shown(name)}' holds Python objects (a pickle), which are never loaded: "
            "save it with a number type"
        )
    mapped: AnyArray = np.load(unpacked, mmap_mode="r", allow_pickle=False)
    return mapped


def _sample_count(path: Path, arrays: dict[str, AnyArray]) -> int:
    for name, array in arrays.items():
        if array.ndim == 0:
            raise DataError(f"{shown(path)}: the array '{shown(name)}' is a single value; it needs a sample axis")
    counts = {len(array) for array in arrays.values()}
    if len(counts) > 1:
        shapes = ", ".join(f"'{shown(name)}' {shown_shape(array.shape)}" for name, array in arrays.items())
        raise DataError(f"{shown(path)}: the arrays hold different numbers of samples on their first axis: {shapes}")
    if counts == {0}:
        raise DataError(f"{shown(path)} holds 0 samples")
    return counts.pop()
