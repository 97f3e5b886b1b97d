"""What an .onnx file holds: operators and the precision that each computes in, weights, multiply-accumulates.

The rules by which a file gets its precision:

- An operator computes in int8 when it takes and gives integers (QLinearConv, ConvInteger, ...), or when each of its
  float inputs comes from a DequantizeLinear and its outputs go to QuantizeLinear only (QDQ form), a Relu or Clip
  between them included. Constant bounds of Clip, sizes of Resize and the like don't count as inputs. int16 activations
  make it int16x8. Anything else that does arithmetic on floats computes in float.
- Operators that only move or describe data (Reshape, Transpose, Gather, Concat, Cast, ...) have a precision but never
  make a file more or less integer; neither do QuantizeLinear and DequantizeLinear themselves.
- full-int8: there are int8 operators and no operator computes in float. mixed: some do.
- dynamic-int8: activations are quantized while it runs, and every operator with weights computes in int8; the
  arithmetic between them is float by nature.
- weight-only-int8 / -int4: no operator computes in integers, and the weights of all operators that have some are
  stored so.
- fp16 / fp32: all arithmetic is in that type.

A runtime may do less than the file says: it may have no int8 kernel for an operator in QDQ form.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.converters import onnx_file, onnx_macs
from edgebench.converters.inspection import FileFacts, OpFacts
from edgebench.types import Census, Format, Precision, Quantization, TensorSpec

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

_QDQ = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
_MOVES = _QDQ | frozenset(
    """
    Cast CastLike Compress Concat Constant ConstantOfShape DepthToSpace Dropout Expand EyeLike Flatten Gather
    GatherBlockQuantized GatherElements GatherND Identity If Loop NonZero OneHot Pad Range Reshape ReverseSequence
    Scan Shape Size Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze Where
    """.split()
)
_DYNAMIC = frozenset({"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"})
# Runtimes fuse these into the operator before them, so nothing need be quantized between the two.
_FUSED = ("Relu", "Clip")
# Position of the weights of the operators that have some.
_WEIGHT_INPUT = {
    "Conv": 1,
    "ConvTranspose": 1,
    "Gemm": 1,
    "MatMul": 1,
    "LSTM": 1,
    "GRU": 1,
    "RNN": 1,
    "ConvInteger": 1,
    "MatMulInteger": 1,
    "MatMulNBits": 1,
    "DynamicQuantizeMatMul": 1,
    "DynamicQuantizeLSTM": 1,
    "QLinearConv": 3,
    "QLinearMatMul": 3,
    "QGemm": 3,
}
# Positions of scales and zero points: parameters of the format, not of the model.
_QUANTIZATION_INPUTS = {
    "QuantizeLinear": (1, 2),
    "DequantizeLinear": (1, 2),
    "ConvInteger": (2, 3),
    "MatMulInteger": (2, 3),
    "MatMulNBits": (2, 3),
    "DynamicQuantizeMatMul": (2, 3),
    "DynamicQuantizeLSTM": (8, 9, 10, 11),
    "QLinearConv": (1, 2, 4, 5, 6, 7),
    "QLinearMatMul": (1, 2, 4, 5, 6, 7),
    "QGemm": (1, 2, 4, 5, 7, 8),
}
# Operators of which only the first so many inputs carry values; the rest are bounds, sizes and axes.
_VALUE_INPUTS = {"Clip": 1, "Resize": 1, "Pow": 1, "ReduceMean": 1, "ReduceSum": 1, "TopK": 1}


def read(path: Path) -> FileFacts:
    """The facts of an .onnx file; external data is counted but not read.

    Raises:
        ModelError: not an ONNX file, cut short, invalid, or its external data is absent or leaves its folder.
    """
    model = onnx_file.load(path)
    types = onnx_macs.infer(model)
    graph = _Graph(model, types)
    labels = [(node, graph.precision(node)) for node in graph.nodes]
    files = (path.absolute(), *onnx_file.external_files(path, model))
    inputs, outputs = onnx_file.io(model)
    batches = {spec.shape[0] for spec in inputs if spec.shape}
    return FileFacts(
        format=Format.ONNX,
        inputs=tuple(replace(spec, quantization=graph.input_quantization(spec)) for spec in inputs),
        outputs=tuple(replace(spec, quantization=graph.output_quantization(spec)) for spec in outputs),
        census=Census(
            precision=_precision(graph, labels),
            ops=dict(sorted(Counter(f"{node.op_type}:{label}" for node, label in labels).items())),
            weight_bytes=graph.weight_bytes(),
            parameters=graph.parameters(),
            macs=onnx_macs.count(model, types),
            float_ops=dict(sorted(Counter(node.op_type for node, label in labels if _is_float(node, label)).items())),
        ),
        batch=batches.pop() if len(batches) == 1 else None,
        ops=_op_facts(model, labels),
        size_bytes=sum(file.stat().st_size for file in files),
        files=files,
    )


def _is_float(node: NodeProto, label: str) -> bool:
    """Whether it computes in float; float16 is what an fp16 file is meant to compute in, so it doesn't count."""
    return label in ("float32", "float64") and node.op_type not in _MOVES


def _precision(graph: _Graph, labels: list[tuple[NodeProto, str]]) -> Precision:
    computing = [(node, label) for node, label in labels if node.op_type not in _MOVES and _is_known_type(label)]
    weights = [(label, kind) for node, label in computing if (kind := graph.weight_kind(node)) is not None]
    found = {label for _, label in computing}
    if any(node.op_type in _DYNAMIC for node, _ in labels):
        return Precision.DYNAMIC_INT8 if {label for label, _ in weights} <= {"int8"} else Precision.MIXED
    if found & {"int8", "int16x8"}:
        if not found <= {"int8", "int16x8"}:
            return Precision.MIXED
        return Precision.INT16X8 if "int16x8" in found else Precision.FULL_INT8
    kinds = {kind for _, kind in weights}
    if kinds == {"int8"}:
        return Precision.WEIGHT_ONLY_INT8
    if kinds == {"int4"}:
        return Precision.WEIGHT_ONLY_INT4
    if kinds <= {"float"} and found <= {"float32"}:
        return Precision.FP32
    return Precision.FP16 if kinds <= {"float"} and found == {"float16"} else Precision.MIXED


def _is_known_type(label: str) -> bool:
    """Leaves out arithmetic on shapes and indices (int64, bool)."""
    return label in ("int8", "int16x8", "float16", "float32", "float64", "bfloat16")


def _op_facts(model: ModelProto, labels: list[tuple[NodeProto, str]]) -> tuple[OpFacts, ...]:
    opsets = {_domain(entry.domain): entry.version for entry in model.opset_import}
    counts = Counter((node.op_type, opsets.get(_domain(node.domain)), label) for node, label in labels)
    ordered = sorted(counts.items(), key=lambda item: (item[0][0], item[0][2]))
    return tuple(OpFacts(name=op, version=version, precision=label, count=n) for (op, version, label), n in ordered)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


class _Graph:
    """The nodes of a model, bodies of control flow included, and who makes and takes each tensor."""

    def __init__(self, model: ModelProto, types: onnx_macs.TensorTypes) -> None:
        self._types = types
        self.nodes: list[NodeProto] = []
        self._stored: dict[str, TensorProto] = {}
        self._maker: dict[str, NodeProto] = {}
        self._takers: dict[str, list[NodeProto]] = defaultdict(list)
        self._given_out: set[str] = set()
        for graph in onnx_file.graphs(model.graph):
            self._given_out.update(value.name for value in graph.output)
            self._stored.update({tensor.name: tensor for tensor in graph.initializer})
            for node in graph.node:
                self.nodes.append(node)
                for name in node.input:
                    self._takers[name].append(node)
                for name in node.output:
                    self._maker[name] = node
                if node.op_type == "Constant" and len(node.attribute) == 1 and node.attribute[0].HasField("t"):
                    self._stored[node.output[0]] = node.attribute[0].t

    def precision(self, node: NodeProto) -> str:
        """int8, int16x8 or numpy's name of the type that a node computes in."""
        op = node.op_type
        if op in ("ConvInteger", "MatMulInteger") or op.startswith(("QLinear", "DynamicQuantize")) or op == "QGemm":
            return "int8"
        if op == "QuantizeLinear":
            return self._dtype(node.output[0])
        if op == "DequantizeLinear":
            return self._dtype(node.input[0])
        floats = [name for name in self._values(node) if self._dtype(name).startswith(("float", "bfloat"))]
        if floats and all(self._is_dequantized(name) for name in floats):
            activations = {self._dtype(self._maker[name].input[0]) for name in floats if not self._is_stored(name)}
            if activations and self._goes_to_integers(node):
                return "int16x8" if activations & {"int16", "uint16"} else "int8"
        if op in _FUSED and floats:
            maker = self._maker.get(floats[0])
            if maker is not None and maker.op_type not in (*_FUSED, *_QDQ):
                label = self.precision(maker)
                if label in ("int8", "int16x8"):
                    return label
        if op == "Cast":
            return self._dtype(node.output[0])
        named = [*floats, *(name for name in node.output if name), *node.input]
        return next((dtype for name in named if (dtype := self._dtype(name)) != "undefined"), "undefined")

    def weight_kind(self, node: NodeProto) -> str | None:
        """How the weights of a node are stored: float, int8, int4; None when it has none."""
        position = _WEIGHT_INPUT.get(node.op_type)
        if position is None or position >= len(node.input):
            return None
        if node.op_type == "MatMulNBits":
            return f"int{_integer(node, 'bits', 4)}"
        name = node.input[position]
        maker = self._maker.get(name)
        while maker is not None and maker.op_type in ("Transpose", "Reshape", "Identity", "Cast"):
            name = maker.input[0]
            maker = self._maker.get(name)
        if maker is not None and maker.op_type == "DequantizeLinear":
            name = maker.input[0]
        if name not in self._stored:
            return None
        dtype = self._dtype(name)
        return {"uint8": "int8", "uint4": "int4"}.get(dtype, "float" if "float" in dtype else dtype)

    def weight_bytes(self) -> dict[str, int]:
        """Stored bytes by type; packed 4-bit weights of MatMulNBits count as int4."""
        packed = {node.input[1]: node for node in self.nodes if node.op_type == "MatMulNBits"}
        found: Counter[str] = Counter()
        for name, tensor in self._stored.items():
            dtype = f"int{_integer(packed[name], 'bits', 4)}" if name in packed else self._dtype(name)
            found[dtype] += onnx_file.stored_bytes(tensor)
        return dict(sorted(found.items()))

    def parameters(self) -> int:
        """Stored values that are the model's: no scales, zero points, shapes or indices."""
        not_ours = {
            node.input[position]
            for node in self.nodes
            for position in _QUANTIZATION_INPUTS.get(node.op_type, ())
            if position < len(node.input)
        }
        for node in self.nodes:
            # The product of an activation's scale, found while running, with the weights' scale.
            if node.op_type == "Mul" and any(self._is_dynamic_scale(name) for name in node.input):
                not_ours.update(node.input)
        packed = {node.input[1]: node for node in self.nodes if node.op_type == "MatMulNBits"}
        total = 0
        for name, tensor in self._stored.items():
            if name in packed:
                total += _integer(packed[name], "K", 0) * _integer(packed[name], "N", 0)
            elif name not in not_ours and self._dtype(name) not in ("int64", "bool", "string"):
                total += prod(tensor.dims)
        return total

    def input_quantization(self, spec: TensorSpec) -> Quantization | None:
        """The scale by which an integer input is dequantized at once; None for any other input."""
        readers = [node for node in self._takers[spec.name] if node.op_type == "DequantizeLinear"]
        return self._quantization(readers[0]) if readers and len(readers) == len(self._takers[spec.name]) else None

    def output_quantization(self, spec: TensorSpec) -> Quantization | None:
        """The scale by which an integer output was quantized; None for any other output."""
        maker = self._maker.get(spec.name)
        return self._quantization(maker) if maker is not None and maker.op_type == "QuantizeLinear" else None

    def _quantization(self, node: NodeProto) -> Quantization | None:
        import onnx

        stored = [self._stored.get(name) for name in node.input[1:3]]
        if not stored or any(tensor is None or tensor.external_data for tensor in stored):
            return None
        arrays = [onnx.numpy_helper.to_array(tensor).reshape(-1) for tensor in stored if tensor is not None]
        scales = tuple(float(value) for value in arrays[0])
        zero_points = tuple(int(value) for value in arrays[1]) if len(arrays) > 1 else (0,) * len(scales)
        if not scales or len(zero_points) != len(scales) or any(not scale > 0 for scale in scales):
            return None
        return Quantization(
            scales=scales, zero_points=zero_points, axis=_integer(node, "axis", 1) if len(scales) > 1 else None
        )

    def _values(self, node: NodeProto) -> list[str]:
        return [name for name in node.input[: _VALUE_INPUTS.get(node.op_type)] if name]

    def _dtype(self, name: str) -> str:
        if name in self._stored:
            return onnx_file.dtype_name(self._stored[name].data_type)
        return self._types.dtypes.get(name, "undefined")

    def _is_dequantized(self, name: str) -> bool:
        maker = self._maker.get(name)
        return maker is not None and maker.op_type == "DequantizeLinear"

    def _is_stored(self, name: str) -> bool:
        """Whether a dequantized tensor is a weight."""
        return self._maker[name].input[0] in self._stored

    def _goes_to_integers(self, node: NodeProto) -> bool:
        for name in node.output:
            takers = self._takers[name]
            if not name or not takers:
                continue
            if name in self._given_out:
                return False
            for taker in takers:
                is_fused = taker.op_type in _FUSED and node.op_type not in _FUSED
                if taker.op_type != "QuantizeLinear" and not (is_fused and self._goes_to_integers(taker)):
                    return False
        return any(self._takers[name] for name in node.output)

    def _is_dynamic_scale(self, name: str) -> bool:
        maker = self._maker.get(name)
        return maker is not None and maker.op_type == "DynamicQuantizeLinear" and name == maker.output[1]


def _integer(node: NodeProto, name: str, default: int) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), default)
