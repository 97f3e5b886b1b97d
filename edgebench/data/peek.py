"""One sample of a data set before any model is known, for models that are traced by an example."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from edgebench.data.fit_arrays import LABELS, TARGET_PREFIX
from edgebench.data.fit_images import declared_for, read_input
from edgebench.data.samples import AnyArray
from edgebench.data.sources import ImageData, Wanted, open_source
from edgebench.data.wording import shown
from edgebench.errors import DataError
from edgebench.types import Layout, Preprocess


def peek(source: str, *, preprocess: Preprocess | None, layout: Layout | None) -> dict[str, AnyArray] | None:
    """The first sample as example inputs, each with a batch axis of 1; the key "" is the only input.

    None for images without a `preprocess` that gives them a size: the model may bring an example of its own.

    float64 becomes float32, as models expect; other dtypes stay. `layout` decides the axis order where the source knows
    it (images and digits).

    Raises:
        DataError: the data can't be read.
    """
    with tempfile.TemporaryDirectory(prefix="edgebench-peek-") as scratch:
        wanted = Wanted(scratch=Path(scratch), calibration_samples=0, evaluation_samples=1, seed=0, layout=layout)
        data = open_source(source, wanted).evaluation
        if isinstance(data, ImageData):
            if preprocess is None:
                return None
            return {"": read_input(data, 0, declared_for(source, preprocess, layout))[np.newaxis]}
        arrays = {
            name: _example(array)
            for name, array in data.arrays.items()
            if name != LABELS and not name.startswith(TARGET_PREFIX)
        }
    if not arrays:
        raise DataError(f"{shown(source)} holds labels or targets only, no model input")
    return {"": next(iter(arrays.values()))} if len(arrays) == 1 else arrays


def _example(array: AnyArray) -> AnyArray:
    first = np.array(array[:1])
    return first.astype(np.float32) if first.dtype == np.float64 else first
