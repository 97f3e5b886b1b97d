"""Prepared samples on disk: written once, one at a time, then memory-mapped by every later stage.

A sample set is a folder with `input-0.npy`, `input-1.npy` ..., optionally `labels-0.npy` and `target-0.npy` ..., and
`samples.json`, which says which tensor each file holds. Tensor and sample names live only in the JSON, so a hostile
name never becomes a path.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from edgebench.errors import DataError
from edgebench.types import SampleSet

AnyArray = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]

_INDEX = "samples.json"
_FILE_NAME = re.compile(r"(input|target|labels)-\d+\.npy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Samples in the baseline's names, layout and dtype; every array has n samples on its first axis.

    `labels` are int64, (n,) for classes or (n, h, w) for masks. `names` tell a person which sample is meant (a file's
    path, or its index). Arrays opened from disk are read-only memory maps.
    """

    inputs: dict[str, AnyArray]
    labels: IntArray | None
    targets: dict[str, AnyArray]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)


class Kind(NamedTuple):
    """A tensor's shape without the sample axis, and its dtype."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Row(NamedTuple):
    """One sample: its inputs and targets by name, and its label (None where the set has none)."""

    inputs: dict[str, AnyArray]
    targets: dict[str, AnyArray]
    label: AnyArray | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleStream:
    """What `write_samples` takes: each tensor's kind (`label` None is no labels), and one row for each of `names`."""

    names: tuple[str, ...]
    inputs: dict[str, Kind]
    targets: dict[str, Kind]
    label: Kind | None
    rows: Iterator[Row]


def write_samples(run_folder: Path, purpose: Literal["evaluation", "calibration"], stream: SampleStream) -> SampleSet:
    """The sample set written to `run_folder/data/PURPOSE`, whole or not at all; an older one there is replaced.

    Only one sample is in memory at a time. The hash covers tensor names, types, shapes and bytes, not sample names.

    Raises:
        DataError: the stream has no sample, or the disk refused.
    """
    if not stream.names:
        raise DataError(f"the {purpose} set is empty: give at least one sample")
    folder = run_folder / "data" / purpose
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{purpose}-", dir=folder.parent) as scratch:
            fresh = Path(scratch) / "new"
            fresh.mkdir()
            digest = _write(fresh, stream)
            if folder.exists():
                folder.rename(Path(scratch) / "old")
            fresh.rename(folder)
    except OSError as error:
        raise DataError(f"the {purpose} samples can't be written to {folder}: {error.strerror or error}") from error
    return SampleSet(
        purpose=purpose,
        path=folder.relative_to(run_folder).as_posix(),
        n=len(stream.names),
        sha256=digest,
    )


def remove_samples(run_folder: Path, purpose: Literal["evaluation", "calibration"]) -> None:
    """Drop what an earlier, different request left, so that a folder never holds a set that the run doesn't use."""
    shutil.rmtree(run_folder / "data" / purpose, ignore_errors=True)


def open_samples(run_folder: Path, sample_set: SampleSet) -> Samples:
    """The samples of a set, memory-mapped read-only.

    Raises:
        DataError: a file is missing, damaged, or not what the set says.
    """
    folder = run_folder / sample_set.path
    try:
        index = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
        samples = Samples(
            inputs={entry["name"]: _map(folder, entry["file"]) for entry in index["inputs"]},
            labels=_map(folder, index["labels"][0]["file"]) if index["labels"] else None,
            targets={entry["name"]: _map(folder, entry["file"]) for entry in index["targets"]},
            names=tuple(str(name) for name in index["names"]),
        )
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise DataError(
            f"the {sample_set.purpose} samples in {folder} are missing or damaged ({error}): "
            "run the same command again in a new --out folder"
        ) from error
    every = [*samples.inputs.values(), *samples.targets.values()] + ([] if samples.labels is None else [samples.labels])
    if len(samples) != sample_set.n or any(len(array) != sample_set.n for array in every):
        raise DataError(f"the {sample_set.purpose} samples in {folder} are not the {sample_set.n} that were prepared")
    return samples


def _map(folder: Path, file_name: str) -> AnyArray:
    if not _FILE_NAME.fullmatch(file_name):
        raise ValueError(f"file name {file_name!r} is not one that edgebench writes")
    mapped: AnyArray = np.load(folder / file_name, mmap_mode="r", allow_pickle=False)
    return mapped


def _write(folder: Path, stream: SampleStream) -> str:
    n = len(stream.names)
    inputs = _Tensors(folder, "input", n, stream.inputs)
    targets = _Tensors(folder, "target", n, stream.targets)
    labels = _Tensors(folder, "labels", n, {} if stream.label is None else {"labels": stream.label})
    for position, row in enumerate(stream.rows):
        inputs.write(position, row.inputs)
        targets.write(position, row.targets)
        labels.write(position, {} if row.label is None else {"labels": row.label})
    digest = hashlib.sha256()
    for tensors in (inputs, targets, labels):
        tensors.digest_into(digest)
    index = {
        "names": stream.names,
        "inputs": inputs.entries(),
        "targets": targets.entries(),
        "labels": labels.entries(),
    }
    (folder / _INDEX).write_text(json.dumps(index, indent=1), encoding="utf-8")
    return digest.hexdigest()


class _Tensors:
    """The files of one role (input, target or labels), filled sample by sample."""

    def __init__(self, folder: Path, role: str, n: int, kinds: dict[str, Kind]) -> None:
        self._role = role
        self._files = {name: f"{role}-{position}.npy" for position, name in enumerate(kinds)}
        self._maps = {
            name: np.lib.format.open_memmap(  # type: ignore[no-untyped-call]  # numpy leaves it untyped
                os.fspath(folder / self._files[name]), mode="w+", dtype=kind.dtype, shape=(n, *kind.shape)
            )
            for name, kind in kinds.items()
        }

    def write(self, position: int, row: dict[str, AnyArray]) -> None:
        for name, array in self._maps.items():
            array[position] = row[name]

    def entries(self) -> list[dict[str, str]]:
        return [{"name": name, "file": file_name} for name, file_name in self._files.items()]

    def digest_into(self, digest: hashlib._Hash) -> None:
        for name, array in self._maps.items():
            array.flush()
            digest.update(json.dumps([self._role, name, array.dtype.str, array.shape]).encode())
            for sample in array:
                digest.update(np.ascontiguousarray(sample).tobytes())
