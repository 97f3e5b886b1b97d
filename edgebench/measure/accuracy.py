"""How accurate a file is on a device: task metrics, error against the baseline, and where the error comes from."""

from __future__ import annotations

from collections.abc import Mapping

from edgebench.arrays import Array
from edgebench.errors import StageError
from edgebench.measure import device_cautions, output_cautions, tasks
from edgebench.measure.divergence import compare
from edgebench.measure.tasks.classification import class_outputs
from edgebench.measure.tasks.protocol import Context, TaskMeasure, Truth
from edgebench.types import Binding, Caution, Divergence, Evaluation, Layout, Split, Task

Outputs = dict[str, Array]


def evaluate(
    *,
    task: Task | None,
    outputs: Outputs,
    raw_outputs: Outputs,
    artifact_outputs: tuple[Binding, ...],
    baseline_outputs: Outputs | None,
    float_outputs: Outputs | None,
    host_outputs: Outputs | None,
    is_fp32: bool,
    labels: Array | None,
    targets: dict[str, Array],
    classes: int | None = None,
) -> Evaluation:
    """The accuracy of one file on one device, from what it and its references gave for the same samples.

    `outputs`, `baseline_outputs`, `float_outputs` (the float file of the same format) and `host_outputs` (the same file
    on the host) are the baseline's outputs by name, float32, samples on axis 0; `raw_outputs` are the file's own
    tensors by file name. `float_outputs` is None for the float file itself: all of its error is then conversion.
    `host_outputs` is None where the device is the host; `is_fp32` tells how near to them the device's must be.
    `baseline_outputs` is None for a file that came without a baseline: then only metrics against the truth and the
    device's own error are known. `classes` helps to find the output of class scores among several.

    Without a task, labels or one output of shape (n, classes) mean classification, and a caution says that this was
    assumed.

    Raises:
        StageError: names, shapes or sample counts differ, or an output has NaN or Inf.
        DataError: labels or targets do not fit the outputs.
        MissingError: the task needs an extra that is not installed.
    """
    reference = outputs if baseline_outputs is None else baseline_outputs
    n = _sample_count(reference)
    context = Context(
        baseline_outputs=reference,
        truth=Truth(labels=labels, targets=targets),
        classes=classes,
        layouts={binding.baseline: _baseline_layout(binding) for binding in artifact_outputs},
        has_baseline=baseline_outputs is not None,
    )
    cautions: list[Caution] = []
    if task is None and _looks_like_classification(context):
        task = Task.CLASSIFICATION
        cautions.append(_ASSUMED)
    measure = tasks.bind(task, context) if task is not None else None
    if measure is not None:
        cautions += measure.cautions
    cautions += output_cautions.inspect(raw_outputs, artifact_outputs, n)
    if host_outputs is not None:
        cautions += device_cautions.against_host(outputs, host_outputs, artifact_outputs, is_fp32)
    metrics = measure.metrics(outputs) if measure else {}
    device = None if host_outputs is None else _diverge(measure, host_outputs, outputs)
    if baseline_outputs is None:
        return Evaluation(task=task, n=n, metrics=metrics, split=Split(device=device), cautions=tuple(cautions))
    on_host = outputs if host_outputs is None else host_outputs
    divergence = _diverge(measure, baseline_outputs, outputs)
    drop = measure.drop(outputs) if measure else None
    return Evaluation(
        task=task,
        n=n,
        metrics=metrics,
        baseline_metrics=measure.metrics(baseline_outputs) if measure else {},
        divergence=divergence,
        split=_split(measure, on_host, baseline_outputs, float_outputs, device),
        drop_pp=drop.pp if drop else None,
        drop_p_value=drop.p_value if drop else None,
        cautions=tuple(cautions),
    )


_ASSUMED = Caution(
    code="task-assumed",
    message="no task was named, and the output of shape (n, classes) is read as class scores",
    advice="name the task with --task",
)


def _sample_count(reference: Outputs) -> int:
    counts = {name: len(values) if values.ndim else 0 for name, values in reference.items()}
    if len(set(counts.values())) != 1 or 0 in counts.values():
        raise StageError(f"the baseline's outputs do not hold the same samples: {counts or 'there is no output'}")
    return next(iter(counts.values()))


def _looks_like_classification(context: Context) -> bool:
    if not class_outputs(context):
        return False
    if context.truth.labels is not None:
        return True
    return context.has_baseline and not context.truth.targets and len(context.baseline_outputs) == 1


def _diverge(measure: TaskMeasure | None, reference: Outputs, outputs: Outputs) -> Divergence:
    errors = compare(reference, outputs)
    agreement = measure.agreement(reference, outputs) if measure else None
    if agreement is None:
        return Divergence(outputs=errors)
    return Divergence(outputs=errors, agreement=agreement.everywhere, agreement_clear=agreement.clear)


def _split(
    measure: TaskMeasure | None,
    on_host: Outputs,
    baseline_outputs: Outputs,
    float_outputs: Outputs | None,
    device: Divergence | None,
) -> Split:
    """Baseline -> float file -> this file on the host -> this file on the device; each step against the one before."""
    if float_outputs is None:
        return Split(conversion=_diverge(measure, baseline_outputs, on_host), device=device)
    return Split(
        conversion=_diverge(measure, baseline_outputs, float_outputs),
        quantization=_diverge(measure, float_outputs, on_host),
        device=device,
    )


def _baseline_layout(binding: Binding) -> Layout | None:
    """The layout of the baseline's tensor, from the file's and the permutation between them."""
    layout, permutation = binding.tensor.layout, binding.permutation
    if layout is None or permutation is None:
        return layout
    other: Mapping[Layout, Layout] = {"NHWC": "NCHW", "NCHW": "NHWC"}
    to_other = {"NHWC": (0, 2, 3, 1), "NCHW": (0, 3, 1, 2)}
    return other[layout] if permutation == to_other[layout] else layout
