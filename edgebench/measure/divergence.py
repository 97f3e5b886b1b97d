"""How far a file's outputs are from a reference's, number by number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.arrays import Array
from edgebench.errors import StageError
from edgebench.types import OutputError, SliceError

# The last axis is told apart index by index up to this size: boxes, scores and small class counts, not feature maps.
SLICES_MAX = 32
# Sums are taken over blocks of at most this many numbers, so that float64 copies stay at 8 MB each.
_BLOCK_NUMBERS = 1 << 20


def compare(reference: Mapping[str, Array], outputs: Mapping[str, Array]) -> dict[str, OutputError]:
    """The error of each output against the reference's of the same name; arrays have the same shape (n, ...).

    SQNR is 10 log10(sum reference^2 / sum (reference - output)^2) dB over all samples: inf where the two are equal, and
    -inf where the reference is all zeros and the output is not. Cosine is over all samples as one vector: 1 where both
    are all zeros, 0 where one is. Slices are of the last axis, where it has 2 to `SLICES_MAX` indices and is not the
    samples'.

    Raises:
        StageError: names or shapes differ, there is no sample, or a number is NaN or infinite.
    """
    if set(reference) != set(outputs):
        raise StageError(f"outputs differ by name: reference {sorted(reference)}, this file {sorted(outputs)}")
    return {name: _compare_one(name, reference[name], outputs[name]) for name in reference}


@dataclass
class _Sums:
    """What the figures need, for each index of the last axis (or one index, where slices are not told apart)."""

    reference: NDArray[np.float64]
    output: NDArray[np.float64]
    product: NDArray[np.float64]
    error: NDArray[np.float64]
    absolute: NDArray[np.float64]
    largest: NDArray[np.float64]


def _compare_one(name: str, reference: Array, output: Array) -> OutputError:
    if reference.shape != output.shape:
        raise StageError(
            f"output '{name}' has shape {list(output.shape)}, but the reference's is {list(reference.shape)}: "
            "the same samples in the same axes are needed"
        )
    if reference.size == 0:
        raise StageError(f"output '{name}' has shape {list(output.shape)}: nothing to compare")
    has_slices = reference.ndim > 1 and 2 <= reference.shape[-1] <= SLICES_MAX
    width = reference.shape[-1] if has_slices else 1
    sums = _Sums(*(np.zeros(width) for _ in range(6)))
    step = max(1, _BLOCK_NUMBERS // max(1, math.prod(reference.shape[1:])))
    for start in range(0, reference.shape[0], step):
        expected = _finite(name, "the reference's", reference[start : start + step], start).reshape(-1, width)
        found = _finite(name, "this file's", output[start : start + step], start).reshape(-1, width)
        _add(sums, expected, found)
    return OutputError(
        sqnr_db=_sqnr_db(sums.reference.sum(), sums.error.sum()),
        cosine=_cosine(sums.product.sum(), sums.reference.sum(), sums.output.sum()),
        max_abs_error=float(sums.largest.max()),
        mean_abs_error=float(sums.absolute.sum() / reference.size),
        slices=tuple(
            SliceError(
                index=i,
                sqnr_db=_sqnr_db(sums.reference[i], sums.error[i]),
                max_abs_error=float(sums.largest[i]),
            )
            for i in range(width)
        )
        if has_slices
        else (),
    )


def _add(sums: _Sums, expected: NDArray[np.float64], found: NDArray[np.float64]) -> None:
    difference = expected - found
    absolute = np.abs(difference)
    sums.reference += np.einsum("nk,nk->k", expected, expected)
    sums.output += np.einsum("nk,nk->k", found, found)
    sums.product += np.einsum("nk,nk->k", expected, found)
    sums.error += np.einsum("nk,nk->k", difference, difference)
    sums.absolute += absolute.sum(axis=0)
    np.maximum(sums.largest, absolute.max(axis=0), out=sums.largest)


def _finite(name: str, whose: str, block: Array, first_sample: int) -> NDArray[np.float64]:
    """The block in float64; a NaN or Inf spoils every figure and, on a device, every decision: so the cell fails."""
    values = block.astype(np.float64)
    bad = ~np.isfinite(values)
    if bad.any():
        sample = first_sample + int(np.argmax(bad.reshape(len(block), -1).any(axis=1)))
        raise StageError(
            f"output '{name}': {whose} numbers have NaN or Inf, first in evaluation sample {sample}: "
            "look at its inputs, or for an overflow (fp16) or a division by zero"
        )
    return values


def _sqnr_db(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 else -math.inf


def _cosine(product: float, reference: float, output: float) -> float:
    if reference == 0 or output == 0:
        return 1.0 if reference == output else 0.0
    return max(-1.0, min(1.0, float(product / (math.sqrt(reference) * math.sqrt(output)))))
