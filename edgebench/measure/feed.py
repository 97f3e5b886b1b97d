"""Takes samples from the baseline's names, axes and numbers to a converted file's, and its outputs back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench.arrays import Array
from edgebench.errors import StageError
from edgebench.types import Binding, Quantization, TensorSpec

# Samples are quantized in blocks of at most this many numbers, so that float64 copies stay at 32 MB.
_BLOCK_NUMBERS = 1 << 22


def encode(inputs: Mapping[str, Array], artifact_inputs: tuple[Binding, ...]) -> dict[str, Array]:
    """The baseline's inputs as a file's: by the file's names, in its axes and dtypes, samples on axis 0.

    A quantized integer tensor takes round_half_even(real / scale) + zero_point, clipped to its dtype's range; real /
    scale is computed in float64. An array that already has a file's integer dtype, and numbers for an integer tensor
    without quantization (token ids), pass as they are. An array that needs no change is passed on without a copy.

    Raises:
        StageError: names or shapes do not fit, or numbers do not fit the file's dtype (NaN, fractions, too large).
    """
    _check_names("input", "baseline", [binding.baseline for binding in artifact_inputs], list(inputs))
    return {binding.tensor.name: _encode_one(inputs[binding.baseline], binding) for binding in artifact_inputs}


def decode(raw: Mapping[str, Array], artifact_outputs: tuple[Binding, ...]) -> dict[str, Array]:
    """A file's raw outputs as the baseline's: by its names, in its axes, float32, samples on axis 0.

    A quantized integer tensor becomes scale * (integer - zero_point); any other is cast.

    Raises:
        StageError: names or shapes do not fit.
    """
    _check_names("output", "file", [binding.tensor.name for binding in artifact_outputs], list(raw))
    return {binding.baseline: _decode_one(raw[binding.tensor.name], binding) for binding in artifact_outputs}


def _encode_one(samples: Array, binding: Binding) -> Array:
    spec = binding.tensor
    if binding.permutation is not None:
        _check_rank(samples, binding, "input")
        samples = samples.transpose(binding.permutation)
    _check_shape(samples, spec, f"input '{binding.baseline}'")
    dtype = np.dtype(spec.dtype)
    if samples.dtype == dtype:
        return samples
    encoded = np.empty(samples.shape, dtype)
    for block in _blocks(samples.shape):
        encoded[block] = _to_dtype(samples[block], spec, dtype)
    return encoded


def _decode_one(raw: Array, binding: Binding) -> Array:
    spec = binding.tensor
    _check_shape(raw, spec, f"output '{spec.name}' of the file")
    if spec.quantization is not None and np.issubdtype(raw.dtype, np.integer):
        scale, zero_point = _broadcast(spec.quantization, raw.ndim)
        values = np.subtract(raw, zero_point, dtype=np.float32)
        values *= scale.astype(np.float32)
    else:
        values = raw.astype(np.float32, copy=False)
    if binding.permutation is None:
        return values
    _check_rank(raw, binding, "output")
    return np.ascontiguousarray(values.transpose(np.argsort(binding.permutation)))


def _to_dtype(block: Array, spec: TensorSpec, dtype: np.dtype[Any]) -> Array:
    if np.issubdtype(block.dtype, np.inexact) and np.isnan(block).any() and not np.issubdtype(dtype, np.inexact):
        raise StageError(f"input '{spec.name}' has NaN, which {dtype} can't hold: clean the data")
    if spec.quantization is not None and np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        scale, zero_point = _broadcast(spec.quantization, block.ndim)
        codes = np.rint(block.astype(np.float64) / scale) + zero_point
        quantized: Array = np.clip(codes, limits.min, limits.max).astype(dtype)
        return quantized
    with np.errstate(over="ignore", invalid="ignore"):
        cast = block.astype(dtype)
    if np.issubdtype(dtype, np.inexact):
        if np.isinf(cast).any() and not np.isinf(block).any():
            raise StageError(
                f"input '{spec.name}' has values beyond the range of {dtype}: scale the data, or keep float32"
            )
    elif not np.array_equal(cast, block):
        changed = int(np.argmax((cast != block).ravel()))
        raise StageError(
            f"input '{spec.name}' holds {block.ravel()[changed]}, which the file's {dtype} without a scale can't hold"
        )
    return cast


def _broadcast(quantization: Quantization, rank: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scale and zero point, shaped to broadcast over a tensor of that rank; `axis` counts the batch."""
    scales, zero_points = np.array(quantization.scales), np.array(quantization.zero_points, dtype=np.float64)
    if quantization.axis is None:
        return scales, zero_points
    shape = [1] * rank
    shape[quantization.axis] = scales.size
    return scales.reshape(shape), zero_points.reshape(shape)


def _blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    step = max(1, _BLOCK_NUMBERS // max(1, math.prod(shape[1:])))
    for start in range(0, shape[0], step):
        yield slice(start, start + step)


def _check_names(kind: str, owner: str, wanted: list[str], found: list[str]) -> None:
    if not set(wanted) <= set(found):
        raise StageError(
            f"{kind} names do not fit: the {owner} has {sorted(wanted)}, the arrays given are {sorted(found)}"
        )


def _check_rank(array: Array, binding: Binding, kind: str) -> None:
    permutation = binding.permutation or ()
    if sorted(permutation) != list(range(array.ndim)):
        raise StageError(
            f"{kind} '{binding.baseline}' has shape {list(array.shape)}, whose axes {list(permutation)} can't order"
        )


def _check_shape(array: Array, spec: TensorSpec, what: str) -> None:
    """All axes but the batch: samples lie on axis 0 in any number, whatever the file's batch."""
    fits = array.ndim == len(spec.shape) and all(
        wanted is None or wanted == found for wanted, found in zip(spec.shape[1:], array.shape[1:], strict=True)
    )
    if not fits:
        wanted = ["n", *("?" if size is None else size for size in spec.shape[1:])]
        raise StageError(
            f"{what} has shape {list(array.shape)} in the file's axes, but tensor '{spec.name}' is "
            f"[{', '.join(map(str, wanted))}]"
        )
