"""What a file's raw output numbers give reason to doubt: saturation, clipping, constants, and too few samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from edgebench.arrays import Array
from edgebench.types import Binding, Caution, TensorSpec

FEW_SAMPLES = 100
TIED_FRACTION = 0.01
LOWEST_FRACTION = 0.95
CLIPPED_FRACTION = 0.01

# TFLite fixes the scale of int8 and uint8 softmax outputs: probabilities below 1/512 all become 0.
_SOFTMAX_SCALE = 1 / 256


def inspect(raw: Mapping[str, Array], artifact_outputs: tuple[Binding, ...], n: int) -> list[Caution]:
    """The cautions of these outputs, (n, ...) by file name, as the runtime gave them.

    Codes: `few-samples`, `constant-output`, `softmax-saturated`, `clipped-output`.
    """
    cautions = []
    if n < FEW_SAMPLES:
        message = f"{n} samples: intervals are wide and rare errors unseen"
        cautions.append(Caution(code="few-samples", message=message, advice=f"evaluate at least {FEW_SAMPLES} samples"))
    for binding in artifact_outputs:
        cautions += _of_output(binding.baseline, raw[binding.tensor.name], binding.tensor)
    return cautions


def _of_output(name: str, raw: Array, spec: TensorSpec) -> Iterator[Caution]:
    if len(raw) > 1 and bool((raw == raw[:1]).all()):
        yield Caution(
            code="constant-output",
            message=f"output '{name}' is the same for all {len(raw)} samples",
            advice="check the weights, the preprocessing and the calibration data",
        )
        return
    if spec.quantization is None or not np.issubdtype(raw.dtype, np.integer):
        return
    if raw.dtype.itemsize == 1 and spec.quantization.scales == (_SOFTMAX_SCALE,):
        yield from _of_softmax(name, raw)
    else:
        yield from _of_range(name, raw, spec.quantization.zero_points[0])


def _of_softmax(name: str, raw: Array) -> Iterator[Caution]:
    if raw.ndim < 2 or raw.shape[-1] < 2:
        return
    top = raw.max(axis=-1, keepdims=True)
    tied = float(np.mean((raw == top).sum(axis=-1) > 1))
    lowest = float(np.mean(raw == np.iinfo(raw.dtype).min))
    if tied >= TIED_FRACTION or lowest >= LOWEST_FRACTION:
        message = (
            f"output '{name}' is a softmax in {raw.dtype} of the fixed scale 1/256: {lowest:.1%} of its numbers are 0 "
            f"and the best class is tied in {tied:.1%} of the samples (a tie counts as its lowest class), so top-5 and "
            "SQNR say little"
        )
        advice = "convert the model without its softmax, or with float outputs"
        yield Caution(code="softmax-saturated", message=message, advice=advice)


def _of_range(name: str, raw: Array, zero_point: int) -> Iterator[Caution]:
    """Numbers at the ends of the dtype; the lower end is no clipping where it stands for 0, as after a ReLU."""
    limits = np.iinfo(raw.dtype)
    clipped = float(np.mean(raw == limits.max))
    if zero_point > limits.min:
        clipped += float(np.mean(raw == limits.min))
    if clipped >= CLIPPED_FRACTION:
        yield Caution(
            code="clipped-output",
            message=f"output '{name}': {clipped:.1%} of its numbers are at the limits of {raw.dtype}, so larger ones "
            "were cut",
            advice="calibrate with data of the full range, or with min-max",
        )
