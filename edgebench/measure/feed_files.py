"""Encoded inputs as .npy files: written once, and shared by all files that take the same bytes."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgebench.arrays import Array
from edgebench.hashing import file_sha256
from edgebench.measure import feed
from edgebench.types import Binding


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedFile:
    """One input's samples, `n` of them on axis 0, in a file's own dtype; `sha256` is the .npy file's."""

    path: Path
    sha256: str
    n: int


class FeedFolder:
    """Feeds of one run. Two converted files whose inputs are encoded alike are fed one; threads may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: dict[str, FeedFile] = {}
        self._one_writer = threading.Lock()

    def files(
        self, samples_sha256: str, inputs: Mapping[str, Array], artifact_inputs: tuple[Binding, ...]
    ) -> dict[str, FeedFile]:
        """The baseline's inputs as a file's (see `feed.encode`), by the file's input names.

        `samples_sha256` names the content of `inputs`, whose rows may be a part of it.

        Raises:
            StageError: as `feed.encode` does.
        """
        keys = {b.tensor.name: _key(samples_sha256, inputs.get(b.baseline), b) for b in artifact_inputs}
        with self._one_writer:
            if not all(key in self._written for key in keys.values()):
                for name, samples in feed.encode(inputs, artifact_inputs).items():
                    self._written[keys[name]] = write(self._folder / f"{keys[name]}.npy", samples)
        return {name: self._written[key] for name, key in keys.items()}


def write(path: Path, samples: Array) -> FeedFile:
    """The samples as an .npy file at `path`, hashed on the way out."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, samples, allow_pickle=False)
    return FeedFile(path=path, sha256=file_sha256(path), n=len(samples))


def _key(samples_sha256: str, samples: Array | None, binding: Binding) -> str:
    """What the bytes depend on: the samples and how they are encoded, not what the file calls its input."""
    encoding = replace(binding, tensor=replace(binding.tensor, name=""))
    rows = None if samples is None else samples.shape
    return hashlib.sha256(repr((samples_sha256, rows, encoding)).encode()).hexdigest()[:24]
