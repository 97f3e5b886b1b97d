"""Which tensor of a .tflite file stands for which of the baseline's: by name, never by position."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from edgebench.converters import inspect_tflite
from edgebench.errors import ModelError, RefusedError
from edgebench.types import Baseline, Binding, TensorSpec

CHANNELS_LAST = (0, 2, 3, 1)


def batched_shapes(baseline: Baseline, batch: int | None) -> dict[str, tuple[int | None, ...]]:
    """The baseline's input shapes with every open first axis set to `batch`; None leaves it open.

    Raises:
        RefusedError: the baseline's own batch is fixed at another number.
    """
    open_inputs = [spec for spec in baseline.inputs if spec.shape and spec.shape[0] is None]
    if not open_inputs:
        own = {spec.shape[0] for spec in baseline.inputs if spec.shape}
        if batch is None or (own and own != {batch}):
            wanted = "an open batch" if batch is None else f"batch {batch}"
            fixed = ", ".join(str(size) for size in sorted(size for size in own if size is not None))
            raise RefusedError(f"the baseline's batch is fixed at {fixed or 'none'}, so {wanted} can't be made from it")
    shapes = {spec.name: spec.shape for spec in baseline.inputs}
    return {**shapes, **{spec.name: (batch, *spec.shape[1:]) for spec in open_inputs}}


def bind(
    path: Path,
    baseline: Baseline,
    *,
    names: Mapping[str, str] | None = None,
    channels_last: Collection[str] = (),
) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
    """The inputs and outputs of a .tflite file, in the baseline's order.

    `names` takes baseline names to the file's where they differ; `channels_last` are the baseline names whose NCHW
    became NHWC in the file.

    Raises:
        ModelError: the file lacks one of the baseline's outputs, or asks for an input that the baseline doesn't have.
    """
    facts = inspect_tflite.read(path)
    inputs = _bound("input", facts.inputs, baseline.inputs, names or {}, channels_last)
    outputs = _bound("output", facts.outputs, baseline.outputs, names or {}, channels_last)
    known = {binding.tensor.name for binding in inputs}
    unknown = sorted(spec.name for spec in facts.inputs if spec.name not in known)
    if unknown:
        raise ModelError(
            f"the converted file asks for the inputs {', '.join(unknown)}, which the baseline doesn't have"
        )
    lost = [spec.name for spec in baseline.outputs if spec.name not in {binding.baseline for binding in outputs}]
    if lost:
        have = ", ".join(spec.name for spec in facts.outputs)
        raise ModelError(f"the converted file lost the outputs {', '.join(lost)}; it has {have}")
    return inputs, outputs


def _bound(
    kind: str,
    found: tuple[TensorSpec, ...],
    wanted: tuple[TensorSpec, ...],
    names: Mapping[str, str],
    channels_last: Collection[str],
) -> tuple[Binding, ...]:
    by_name = {spec.name: spec for spec in found}
    bindings = []
    for spec in wanted:
        tensor = by_name.get(names.get(spec.name, spec.name))
        if tensor is None:  # an input that the model doesn't use; a lost output is told by the caller
            continue
        if len(tensor.shape) != len(spec.shape):
            raise ModelError(
                f"{kind} '{spec.name}' is {list(spec.shape)} in the baseline, {list(tensor.shape)} when converted"
            )
        permutation = CHANNELS_LAST if spec.name in channels_last else None
        layout = "NHWC" if permutation else spec.layout
        bindings.append(Binding(tensor=replace(tensor, layout=layout), baseline=spec.name, permutation=permutation))
    return tuple(bindings)
