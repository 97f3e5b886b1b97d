"""What a snapshot holds, as each kind of snapshot tells it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgebench.types import Caution, Layout, TensorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Inputs and outputs in the snapshot's own order; `sha256` is equal for equal models (see each `read`)."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    parameters: int
    sha256: str
    cautions: tuple[Caution, ...] = ()


def hash_files(files: Sequence[Path]) -> str:
    """sha256 over the contents of the files, each by its name and in the order given."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}:{file.stat().st_size}\n".encode())
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def guess_layout(shape: tuple[int | None, ...]) -> Layout | None:
    """The layout of a 4-d tensor whose channels are 1, 3 or 4; None where the shape does not tell."""
    if len(shape) != 4:
        return None
    is_channel = [size in (1, 3, 4) for size in shape]
    if is_channel[1] == is_channel[3]:
        return None
    return "NCHW" if is_channel[1] else "NHWC"


def random_weights(model: str) -> Caution:
    """The doubt about a model that was never trained."""
    return Caution(
        code="random-weights",
        message=f"{model} has random weights: its latency and size count, its accuracy and agreement mean nothing",
        advice="for accuracy give trained weights: --weights FILE",
    )
