"""An .onnx file opened as data: its proto, its tensors and the files beside it, checked before anything trusts them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.errors import ModelError, one_line
from edgebench.types import TensorSpec

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

# protobuf's own limit for one message; larger models keep their weights in an external-data file.
_LARGEST_FILE = 2**31 - 1
# ONNX's checker passes every operator outside its own domain; those read here by position need so many inputs.
_FEWEST_INPUTS = {
    "Conv": 2,
    "ConvInteger": 2,
    "ConvTranspose": 2,
    "DequantizeLinear": 2,
    "DynamicQuantizeLSTM": 12,
    "DynamicQuantizeLinear": 1,
    "DynamicQuantizeMatMul": 2,
    "GRU": 3,
    "Gemm": 2,
    "LSTM": 3,
    "MatMul": 2,
    "MatMulInteger": 2,
    "MatMulIntegerToFloat": 4,
    "MatMulNBits": 3,
    "QGemm": 6,
    "QLinearConv": 8,
    "QLinearMatMul": 8,
    "QuantizeLinear": 2,
    "RNN": 3,
    "ReduceMean": 1,
}


def load(path: Path) -> ModelProto:
    """The model without its external data, local functions inlined; every tensor is as long as its shape says.

    Raises:
        ModelError: not an ONNX file, cut short, against ONNX's rules, or its external data is absent or outside its
            folder.
    """
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # ships no types

    try:
        size_bytes = path.stat().st_size
        if size_bytes > _LARGEST_FILE:
            raise ModelError(
                f"{path} has {size_bytes} bytes; an ONNX file can't exceed {_LARGEST_FILE}, so it isn't one"
            )
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        raise ModelError(f"{path} can't be read: {error.strerror}") from error
    except (DecodeError, ValueError) as error:
        raise ModelError(f"{path} is not an ONNX file, or is cut short: {one_line(error)}") from error
    if not model.graph.output:
        raise ModelError(f"{path} is not an ONNX file, or is cut short: it has no outputs")
    for tensor in tensors(model.graph):
        _check_tensor(tensor, path)
    try:
        onnx.checker.check_model(str(path))
        if model.functions:
            from onnx.inliner import inline_local_functions

            model = inline_local_functions(model)
    except (onnx.checker.ValidationError, RuntimeError, ValueError) as error:
        raise ModelError(f"{path} is not a valid ONNX model: {one_line(error)}") from error
    for graph in graphs(model.graph):
        for node in graph.node:
            _check_node(node, path)
    return model


def external_files(path: Path, model: ModelProto) -> tuple[Path, ...]:
    """The external-data files of a model that `load` accepted, absolute, each once."""
    locations = {_external(tensor)["location"] for tensor in tensors(model.graph) if _is_external(tensor)}
    return tuple(path.absolute().parent / location for location in sorted(locations))


def io(model: ModelProto) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """The graph's inputs (without those that have a stored value) and outputs; an open or unsaid dimension is None.

    Raises:
        ModelError: an input or output is not a tensor.
    """
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = tuple(_spec(value) for value in model.graph.input if value.name not in stored)
    return inputs, tuple(_spec(value) for value in model.graph.output)


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph and the bodies of its If, Loop and Scan nodes, the outermost first."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            bodies = [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
            for body in bodies:
                yield from graphs(body)


def tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """Every stored tensor: initializers, and tensors in attributes (the values of Constant nodes)."""
    for part in graphs(graph):
        yield from part.initializer
        for sparse in part.sparse_initializer:
            yield sparse.values
            yield sparse.indices
        for node in part.node:
            yield from _attribute_tensors(node)


def dtype_name(element_type: int) -> str:
    """numpy's name of an ONNX element type; 'string' and 'undefined' where numpy has none."""
    import onnx

    if element_type == onnx.TensorProto.STRING:
        return "string"
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(element_type).name)
    except (KeyError, ValueError, TypeError):
        return "undefined"


def stored_bytes(tensor: TensorProto) -> int:
    """How many bytes a tensor takes by its shape and type (two 4-bit values in a byte)."""
    return (int(prod(tensor.dims)) * _bits(tensor.data_type) + 7) // 8


def _attribute_tensors(node: NodeProto) -> Iterator[TensorProto]:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        if attribute.HasField("sparse_tensor"):
            yield attribute.sparse_tensor.values
            yield attribute.sparse_tensor.indices


def _check_node(node: NodeProto, path: Path) -> None:
    # protobuf gives bytes where a text is not UTF-8.
    if not all(isinstance(text, str) for text in (node.op_type, node.domain, node.name, *node.input, *node.output)):
        raise ModelError(f"{path} is not an ONNX file, or is damaged: an operator's name is no text")
    fewest_inputs = _FEWEST_INPUTS.get(node.op_type, 0)
    fewest_outputs = 0 if node.op_type not in _FEWEST_INPUTS else 3 if node.op_type == "DynamicQuantizeLinear" else 1
    if len(node.input) < fewest_inputs or len(node.output) < fewest_outputs:
        raise ModelError(
            f"{path}: {node.op_type} '{node.name}' has {len(node.input)} inputs and {len(node.output)} outputs, "
            f"it needs {fewest_inputs} and {fewest_outputs}"
        )


def _check_tensor(tensor: TensorProto, path: Path) -> None:
    import onnx

    if any(length < 0 for length in tensor.dims):
        raise ModelError(f"{path}: tensor '{tensor.name}' has the impossible shape {list(tensor.dims)}")
    if tensor.data_type == onnx.TensorProto.STRING:
        return
    wanted = stored_bytes(tensor)
    if _is_external(tensor):
        found = _external_length(tensor, path)
    elif tensor.HasField("raw_data"):
        found = len(tensor.raw_data)
    else:
        typed = (tensor.float_data, tensor.int32_data, tensor.int64_data, tensor.double_data, tensor.uint64_data)
        count = max(len(values) for values in typed)
        is_packed = _bits(tensor.data_type) < 8  # several values share one entry
        is_complex = tensor.data_type in (onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128)
        per_entry = 8 if is_packed else _bits(tensor.data_type) // (2 if is_complex else 1)
        found = count * per_entry // 8
    if found != wanted:
        raise ModelError(
            f"{path}: tensor '{tensor.name}' of shape {list(tensor.dims)} needs {wanted} bytes, the file holds {found}"
        )


def _external_length(tensor: TensorProto, path: Path) -> int:
    entries = _external(tensor)
    location = entries.get("location", "")
    folder = path.resolve().parent
    target = (folder / location).resolve()
    leaves = Path(location).is_absolute() or ".." in Path(location).parts or not target.is_relative_to(folder)
    if not location or leaves or target == folder:
        raise ModelError(f"{path}: tensor '{tensor.name}' lies at '{location}', outside the model's folder; not opened")
    if not target.is_file():
        raise ModelError(f"{path}: its external data '{location}' is not beside it; copy both files together")
    size_bytes = target.stat().st_size
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries.get("length", str(stored_bytes(tensor))))
    except ValueError as error:
        raise ModelError(
            f"{path}: tensor '{tensor.name}' has an external offset or length that is no number"
        ) from error
    if offset < 0 or length < 0 or offset + length > size_bytes:
        raise ModelError(
            f"{path}: tensor '{tensor.name}' lies at bytes {offset} to {offset + length} of '{location}', "
            f"which has {size_bytes}; it is cut short"
        )
    return length


def _is_external(tensor: TensorProto) -> bool:
    import onnx

    return tensor.data_location == onnx.TensorProto.EXTERNAL


def _external(tensor: TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _bits(element_type: int) -> int:
    import onnx

    name = dtype_name(element_type)
    for small, bits in (("int4", 4), ("float4", 4), ("int2", 2)):
        if small in name:
            return bits
    if name == "undefined":
        raise ModelError(f"a tensor has the element type {element_type}, which this onnx package does not know")
    return 64 if name == "string" else int(onnx.helper.tensor_dtype_to_np_dtype(element_type).itemsize) * 8


def _spec(value: ValueInfoProto) -> TensorSpec:
    if not value.type.HasField("tensor_type"):
        raise ModelError(f"'{value.name}' is not a tensor but a {value.type.WhichOneof('value') or 'value of no type'}")
    tensor_type = value.type.tensor_type
    dims = tensor_type.shape.dim
    shape = tuple(dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in dims)
    return TensorSpec(name=value.name, shape=shape, dtype=dtype_name(tensor_type.elem_type))
