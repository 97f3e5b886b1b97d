"""Bias correction of a QDQ .onnx file; see `bias_correction`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgebench.converters.bias_correction import FloatArray, Sweep, mean_of_convolution, mean_of_dense

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Batch = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Constant:
    """A stored array and what makes it real: (stored - zero point) * scale along `axis`; a scale of 1 is a float's."""

    name: str
    stored: NDArray[Any]
    scale: NDArray[Any]
    zero_point: NDArray[Any]
    axis: int

    @property
    def real(self) -> FloatArray:
        shape = [1] * self.stored.ndim
        if self.scale.size > 1:
            shape[self.axis] = -1
        offset: FloatArray = self.stored.astype(np.float64) - self.zero_point.reshape(shape)
        return offset * self.scale.reshape(shape).astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """A Conv or Gemm with a constant kernel and bias."""

    node: NodeProto
    kernel: _Constant
    bias: _Constant


def correct(float_model: ModelProto, quantized_model: ModelProto, batches: Sequence[Batch]) -> int:
    """Correct the biases of `quantized_model` in place; returns how many layers were corrected.

    `float_model` is the one that was quantized: its nodes have the same names. `batches` are calibration samples by
    input name. Costs one run of the quantized model up to the layer, for each layer and batch.
    """
    float_layers = _layers(float_model)
    if not float_layers:
        return 0
    means = _mean_inputs(float_model, float_layers, batches)
    floats = {layer.node.name: (layer, mean) for layer, mean in zip(float_layers, means, strict=True)}
    corrected = 0
    for layer in _layers(quantized_model):
        if layer.node.name not in floats:
            continue
        float_layer, float_mean = floats[layer.node.name]
        if float_layer.kernel.stored.shape != layer.kernel.stored.shape:
            continue
        (mean,) = _mean_inputs(quantized_model, [layer], batches)
        delta = _mean_output(float_layer, float_mean) - _mean_output(layer, mean)
        corrected += _add_to_bias(quantized_model, layer.bias, delta)
    return corrected


def _layers(model: ModelProto) -> list[_Layer]:
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    makers = {output: node for node in model.graph.node for output in node.output}
    found = []
    for node in model.graph.node:
        if node.op_type not in ("Conv", "Gemm") or len(node.input) < 3:
            continue
        kernel, bias = (_constant(name, constants, makers) for name in node.input[1:3])
        if kernel is None or bias is None:
            continue
        is_plain = node.op_type == "Conv" or all(_attribute(node, name, 1.0) == 1.0 for name in ("alpha", "beta"))
        if (
            is_plain
            and not _attribute(node, "transA", 0)
            and kernel.stored.ndim == (4 if node.op_type == "Conv" else 2)
        ):
            found.append(_Layer(node=node, kernel=kernel, bias=bias))
    return found


def _constant(name: str, constants: dict[str, Any], makers: dict[str, NodeProto]) -> _Constant | None:
    """The array behind an input: an initializer, or one behind a DequantizeLinear."""
    from onnx.numpy_helper import to_array

    if name in constants:
        one, zero = np.ones(1), np.zeros(1)
        return _Constant(name=name, stored=to_array(constants[name]), scale=one, zero_point=zero, axis=0)
    maker = makers.get(name)
    if maker is None or maker.op_type != "DequantizeLinear" or any(i not in constants for i in maker.input):
        return None
    stored, scale, *zero_point = (to_array(constants[i]) for i in maker.input)
    return _Constant(
        name=maker.input[0],
        stored=stored,
        scale=np.asarray(scale),
        zero_point=np.asarray(zero_point[0]) if zero_point else np.zeros(scale.shape),
        axis=_attribute(maker, "axis", 1),
    )


def _mean_inputs(model: ModelProto, layers: Sequence[_Layer], batches: Sequence[Batch]) -> list[FloatArray]:
    """Each layer's mean input over the samples: (height, width, channels), or (features,) for a Gemm."""
    import onnxruntime
    from onnx import ModelProto, ValueInfoProto

    sources = list(dict.fromkeys(layer.node.input[0] for layer in layers))
    tapped = ModelProto()
    tapped.CopyFrom(model)
    del tapped.graph.output[:]  # onnxruntime leaves out what no output needs
    tapped.graph.output.extend(ValueInfoProto(name=source) for source in sources)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(tapped.SerializeToString(), options, providers=["CPUExecutionProvider"])
    totals: dict[str, Any] = dict.fromkeys(sources, 0.0)
    for batch in batches:
        for source, values in zip(sources, session.run(sources, batch), strict=True):
            totals[source] = totals[source] + values.astype(np.float64).mean(axis=0)
    means = [totals[layer.node.input[0]] / len(batches) for layer in layers]
    return [
        mean.transpose(1, 2, 0) if layer.node.op_type == "Conv" else mean
        for layer, mean in zip(layers, means, strict=True)
    ]


def _mean_output(layer: _Layer, mean_input: FloatArray) -> FloatArray:
    """The mean of each output channel before the activation."""
    node, kernel, bias = layer.node, layer.kernel.real, layer.bias.real
    if node.op_type == "Gemm":
        return mean_of_dense(kernel if _attribute(node, "transB", 0) else kernel.T, mean_input) + bias
    sweeps = _sweeps(node, kernel.shape[2:], mean_input.shape)
    return mean_of_convolution(kernel.transpose(0, 2, 3, 1), mean_input, sweeps) + bias


def _sweeps(node: NodeProto, kernel: Sequence[int], image: Sequence[int]) -> tuple[Sweep, Sweep]:
    """Height's and width's, by ONNX's definition of Conv."""
    strides, dilations = _attribute(node, "strides", [1, 1]), _attribute(node, "dilations", [1, 1])
    pads = _attribute(node, "pads", [0, 0, 0, 0])
    automatic = _attribute(node, "auto_pad", b"NOTSET").decode()
    sweeps = []
    for axis in (0, 1):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        before, after = pads[axis], pads[axis + 2]
        if automatic in ("SAME_UPPER", "SAME_LOWER"):
            positions = -(-image[axis] // strides[axis])
            missing = max((positions - 1) * strides[axis] + reach - image[axis], 0)
            before, after = missing // 2, missing - missing // 2
            if automatic == "SAME_LOWER":
                before, after = after, before
        positions = (image[axis] + before + after - reach) // strides[axis] + 1
        sweeps.append(Sweep(positions=positions, stride=strides[axis], dilation=dilations[axis], padded_by=before))
    return sweeps[0], sweeps[1]


def _add_to_bias(model: ModelProto, bias: _Constant, delta: FloatArray) -> bool:
    """Add to each channel's bias, in units of its own scale; False where that can't be held, or others read it too."""
    from onnx.numpy_helper import from_array

    if sum(name == bias.name for node in model.graph.node for name in node.input) > 1:
        return False
    steps = delta / bias.scale
    changed = bias.stored + (steps if bias.stored.dtype.kind == "f" else np.round(steps))
    if not np.isfinite(changed).all() or (bias.stored.dtype.kind == "i" and np.abs(changed).max() > 2**31 - 1):
        return False
    for tensor in model.graph.initializer:
        if tensor.name == bias.name:
            tensor.CopyFrom(from_array(changed.astype(bias.stored.dtype), bias.name))
    return True


def _attribute(node: NodeProto, name: str, default: Any) -> Any:
    from onnx.helper import get_attribute_value

    return next((get_attribute_value(found) for found in node.attribute if found.name == name), default)
