"""What every route to ONNX shares: refusing a batch that can't be, binding by name, proving that an open batch is open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench.converters import onnx_file
from edgebench.errors import RefusedError, StageError
from edgebench.types import Baseline, Binding, Caution, TensorSpec

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
    raise RefusedError(f"model '{baseline.name}' has its batch fixed at {own}, so {wanted} can't be made; take --batch {own}")


def bindings(baseline: Baseline, out: Path) -> tuple[tuple[Binding, ...], tuple[Binding, ...], tuple[Caution, ...]]:
    """The file's inputs and outputs, each bound to the baseline's of the same name, and a caution for an unused input.

    Raises:
        StageError: the file has an input that the baseline lacks, or lacks one of its outputs.
    """
    inputs, outputs = onnx_file.io(onnx_file.load(out))
    known = {spec.name: spec for spec in (*baseline.inputs, *baseline.outputs)}
    strange = [spec.name for spec in (*inputs, *outputs) if spec.name not in known]
    absent = [spec.name for spec in baseline.outputs if spec.name not in {found.name for found in outputs}]
    if strange or absent:
        raise StageError(
            f"the exported file's tensors don't match the baseline's by name: unknown {strange}, missing outputs {absent}"
        )
    unused = [spec.name for spec in baseline.inputs if spec.name not in {found.name for found in inputs}]
    cautions = tuple(
        Caution(code="unused-input", message=f"input '{name}' changes no output, so the exported file leaves it out")
        for name in unused
    )
    return _bound(inputs, known), _bound(outputs, known), cautions


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


def prove_open_batch(baseline: Baseline, out: Path, reference: Callable[[Arrays], Arrays]) -> None:
    """Run the file at batches 1 and 3 against the snapshot: exporters can bake the example's batch in.

    Raises:
        StageError: it fails, or gives other values than `reference`, at one of the two.
    """
    import onnxruntime

    names = [spec.name for spec in baseline.outputs]
    for batch in (1, 3):
        feed = examples(baseline, batch)
        try:
            session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
            taken = {value.name for value in session.get_inputs()}
            found = session.run(names, {name: array for name, array in feed.items() if name in taken})
        except Exception as error:  # onnxruntime's errors share no other base
            raise StageError(
                f"the open batch does not hold: the file fails at batch {batch} ({first_line(error)}); give a fixed --batch"
            ) from error
        wanted = reference(feed)
        for name, array in zip(names, found, strict=True):
            expected = np.asarray(wanted[name])
            worst = 0.01 * float(np.abs(expected).max(initial=0)) + 1e-6
            if array.shape != expected.shape or not float(np.abs(array - expected).max(initial=0)) <= worst:
                raise StageError(
                    f"the open batch does not hold: output '{name}' is wrong at batch {batch}; give a fixed --batch"
                )


def first_line(error: BaseException) -> str:
    """A foreign error in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


def _bound(specs: tuple[TensorSpec, ...], known: dict[str, TensorSpec]) -> tuple[Binding, ...]:
    return tuple(
        Binding(tensor=replace(spec, layout=known[spec.name].layout), baseline=spec.name) for spec in specs
    )
