"""TensorFlow snapshots: a SavedModel folder whose `serving_default` has the baseline's names."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgebench.errors import ModelError, missing_extra, one_line
from edgebench.models.contents import Contents
from edgebench.types import Layout, TensorSpec

SIGNATURE = "serving_default"
SINGLE_SIGNATURE = "serving_batch_1"

Order = tuple[list[str], list[str]]
"""Names of the inputs and of the outputs, which a SavedModel itself does not order."""

# Operators that reach files or Python when a graph is loaded or run; a model for inference needs none of them.
_UNSAFE_OPS = frozenset(
    {"ReadFile", "WriteFile", "MatchingFiles", "PyFunc", "PyFuncStateless", "EagerPyFunc", "WholeFileReaderV2"}
)
# Attributes that hold names made up while tracing, or settings of the run; like those that start with `_` (hints), they
# differ between two exports of one model.
_NAMELESS_ATTRIBUTES = frozenset({"shared_name", "container", "config_proto", "config", "executor_type"})


def copy(source: Path, folder: Path, *, trust: bool) -> None:
    """Copy a user's SavedModel to `folder` once it is known to be one; links in it are refused.

    Raises:
        ModelError: it is corrupt, reaches for files or Python without `trust`, or has no `serving_default`.
    """
    for file in source.rglob("*"):
        if file.is_symlink() and not file.resolve().is_relative_to(source.resolve()):
            raise ModelError(f"SavedModel '{source}': {file.relative_to(source)} is a link out of its folder")
    _check(source, trust=trust)
    shutil.copytree(source, folder)


def read(folder: Path, order: Order | None = None) -> Contents:
    """What the snapshot holds, in the `order` that the model had; without one, by name.

    The hash covers the graph (without the names that tracing makes up), the signature and
    the values of the variables, because two exports of one model never have the same bytes.

    Raises:
        ModelError: TensorFlow can't load it, or its signature has no tensors.
    """
    _loaded, function = load(folder)
    _, arguments = function.structured_input_signature
    results = function.structured_outputs
    names = order or (sorted(arguments), sorted(results))
    inputs = tuple(_spec(name, arguments[name]) for name in names[0])
    outputs = tuple(_spec(name, results[name]) for name in names[1])
    if not outputs:
        raise ModelError(f"SavedModel '{folder}': its signature {SIGNATURE} has no outputs")
    variables = [_value(captured) for captured in function.captured_inputs]
    return Contents(
        inputs=inputs,
        outputs=outputs,
        parameters=sum(value.size for value in variables if value is not None),
        sha256=_digest(function, inputs, outputs, variables),
    )


def load(folder: Path) -> tuple[Any, Any]:
    """The loaded SavedModel, which must be kept while the second, its `serving_default`, is called.

    Raises:
        ModelError: TensorFlow can't load it, or it has no such signature.
    """
    tensorflow = import_tensorflow(f"SavedModel '{folder}'")
    try:
        loaded = tensorflow.saved_model.load(str(folder))
    except Exception as error:  # TensorFlow documents no set of errors for a corrupt SavedModel
        raise ModelError(f"SavedModel '{folder}' can't be loaded: {one_line(error)}") from error
    signatures = dict(loaded.signatures)
    if SIGNATURE not in signatures:
        found = ", ".join(sorted(signatures)) or "none"
        raise ModelError(
            f"SavedModel '{folder}' has no signature {SIGNATURE} (found: {found}); export it with that one"
        )
    return loaded, signatures[SIGNATURE]


def import_tensorflow(needed_for: str) -> Any:
    """TensorFlow; raises MissingError that names the extra."""
    try:
        import tensorflow
    except ImportError as error:
        raise missing_extra("tensorflow", "tensorflow", needed_for) from error
    return tensorflow


def _check(folder: Path, *, trust: bool) -> None:
    import_tensorflow(f"SavedModel '{folder}'")
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # no stubs
    from tensorflow.core.protobuf import saved_model_pb2

    proto = saved_model_pb2.SavedModel()
    try:
        proto.ParseFromString((folder / "saved_model.pb").read_bytes())
    except DecodeError as error:
        raise ModelError(f"SavedModel '{folder}': saved_model.pb is corrupt or truncated") from error
    if not proto.meta_graphs:
        raise ModelError(f"SavedModel '{folder}': saved_model.pb holds no graph")
    graphs = [graph.graph_def for graph in proto.meta_graphs]
    nodes = [node for graph in graphs for node in graph.node]
    nodes += [node for graph in graphs for function in graph.library.function for node in function.node_def]
    unsafe = sorted({node.op for node in nodes} & _UNSAFE_OPS)
    if unsafe and not trust:
        raise ModelError(
            f"SavedModel '{folder}' reaches for files or Python ({', '.join(unsafe)}); if you trust it add --trust"
        )


def _spec(name: str, spec: Any) -> TensorSpec:
    if spec.shape.rank is None:
        raise ModelError(f"tensor '{name}' has no rank in the signature; export the model with a fixed number of axes")
    shape = tuple(spec.shape.as_list())
    layout: Layout | None = "NHWC" if len(shape) == 4 else None
    return TensorSpec(name=name, shape=shape, dtype=spec.dtype.name, layout=layout)


def _value(captured: Any) -> np.ndarray[Any, Any] | None:
    """The value of a variable or constant that a function captured; None for a table or another resource."""
    import tensorflow

    if captured.dtype != tensorflow.resource:
        value: np.ndarray[Any, Any] = captured.numpy()
        return np.asarray(value)
    handle_data = getattr(captured, "_handle_data", None)
    if handle_data is None or not handle_data.shape_and_type:
        return None
    dtype = tensorflow.dtypes.as_dtype(handle_data.shape_and_type[0].dtype)
    return np.asarray(tensorflow.raw_ops.ReadVariableOp(resource=captured, dtype=dtype).numpy())


def _digest(
    function: Any,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    variables: Sequence[np.ndarray[Any, Any] | None],
) -> str:
    graph = function.graph.as_graph_def()
    library = {each.signature.name: each for each in graph.library.function}
    digest = hashlib.sha256(repr((inputs, outputs)).encode())
    digest.update(_graph_digest(graph.node, library))
    for value in variables:
        if value is not None:
            digest.update(f"{value.dtype.name}{value.shape}".encode())
            digest.update(repr(value.tolist()).encode() if value.dtype.hasobject else np.ascontiguousarray(value).data)
    return digest.hexdigest()


def _graph_digest(nodes: Sequence[Any], library: Mapping[str, Any]) -> bytes:
    """Hash operators, attributes and edges; a node counts by its position, a called function by what it does."""
    position = {node.name: index for index, node in enumerate(nodes)}
    digest = hashlib.sha256()
    for node in nodes:
        edges = []
        for edge in node.input:
            name, colon, rest = edge.lstrip("^").partition(":")
            edges.append((edge.startswith("^"), position.get(name, name), colon, rest))
        digest.update(repr((node.op if node.op not in library else "call", edges)).encode())
        for key in sorted(node.attr):
            if key.startswith("_") or key in _NAMELESS_ATTRIBUTES:
                continue
            called = node.attr[key].func.name
            if called in library:
                digest.update(_graph_digest(library[called].node_def, library))
            elif not node.attr[key].list.func and not called:
                digest.update(key.encode() + node.attr[key].SerializeToString(deterministic=True))
    return digest.digest()
