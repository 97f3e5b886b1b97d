"""The nodes of an ONNX graph: who makes and takes each tensor, and the precision that each node computes in.

- An operator computes in int8 when it takes and gives integers (QLinearConv, ConvInteger, ...), or when each of its
  float inputs comes from a DequantizeLinear and its outputs go to QuantizeLinear only (QDQ form), a Relu or Clip
  between them included. Constant bounds of Clip, sizes of Resize and the like don't count as inputs. int16 activations
  make it int16x8. Anything else that does arithmetic on floats computes in float.
- Operators that only move or describe data (Reshape, Transpose, Gather, Concat, Cast, ...) have a precision but never
  make a file more or less integer; neither do QuantizeLinear and DequantizeLinear themselves.

A runtime may do less than the file says: it may have no int8 kernel for an operator in QDQ form.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from math import prod
from typing import TYPE_CHECKING

from edgebench.converters import onnx_file, onnx_macs
from edgebench.types import Quantization, TensorSpec

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

_QDQ = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
# fmt: off
MOVES = _QDQ | frozenset(
    [
        "Cast", "CastLike", "Compress", "Concat", "Constant", "ConstantOfShape", "DepthToSpace", "Dropout", "Expand",
        "EyeLike", "Flatten", "Gather", "GatherBlockQuantized", "GatherElements", "GatherND", "Identity", "If",
        "Loop", "NonZero", "OneHot", "Pad", "Range", "Reshape", "ReverseSequence", "Scan", "Shape", "Size", "Slice",
        "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where",
    ]
)
# fmt: on
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


class Graph:
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
        moves = ("Transpose", "Reshape", "Identity", "Cast")
        passed = set()  # branches of an If may use one name for unlike tensors, which can look like a circle
        while maker is not None and maker.op_type in moves and name not in passed:
            passed.add(name)
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
