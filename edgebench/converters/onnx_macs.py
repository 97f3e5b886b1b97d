"""Tensor shapes of an ONNX graph, and the multiply-accumulates that one run of it takes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from edgebench.converters import onnx_file

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

# Tensors up to this many elements can be shapes and axes that inference has to read.
_SMALL = 64
_GATES = {"LSTM": 4, "DynamicQuantizeLSTM": 4, "GRU": 3, "RNN": 1}


@dataclass(frozen=True, slots=True)
class TensorTypes:
    """Types (numpy's names) and shapes (None = open) of the tensors whose type or shape is known."""

    dtypes: dict[str, str]
    shapes: dict[str, tuple[int | None, ...]]


def infer(model: ModelProto) -> TensorTypes:
    """What ONNX's shape inference knows of every tensor; weights need not be loaded."""
    import onnx

    try:
        inferred = onnx.shape_inference.infer_shapes(_standard_and_light(model), data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        inferred = model  # an operator contradicts its inputs: only the stated shapes are known
    dtypes: dict[str, str] = {}
    shapes: dict[str, tuple[int | None, ...]] = {}
    for graph in onnx_file.graphs(inferred.graph):
        for value in [*graph.input, *graph.value_info, *graph.output]:
            if value.type.HasField("tensor_type"):
                tensor_type = value.type.tensor_type
                dtypes[value.name] = onnx_file.dtype_name(tensor_type.elem_type)
                if tensor_type.HasField("shape"):
                    shapes[value.name] = tuple(
                        dim.dim_value if dim.HasField("dim_value") else None for dim in tensor_type.shape.dim
                    )
    for graph in onnx_file.graphs(model.graph):
        for tensor in graph.initializer:
            dtypes[tensor.name] = onnx_file.dtype_name(tensor.data_type)
            shapes[tensor.name] = tuple(tensor.dims)
    return TensorTypes(dtypes, shapes)


def count(model: ModelProto, types: TensorTypes) -> int | None:
    """Multiply-accumulates of convolutions, matrix products and recurrent layers for one run; None where unknown.

    A convolution takes one for each output element, kernel element and input channel of its group; a product of
    (m, k) and (k, n) takes m k n; a recurrent step takes gates x hidden x (inputs + hidden). Loop bodies run an
    unknown number of times, so a product inside one gives None, as an open shape does.
    """
    bodies = list(onnx_file.graphs(model.graph))[1:]
    if any(_macs(node, types) != 0 for body in bodies for node in body.node):
        return None
    total = 0
    for node in model.graph.node:
        macs = _macs(node, types)
        if macs is None:
            return None
        total += macs
    return total


def _standard_and_light(model: ModelProto) -> ModelProto:
    """A copy for inference: large weights become inputs of their shape, contrib operators their counterparts."""
    import onnx

    light = onnx.ModelProto()
    light.CopyFrom(model)
    graph = light.graph
    already = {value.name for value in graph.input}
    small = [tensor for tensor in graph.initializer if prod(tensor.dims) <= _SMALL and not tensor.external_data]
    kept = {tensor.name for tensor in small}
    for tensor in graph.initializer:
        if tensor.name not in kept and tensor.name not in already:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    for index, node in enumerate(graph.node):
        if node.op_type == "DynamicQuantizeLSTM":
            node.op_type, node.domain = "LSTM", ""
            del node.input[3:]
        elif node.op_type == "MatMulNBits":
            weight = f"{node.output[0]}/weight-shape"
            shape = [_integer(node, "K", 0), _integer(node, "N", 0)]
            graph.input.append(onnx.helper.make_tensor_value_info(weight, onnx.TensorProto.FLOAT, shape))
            product = onnx.helper.make_node("MatMul", [node.input[0], weight], [node.output[0]], name=node.name)
            graph.node[index].CopyFrom(product)
    del graph.initializer[:]
    graph.initializer.extend(small)
    return light


def _macs(node: NodeProto, types: TensorTypes) -> int | None:
    op = node.op_type
    first = _known(node.input[0], types) if node.input else None
    out = _known(node.output[0], types) if node.output else None
    if op in ("Conv", "ConvInteger"):
        weight = _known(node.input[1], types)  # (out channels, in channels of a group, kernel ...)
        return prod(out) * prod(weight[1:]) if out and weight else None
    if op == "QLinearConv":
        weight = _known(node.input[3], types)
        return prod(out) * prod(weight[1:]) if out and weight else None
    if op == "ConvTranspose":
        weight = _known(node.input[1], types)  # (in channels, out channels of a group, kernel ...)
        return prod(first) * prod(weight[1:]) if first and weight else None
    if op in ("Gemm", "QGemm"):
        return prod(out) * first[0 if _integer(node, "transA", 0) else -1] if out and first else None
    if op in ("MatMul", "MatMulInteger", "QLinearMatMul", "DynamicQuantizeMatMul", "MatMulIntegerToFloat"):
        return prod(out) * first[-1] if first and out is not None else None
    if op == "MatMulNBits":
        return prod(first[:-1]) * _integer(node, "K", 0) * _integer(node, "N", 0) if first else None
    if op in _GATES:
        directions = 2 if b"bidirectional" in [a.s for a in node.attribute if a.name == "direction"] else 1
        hidden = _integer(node, "hidden_size", 0)
        if not first or len(first) != 3:
            return None
        return first[0] * first[1] * directions * _GATES[op] * hidden * (first[2] + hidden)
    return 0


def _known(name: str, types: TensorTypes) -> tuple[int, ...] | None:
    shape = types.shapes.get(name)
    if shape is None:
        return None
    lengths = tuple(length for length in shape if length is not None)
    return lengths if len(lengths) == len(shape) else None


def _integer(node: NodeProto, name: str, default: int) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), default)
