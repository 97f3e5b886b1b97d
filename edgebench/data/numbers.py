"""Numbers from one dtype to another: never scaled, and refused where the value would change."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgebench.data.samples import AnyArray
from edgebench.data.wording import shown
from edgebench.errors import DataError
from edgebench.types import TensorSpec


def dtype_of(spec: TensorSpec) -> np.dtype[Any]:
    """The numpy dtype of a model's tensor; raises DataError for what samples can't hold (strings, bfloat16)."""
    try:
        dtype = np.dtype(spec.dtype)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "biuf":
        raise DataError(
            f"the model's input '{shown(spec.name)}' is {spec.dtype}: only number and bool inputs can be fed"
        )
    return dtype


def convert(values: AnyArray, dtype: np.dtype[Any], what: str) -> AnyArray:
    """The values in `dtype`. A float may lose precision; whole numbers and bools must keep their value.

    Raises:
        DataError: names `what`, the value that doesn't fit, and the dtype.
    """
    if values.dtype == dtype:
        return values
    if values.dtype.kind not in "biuf":
        raise DataError(f"{what} is {values.dtype}, not numbers; the model takes {dtype}")
    if dtype.kind == "f":
        # A value beyond the narrower type becomes inf, which is refused or cautioned of later.
        with np.errstate(over="ignore"):
            return values.astype(dtype)
    if values.dtype.kind == "f" and not bool(np.all(np.isfinite(values) & (values == np.rint(values)))):
        raise DataError(f"{what} is {values.dtype} with fractions, the model takes {dtype}: give whole numbers")
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if values.size and (values.min() < low or values.max() > high):
        raise DataError(f"{what} spans {values.min()} to {values.max()}, outside of {dtype} ({low} to {high})")
    return values.astype(dtype)
