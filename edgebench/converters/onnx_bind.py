"""What the routes to ONNX share: which batch can be, binding by name, proof that an open batch is open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgebench.converters import onnx_file
from edgebench.errors import RefusedError, StageError
from edgebench.types import Baseline, Binding, Caution, TensorSpec

if TYPE_CHECKING:
    from onnx import ModelProto

Arrays = Mapping[str, NDArray[Any]]
# The length of open dimensions that are not the batch, where an example is needed.
_OPEN_LENGTH = 8


def check_batch(baseline: Baseline, batch: int | None) -> None:
    """Raise RefusedError when the snapshot's own batch is fixed at another length than `batch` (None: open)."""
    lengths = {spec.shape[0] for spec in baseline.inputs if spec.shape}
    if not lengths or None in lengths or lengths == {batch}:
        return
    own = ", ".join(str(length) for length in sorted(length for length in lengths if length is not None))
    wanted = "an open batch" if batch is None else f"batch {batch}"
    raise RefusedError(
        f"model '{baseline.name}' has a fixed batch of {own}; {wanted} can't be made, take --batch {own}"
    )


def fix_batch(model: ModelProto, batch: int) -> None:
    """Set the open first dimension of every input, wherever the graph names it, and let the outputs follow."""
    import onnx
    from onnxruntime.tools.onnx_model_utils import make_dim_param_fixed

    stored = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name in stored or not dims or dims[0].dim_value > 0:
            continue
        if dims[0].dim_param:
            make_dim_param_fixed(model.graph, dims[0].dim_param, batch)
        dims[0].Clear()
        dims[0].dim_value = batch
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    for value, known in zip(model.graph.output, inferred.graph.output, strict=True):
        value.type.CopyFrom(known.type)


def refuse_foreign_operators(out: Path, tool: str) -> None:
    """Raise RefusedError when a converter left operators in the file that ONNX doesn't have."""
    import onnx

    nodes = onnx.load(out, load_external_data=False).graph.node
    foreign = sorted(
        {f"{node.domain}.{node.op_type}".strip(".") for node in nodes if not onnx.defs.has(node.op_type, node.domain)}
    )
    if foreign:
        raise RefusedError(f"{tool} has no counterpart in ONNX for the operators {', '.join(foreign)}")


def bindings(
    baseline: Baseline, out: Path, names: Mapping[str, str] | None = None
) -> tuple[tuple[Binding, ...], tuple[Binding, ...], tuple[Caution, ...]]:
    """The file's inputs and outputs, each bound to the baseline's by name, and a caution for each input left out.

    `names` gives the baseline's name of a file's tensor where the two differ.

    Raises:
        StageError: the file has an input that the baseline lacks, or lacks one of its outputs.
    """
    inputs, outputs = onnx_file.io(onnx_file.load(out))
    bound_inputs = _bound(inputs, baseline.inputs, names or {})
    bound_outputs = _bound(outputs, baseline.outputs, names or {})
    absent = {spec.name for spec in baseline.outputs} - {binding.baseline for binding in bound_outputs}
    if absent:
        raise StageError(f"the exported file lacks the baseline's outputs {', '.join(sorted(absent))}")
    unused = {spec.name for spec in baseline.inputs} - {binding.baseline for binding in bound_inputs}
    cautions = tuple(
        Caution(
            code="unused-input",
            message=f"input '{name}' changes no output, so the exported file leaves it out",
            advice=f"if input '{name}' should matter, check how the model uses it",
        )
        for name in sorted(unused)
    )
    return bound_inputs, bound_outputs, cautions


def examples(baseline: Baseline, batch: int) -> dict[str, NDArray[Any]]:
    """Seeded inputs of the baseline's shapes: normal floats, zeros for everything else."""
    random = np.random.default_rng(0)
    made = {}
    for spec in baseline.inputs:
        shape = tuple(length or _OPEN_LENGTH for length in spec.shape[1:])
        shape = (batch, *shape) if spec.shape else ()
        is_float = spec.dtype.startswith("float")
        made[spec.name] = (random.standard_normal(shape) if is_float else np.zeros(shape)).astype(spec.dtype)
    return made


def prove_open_batch(
    baseline: Baseline, out: Path, reference: Callable[[Arrays], Arrays], names: Mapping[str, str] | None = None
) -> None:
    """Run the file at batches 1 and 3 against the snapshot: exporters can bake the example's batch in.

    `names` gives the baseline's name of a file's tensor where the two differ.

    Raises:
        StageError: it fails, or gives other values than `reference`, at one of the two.
    """
    import onnxruntime

    known = names or {}
    session = None
    for batch in (1, 3):
        feed = examples(baseline, batch)
        try:
            session = session or onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
            taken = [value.name for value in session.get_inputs()]
            found = session.run(None, {name: feed[known.get(name, name)] for name in taken})
        except Exception as error:  # onnxruntime's errors share no other base
            raise StageError(
                f"the open batch does not hold: the file fails at batch {batch} ({first_line(error)}); give --batch 1"
            ) from error
        wanted = reference(feed)
        for value, array in zip(session.get_outputs(), found, strict=True):
            name = known.get(value.name, value.name)
            expected = np.asarray(wanted[name], np.float64)
            worst = 0.01 * float(np.abs(expected).max(initial=0)) + 1e-6
            if array.shape != expected.shape or not float(np.abs(array - expected).max(initial=0)) <= worst:
                raise StageError(
                    f"the open batch does not hold: output '{name}' is wrong at batch {batch}; give --batch 1"
                )


def first_line(error: BaseException) -> str:
    """A foreign error in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


def _bound(
    found: tuple[TensorSpec, ...], wanted: tuple[TensorSpec, ...], names: Mapping[str, str]
) -> tuple[Binding, ...]:
    known = {spec.name: spec for spec in wanted}
    bound = []
    for spec in found:
        name = names.get(spec.name, spec.name)
        if name not in known:
            raise StageError(f"the exported file's tensor '{spec.name}' is none of the baseline's: {', '.join(known)}")
        bound.append(Binding(tensor=replace(spec, layout=known[name].layout), baseline=name))
    return tuple(bound)
