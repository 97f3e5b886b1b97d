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

_FLOAT, _QUANTIZED = 1e-3, 0.02

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


def against_host(
    outputs: Mapping[str, Array],
    host_outputs: Mapping[str, Array],
    artifact_outputs: tuple[Binding, ...],
    is_fp32: bool,
) -> list[Caution]:
    """`device-differs` for each output, float32 (n, ...) by the baseline's name, that rounding does not explain.

    Rounding is two steps of a quantized output's scale; else 0.1 % of the host's largest number for a float file, 2 %
    for a quantized one with float outputs.
    """
    cautions = []
    for binding in artifact_outputs:
        name, quantization = binding.baseline, binding.tensor.quantization
        host = host_outputs[name]
        apart = np.abs(outputs[name] - host)
        largest = float(np.abs(host).max(initial=0))
        allowed = 2 * quantization.scales[0] if quantization else (_FLOAT if is_fp32 else _QUANTIZED) * largest
        samples = int((apart.reshape(len(apart), -1).max(axis=1, initial=0) > allowed).sum())
        if samples:
            message = (
                f"output '{name}' is up to {float(apart.max()):.3g} from the same file's on the host in {samples} of "
                f"{len(apart)} samples (rounding explains {allowed:.3g}): its kernels compute something else"
            )
            advice = (
                "find the cause before this file ships to the device: edgebench devices check, another runtime version"
            )
            cautions.append(Caution(code="device-differs", message=message, advice=advice))
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
