"""The facts of a .tflite file: its inputs and outputs, and what every operator really computes in."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from edgebench.converters import tflite_file
from edgebench.converters.inspection import FileFacts, OpFacts
from edgebench.converters.tflite_file import Operator, Subgraph, Tensor, TfliteFile
from edgebench.errors import ModelError
from edgebench.types import Census, Format, Precision, Quantization, TensorSpec

# They read a tensor's shape, not its values.
_LOOK_ONLY = ("SHAPE", "RANK")
# They change the type of a tensor, between what is computed and what goes in, comes out or is stored.
_CONVERSIONS = ("QUANTIZE", "DEQUANTIZE")
_FLOATS = ("float32", "float64", "float16", "bfloat16")
_COMPRESSED = ("int8", "uint8", "int4", "int2")
_HAVE_MACS = (
    "CONV_2D", "DEPTHWISE_CONV_2D", "CONV_3D", "FULLY_CONNECTED", "TRANSPOSE_CONV", "BATCH_MATMUL",
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
)  # fmt: skip
# How often their bodies run, or what they call, is not in the operator's own tensors.
_CALLS = ("WHILE", "IF", "CALL", "STABLEHLO_COMPOSITE", "STABLEHLO_WHILE", "STABLEHLO_CASE")


def read(path: Path) -> FileFacts:
    """The facts of a .tflite file, from its flatbuffer alone.

    Precision is `full-int8` only where *every* operator computes in int8 or uint8. QUANTIZE and DEQUANTIZE at float
    inputs and outputs are allowed, and so are operators that touch no float and no 8-bit data: the int32, int64 and
    bool arithmetic on shapes, indices and ids. One operator in float, even a RESHAPE, makes the file `mixed`;
    `float_ops` names it. Files without int8 or int16 activations are named after how most of their weights are held:
    int8 read by the operator itself is `dynamic-int8` (it quantizes its float inputs as it runs), int8 behind
    DEQUANTIZE is `weight-only-int8`, float16 behind DEQUANTIZE is `fp16`.

    Raises:
        ModelError: the file is absent, truncated, damaged or no .tflite file.
    """
    file = tflite_file.load(path)
    inputs = tuple(_spec(name, tensor, path) for name, tensor in file.inputs().items())
    outputs = tuple(_spec(name, tensor, path) for name, tensor in file.outputs().items())
    counted = Counter(
        (operator.name, operator.version, computes_in(operator, graph))
        for graph in file.subgraphs
        for operator in graph.operators
    )
    ops = tuple(
        OpFacts(name=name, version=version, precision=precision, count=count)
        for (name, version, precision), count in sorted(counted.items())
    )
    return FileFacts(
        format=Format.TFLITE,
        inputs=inputs,
        outputs=outputs,
        census=_census(file, ops),
        batch=_batch(inputs),
        ops=ops,
        size_bytes=file.size_bytes,
        files=(path.absolute(),),
    )


def computes_in(operator: Operator, graph: Subgraph) -> str:
    """The type that an operator computes in: float32, int8, uint8, int16x8, dynamic-int8, dynamic-int4, int32, bool ...

    Float wins over int8 where it has both, because the kernel then computes in float; index and shape inputs count only
    where there is nothing else. QUANTIZE and DEQUANTIZE are named after their quantized side.
    """
    inputs = [graph.tensors[index] for index in operator.inputs if index >= 0]
    outputs = [graph.tensors[index] for index in operator.outputs if index >= 0]
    if operator.name in _CONVERSIONS:
        quantized = outputs if operator.name == "QUANTIZE" else inputs
        return quantized[0].dtype if quantized else "unknown"
    activations = {tensor.dtype for tensor in inputs if not tensor.constant_bytes and operator.name not in _LOOK_ONLY}
    activations |= {tensor.dtype for tensor in outputs}
    weights = {tensor.dtype for tensor in inputs if tensor.constant_bytes and tensor.scales}
    for dtype in _FLOATS:
        if dtype in activations:
            if weights & {"int4", "int2"}:
                return "dynamic-int4"
            return "dynamic-int8" if weights & set(_COMPRESSED) else dtype
    if "int16" in activations:
        return "int16x8" if weights & set(_COMPRESSED) else "int16"
    for dtype in ("int8", "uint8"):
        if dtype in activations:
            return dtype
    return next((dtype for dtype in ("int32", "int64") if dtype in activations), min(activations, default="unknown"))


def _census(file: TfliteFile, ops: tuple[OpFacts, ...]) -> Census:
    weights = _weights(file)
    weight_bytes: Counter[str] = Counter()
    for tensor in weights:
        weight_bytes[tensor.dtype] += tensor.constant_bytes or 0
    labels: Counter[str] = Counter()
    float_ops: Counter[str] = Counter()
    for op in ops:
        labels[f"{op.name}:{op.precision}"] += op.count
        if op.precision in _FLOATS and op.name not in _CONVERSIONS:
            float_ops[op.name] += op.count
    return Census(
        precision=_precision({op.precision for op in ops if op.name not in _CONVERSIONS}, weights),
        ops=dict(labels),
        weight_bytes=dict(weight_bytes),
        parameters=sum(tensor.elements or 0 for tensor in weights),
        macs=_macs(file),
        float_ops=dict(float_ops),
    )


def _precision(computed: set[str], weights: list[Tensor]) -> Precision:
    in_float = bool(computed & set(_FLOATS)) or "dynamic-int8" in computed or "dynamic-int4" in computed
    in_16 = bool(computed & {"int16", "int16x8"})
    in_8 = bool(computed & {"int8", "uint8"})
    if in_16 or in_8:
        if in_float:
            return Precision.MIXED
        return Precision.INT16X8 if in_16 else Precision.FULL_INT8
    held: Counter[str] = Counter()
    for tensor in weights:
        held["int4" if tensor.dtype == "int2" else tensor.dtype] += tensor.elements or 0
    most = max(held, key=lambda dtype: held[dtype], default="float32")
    if most in ("int8", "uint8"):
        return Precision.DYNAMIC_INT8 if "dynamic-int8" in computed else Precision.WEIGHT_ONLY_INT8
    if most == "int4" and "dynamic-int4" not in computed:
        return Precision.WEIGHT_ONLY_INT4
    if most == "float16":
        return Precision.FP16
    return Precision.FP32 if set(held) <= {"float32", "float64"} else Precision.MIXED


def _weights(file: TfliteFile) -> list[Tensor]:
    """The constants that are learnt, each once: floats, and integers with a scale. Others are shapes and indices."""
    distinct = {
        tensor.buffer: tensor
        for graph in file.subgraphs
        for tensor in graph.tensors
        if tensor.constant_bytes and (tensor.dtype in _FLOATS or tensor.scales)
    }
    return list(distinct.values())


def _macs(file: TfliteFile) -> int | None:
    """Multiply-accumulates of one run of the main subgraph; None where a shape is open or a subgraph is called."""
    graph = file.main
    total = 0
    for operator in graph.operators:
        if operator.name in _CALLS:
            return None
        macs = _operator_macs(operator, graph)
        if macs is None:
            return None
        total += macs
    return total


def _operator_macs(operator: Operator, graph: Subgraph) -> int | None:
    """0 for an operator that has none. Kernels lie as TFLite wants them: OHWI, and 1HWO for depthwise."""
    if operator.name not in _HAVE_MACS:
        return 0
    inputs = [graph.tensors[index] for index in operator.inputs if index >= 0]
    outputs = [graph.tensors[index] for index in operator.outputs if index >= 0]
    if operator.name == "UNIDIRECTIONAL_SEQUENCE_LSTM":
        return _lstm_macs(inputs)
    used = [tensor.shape for tensor in (*inputs[:3], *outputs[:1])]
    if len(inputs) < 2 or not outputs or any(size is None for shape in used for size in shape):
        return None
    first, second, *_, out = [tuple(size or 0 for size in shape) for shape in used]
    match operator.name:
        case "CONV_2D":
            return math.prod(out) * math.prod(second[1:])
        case "DEPTHWISE_CONV_2D":
            return math.prod(out) * math.prod(second[1:-1])
        case "CONV_3D":
            return math.prod(out) * math.prod(second[:-1])
        case "FULLY_CONNECTED":
            return math.prod(out) * math.prod(second[-1:])
        case "TRANSPOSE_CONV":  # inputs: output shape, kernel, data; each value of the data meets the whole kernel
            data = inputs[2].elements if len(inputs) > 2 else None
            return None if data is None else data * math.prod(second[:-1])
        case _:  # BATCH_MATMUL: either operand may be transposed, so the shared length is what the rows leave over
            rows = math.prod(out[-2:-1])
            return math.prod(out) * (math.prod(first[-2:]) // rows) if rows else 0


def _lstm_macs(inputs: list[Tensor]) -> int | None:
    """Each step of each sequence, (batch, time, features) or (time, batch, features), multiplies each matrix once."""
    matrices = sum(tensor.elements or 0 for tensor in inputs if tensor.constant_bytes and len(tensor.shape) == 2)
    steps = inputs[0].shape[:2] if inputs else (None,)
    return None if None in steps else matrices * math.prod(size for size in steps if size is not None)


def _spec(name: str, tensor: Tensor, path: Path) -> TensorSpec:
    quantization = None
    if tensor.scales:
        try:
            quantization = Quantization(scales=tensor.scales, zero_points=tensor.zero_points, axis=tensor.axis)
        except ValueError as error:
            raise ModelError(
                f"{path} is a damaged .tflite file (tensor '{name}': {error}); convert it again"
            ) from error
    return TensorSpec(name=name, shape=tensor.shape, dtype=tensor.dtype, quantization=quantization)


def _batch(inputs: tuple[TensorSpec, ...]) -> int | None:
    lengths = {spec.shape[0] for spec in inputs if spec.shape}
    return lengths.pop() if len(lengths) == 1 else None
