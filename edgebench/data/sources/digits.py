"""DATA `digits`: scikit-learn's digits, calibration from the training split, evaluation from the test split."""

from __future__ import annotations

import math

from edgebench.data import digits
from edgebench.data.samples import AnyArray
from edgebench.data.sources.protocol import ArrayData, Pools, Wanted
from edgebench.data.wording import listed, shown_shape
from edgebench.errors import DataError

_PIXELS = 8 * 8


class Digits:
    """Images of 8x8 gray pixels in 0..1, shaped as the model's input: (8, 8, 1), (1, 8, 8), (8, 8) or (64,)."""

    syntax = "digits"

    def recognises(self, source: str) -> bool:
        return source == "digits"

    def file(self, source: str) -> None:
        return None

    def open(self, source: str, wanted: Wanted) -> Pools:
        shape = _sample_shape(wanted)
        pools = []
        for images, labels in (digits.test_split(), digits.train_split()):
            # With one channel, NHWC, NCHW and flat hold the same bytes in the same order.
            arrays: dict[str, AnyArray] = {"": images.reshape(-1, *shape), "labels": labels}
            names = tuple(str(index) for index in range(len(labels)))
            classes = tuple(str(digit) for digit in range(10))
            pools.append(ArrayData(source=source, names=names, arrays=arrays, classes=classes))
        return Pools(evaluation=pools[0], calibration=pools[1])


def _sample_shape(wanted: Wanted) -> tuple[int, ...]:
    if not wanted.inputs:
        return (1, 8, 8) if wanted.layout == "NCHW" else (8, 8, 1)
    if len(wanted.inputs) > 1:
        raise DataError(
            f"digits has one image a sample, the model has the inputs {listed(spec.name for spec in wanted.inputs)}: "
            "give an .npz with one array for each"
        )
    (spec,) = wanted.inputs
    shape = spec.shape[1:]
    whole = tuple(size for size in shape if size is not None)
    if len(whole) != len(shape):
        return (1, 8, 8) if spec.layout == "NCHW" else (8, 8, 1)
    if math.prod(whole) != _PIXELS:
        raise DataError(
            f"digits are images of 8x8 gray pixels, the model's input '{spec.name}' is {shown_shape(spec.shape)}: "
            "give data of the model's own kind, or sample-photos for an image model"
        )
    return whole
