"""Whether a device computes what the host does: what rounding explains, and what it does not."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgebench.arrays import Array
from edgebench.types import Binding, Caution

# Of the host's largest number: float kernels add up in another order; where integers inside became floats again, one
# code's difference grows on its way to the output.
_OF_FLOAT, _OF_QUANTIZED = 1e-3, 0.02
_CODES = 2  # of a quantized output


def against_host(
    outputs: Mapping[str, Array],
    host_outputs: Mapping[str, Array],
    artifact_outputs: tuple[Binding, ...],
    is_fp32: bool,
) -> list[Caution]:
    """`device-differs` for each output, float32 (n, ...) by the baseline's name, that rounding does not explain."""
    cautions = []
    for binding in artifact_outputs:
        name = binding.baseline
        apart = np.abs(outputs[name] - host_outputs[name])
        allowed = rounding(host_outputs[name], binding, is_fp32)
        # Not `apart > allowed`, which is false for what is not a number.
        samples = int((~(apart <= allowed)).reshape(len(apart), -1).any(axis=1).sum())
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


def rounding(host_output: Array, binding: Binding, is_fp32: bool) -> float:
    """How far an output (float32) may be from the host's: two steps of its scale, or a share of the host's largest.

    The share is 0.1 % for a float file, 2 % for a quantized one with float outputs.
    """
    if binding.tensor.quantization:
        return _CODES * binding.tensor.quantization.scales[0]
    return (_OF_FLOAT if is_fp32 else _OF_QUANTIZED) * float(np.abs(host_output).max(initial=0))
