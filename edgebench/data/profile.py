"""What an audit needs to know about a sample set, gathered in one pass that holds one sample in memory."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgebench.data.samples import AnyArray, Samples

# Enough for a 0.1 % quantile of the pooled values; more would only cost memory.
_POOLED_VALUES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InputProfile:
    """One input over all samples; NaN and Inf are counted in `not_finite` and left out of everything else.

    `lowest`, `highest` and `not_finite` have one entry a sample (an all-NaN sample has lowest inf, highest -inf).
    `pooled` are evenly spaced values of each sample, one row a sample. `channels_lowest`/`channels_highest` are per
    index of the channel axis, None where there is no such axis.
    """

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    lowest: npt.NDArray[np.float64]
    highest: npt.NDArray[np.float64]
    not_finite: npt.NDArray[np.int64]
    pooled: npt.NDArray[np.float64]
    channels_lowest: npt.NDArray[np.float64] | None
    channels_highest: npt.NDArray[np.float64] | None

    @property
    def low(self) -> float:
        return float(self.lowest.min())

    @property
    def high(self) -> float:
        return float(self.highest.max())

    @property
    def largest(self) -> npt.NDArray[np.float64]:
        """The largest absolute finite value of each sample; 0 where a sample has none."""
        largest = np.maximum(np.abs(self.lowest), np.abs(self.highest))
        return np.where(np.isfinite(largest), largest, 0.0)


def profile(samples: Samples) -> dict[str, InputProfile]:
    """The profile of each input, by name."""
    return {name: _profile(array) for name, array in samples.inputs.items()}


def hashes(samples: Samples) -> list[bytes]:
    """One hash a sample, over the bytes of all its inputs in the order of their names."""
    arrays = [samples.inputs[name] for name in sorted(samples.inputs)]
    return [
        hashlib.sha256(b"".join(np.ascontiguousarray(array[index]).tobytes() for array in arrays)).digest()
        for index in range(len(samples))
    ]


def _profile(array: AnyArray) -> InputProfile:
    n, shape = len(array), array.shape[1:]
    axis = _channel_axis(shape)
    lowest, highest = np.full(n, np.inf), np.full(n, -np.inf)
    not_finite = np.zeros(n, dtype=np.int64)
    count = min(int(np.prod(shape)), max(1, _POOLED_VALUES // max(n, 1)))
    places = np.linspace(0, max(int(np.prod(shape)) - 1, 0), count).astype(np.int64)
    pooled = np.full((n, count), np.nan)
    channels_lowest = None if axis is None else np.full(shape[axis], np.inf)
    channels_highest = None if axis is None else np.full(shape[axis], -np.inf)
    for index in range(n):
        values = np.asarray(array[index], dtype=np.float64)
        finite = np.isfinite(values)
        not_finite[index] = values.size - int(finite.sum())
        low, high = np.where(finite, values, np.inf), np.where(finite, values, -np.inf)
        lowest[index], highest[index] = low.min(initial=np.inf), high.max(initial=-np.inf)
        pooled[index] = np.where(finite, values, np.nan).reshape(-1)[places]
        if axis is not None and channels_lowest is not None and channels_highest is not None:
            others = tuple(other for other in range(values.ndim) if other != axis)
            channels_lowest = np.minimum(channels_lowest, low.min(axis=others))
            channels_highest = np.maximum(channels_highest, high.max(axis=others))
    return InputProfile(
        dtype=array.dtype,
        shape=shape,
        lowest=lowest,
        highest=highest,
        not_finite=not_finite,
        pooled=pooled,
        channels_lowest=channels_lowest,
        channels_highest=channels_highest,
    )


def _channel_axis(shape: tuple[int, ...]) -> int | None:
    """A feature vector's only axis; an image's axis of 2 to 4 channels, first or last. None where there is none."""
    if len(shape) == 1:
        return 0
    if len(shape) != 3:
        return None
    return next((axis for axis in (2, 0) if 2 <= shape[axis] <= 4), None)
