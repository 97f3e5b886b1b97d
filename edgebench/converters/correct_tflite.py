"""Bias correction of an integer .tflite file; see `bias_correction`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench.converters.bias_correction import FloatArray, Sweep, mean_of_convolution, mean_of_dense

Batch = dict[str, NDArray[Any]]

_DENSE = "FULLY_CONNECTED"
_DEPTHWISE = "DEPTHWISE_CONV_2D"
_KINDS = ("CONV_2D", _DEPTHWISE, _DENSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """An operator with a constant kernel and bias; numbers are tensors of the subgraph."""

    kind: str
    source: int
    kernel: int
    bias: int
    output: int
    options: Any


def correct(float_model: bytes, quantized_model: bytes, batches: Sequence[Batch]) -> tuple[bytes, int]:
    """The quantized file with corrected biases, and how many of its layers were corrected.

    `batches` are calibration samples as the float file's inputs take them, by signature name; both files have one
    signature. Only biases change: the file keeps its size, operators and scales. Costs one run of the quantized file
    for each layer and batch. No layer is corrected where the two files' layers do not correspond.
    """
    floats, file = _Graph(float_model), _Graph(quantized_model)
    if [floats.shape(layer) for layer in floats.layers] != [file.shape(layer) for layer in file.layers]:
        return quantized_model, 0
    float_means = floats.mean_inputs(floats.layers, batches)
    corrected = 0
    for float_layer, layer, float_mean in zip(floats.layers, file.layers, float_means, strict=True):
        (mean,) = file.mean_inputs([layer], batches)
        delta = floats.mean_output(float_layer, float_mean) - file.mean_output(layer, mean)
        corrected += file.add_to_bias(layer, delta)
    return file.model, corrected


class _Graph:
    """The main subgraph of a file's bytes, which `add_to_bias` changes."""

    def __init__(self, model: bytes) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self.model = model
        self._parsed = schema.ModelT.InitFromPackedBuf(model, 0)
        signature = self._parsed.signatureDefs[0]
        self._key = signature.signatureKey.decode()
        self._index = signature.subgraphIndex
        self._tensors = self._parsed.subgraphs[self._index].tensors
        self._inputs = {entry.name.decode(): self._tensors[entry.tensorIndex] for entry in signature.inputs}
        types = {name: code for name, code in vars(schema.TensorType).items() if isinstance(code, int)}
        self._dtypes = {types[name]: name.lower() for name in ("FLOAT32", "INT8", "UINT8", "INT16", "INT32", "INT64")}
        names = {code: name for name, code in vars(schema.BuiltinOperator).items() if isinstance(code, int)}
        self._same_padding = schema.Padding.SAME
        self.layers = tuple(self._layers(names))

    def shape(self, layer: _Layer) -> tuple[str, tuple[int, ...]]:
        return layer.kind, tuple(self._tensors[layer.kernel].shape)

    def mean_inputs(self, layers: Sequence[_Layer], batches: Iterable[Batch]) -> list[FloatArray]:
        """Each layer's mean input over the samples: (height, width, channels), or (features,) for a dense one."""
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        interpreter = Interpreter(
            model_content=self.model,
            num_threads=1,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            experimental_preserve_all_tensors=True,
        )
        runner = interpreter.get_signature_runner(self._key)
        sums: list[Any] = [0.0] * len(layers)
        runs = 0
        for batch in batches:
            runner(**{name: self._encoded(name, values) for name, values in batch.items()})
            runs += 1
            for place, layer in enumerate(layers):
                values = self._real(layer.source, interpreter.get_tensor(layer.source, self._index))
                if layer.kind == _DENSE:
                    values = values.reshape(-1, self._tensors[layer.kernel].shape[1])
                sums[place] = sums[place] + values.mean(axis=0)
        return [total / runs for total in sums]

    def mean_output(self, layer: _Layer, mean_input: FloatArray) -> FloatArray:
        """The mean of each output channel before the activation."""
        kernel = self._real(layer.kernel, self._stored(layer.kernel))
        bias = self._real(layer.bias, self._stored(layer.bias))
        if layer.kind == _DENSE:
            return mean_of_dense(kernel, mean_input) + bias
        if layer.kind == _DEPTHWISE:  # stored as (1, height, width, outputs), each output of one input
            kernel = kernel[0].transpose(2, 0, 1)[..., np.newaxis]
        return mean_of_convolution(kernel, mean_input, self._sweeps(layer, kernel.shape[1:3], mean_input.shape)) + bias

    def add_to_bias(self, layer: _Layer, delta: FloatArray) -> bool:
        """Add to each channel's bias, in units of its scale; False where that can't be held, or others read it too."""
        tensor = self._tensors[layer.bias]
        stored = self._stored(layer.bias)
        steps = delta if stored.dtype.kind == "f" else np.round(delta / np.asarray(tensor.quantization.scale))
        changed = stored + steps
        if self._readers(tensor.buffer) > 1:
            return False
        if not np.isfinite(changed).all() or (stored.dtype.kind == "i" and np.abs(changed).max() > 2**31 - 1):
            return False
        data = changed.astype(stored.dtype).tobytes()
        start = self._start(tensor.buffer)
        self.model = self.model[:start] + data + self.model[start + len(data) :]
        return True

    def _layers(self, names: dict[int, str]) -> Iterable[_Layer]:
        operators = self._parsed.subgraphs[self._index].operators
        for operator in operators:
            code = self._parsed.operatorCodes[operator.opcodeIndex]
            kind = names.get(max(code.builtinCode, code.deprecatedBuiltinCode), "")
            if kind not in _KINDS or len(operator.inputs) < 3 or min(operator.inputs[:3]) < 0:
                continue
            source, kernel, bias = map(int, operator.inputs[:3])
            if self._data(kernel) and self._data(bias):
                yield _Layer(
                    kind=kind,
                    source=source,
                    kernel=kernel,
                    bias=bias,
                    output=int(operator.outputs[0]),
                    options=operator.builtinOptions,
                )

    def _readers(self, buffer: int) -> int:
        """How many inputs of operators are the constant in that buffer; tensors may share one."""
        return sum(
            graph.tensors[index].buffer == buffer
            for graph in self._parsed.subgraphs
            for operator in graph.operators
            for index in operator.inputs
            if index >= 0
        )

    def _sweeps(self, layer: _Layer, kernel: Sequence[int], image: Sequence[int]) -> tuple[Sweep, Sweep]:
        """Height's and width's; the padding of SAME is what TensorFlow's documentation of it says."""
        options = layer.options
        output = self._tensors[layer.output].shape
        strides = (options.strideH, options.strideW)
        dilations = (options.dilationHFactor, options.dilationWFactor)
        sweeps = []
        for axis in (0, 1):
            positions, stride, dilation = int(output[1 + axis]), strides[axis], dilations[axis]
            reach = (positions - 1) * stride + (kernel[axis] - 1) * dilation + 1
            padding = max(reach - image[axis], 0) // 2 if options.padding == self._same_padding else 0
            sweeps.append(Sweep(positions=positions, stride=stride, dilation=dilation, padded_by=padding))
        return sweeps[0], sweeps[1]

    def _data(self, tensor: int) -> bytes:
        """The bytes of a constant; quantizers put large ones behind the flatbuffer."""
        buffer = self._parsed.buffers[self._tensors[tensor].buffer]
        if buffer.offset > 1:
            return self.model[buffer.offset : buffer.offset + buffer.size]
        return b"" if buffer.data is None else bytes(buffer.data)

    def _stored(self, tensor: int) -> NDArray[Any]:
        spec = self._tensors[tensor]
        return np.frombuffer(self._data(tensor), np.dtype(self._dtypes[spec.type]).newbyteorder("<")).reshape(
            spec.shape
        )

    def _real(self, tensor: int, values: NDArray[Any]) -> FloatArray:
        quantization = self._tensors[tensor].quantization
        if values.dtype.kind == "f" or quantization is None or quantization.scale is None:
            return values.astype(np.float64)
        shape = [1] * values.ndim
        if len(quantization.scale) > 1:
            shape[quantization.quantizedDimension] = -1
        scale, zero_point = (np.reshape(part, shape) for part in (quantization.scale, quantization.zeroPoint))
        real: FloatArray = (values.astype(np.float64) - zero_point) * scale
        return real

    def _encoded(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """A sample as this file's input takes it."""
        tensor = self._inputs[name]
        dtype = np.dtype(self._dtypes.get(tensor.type, values.dtype.name))
        if dtype.kind == "f" or values.dtype.kind != "f":
            return values
        limits = np.iinfo(dtype)
        steps = np.round(values / tensor.quantization.scale[0]) + tensor.quantization.zeroPoint[0]
        encoded: NDArray[Any] = np.clip(steps, limits.min, limits.max).astype(dtype)
        return encoded

    def _start(self, buffer: int) -> int:
        """Where the data of a buffer begins in the file."""
        from ai_edge_litert import schema_py_generated as schema

        found = schema.Model.GetRootAs(self.model, 0).Buffers(buffer)
        return int(found.Offset() if found.Offset() > 1 else found._tab.Vector(found._tab.Offset(4)))
