"""Fit a source's arrays to a model: match them by name, check shape and dtype, convert numbers without scaling them.

Targets: `target:OUTPUT` is the truth of one output, (n, ...). Detection has no output-shaped truth, so it has two
reserved names: `target:boxes`, float (n, k, 4), two opposite corners in the axis order and unit of the model's own
boxes, and `target:classes`, integer (n, k), -1 where a sample has fewer than k objects.
"""

from __future__ import annotations

from edgebench.data.fitted import Fitted, checked_labels, inferred_task
from edgebench.data.numbers import convert, dtype_of
from edgebench.data.samples import AnyArray, Kind
from edgebench.data.sources import ArrayData
from edgebench.data.wording import listed, shown, shown_shape
from edgebench.errors import DataError
from edgebench.types import Baseline, Caution, Task, TensorSpec

LABELS = "labels"
TARGET_PREFIX = "target:"
_DETECTION_TARGETS = ("boxes", "classes")


def fit_arrays(data: ArrayData, baseline: Baseline, task: Task | None) -> Fitted:
    """The arrays under the model's names; what the model has no use for is left out with a caution that names it.

    Raises:
        DataError: an input is missing, or an array's shape or dtype doesn't fit; both sides are shown.
    """
    cautions = list(data.cautions)
    inputs = _match_inputs(data, baseline.inputs, cautions)
    targets = _match_targets(data, baseline.outputs, cautions)
    has_labels = LABELS in data.arrays and LABELS not in inputs.values()
    unused = data.arrays.keys() - {*inputs.values(), *targets.values()} - ({LABELS} if has_labels else set())
    if unused:
        cautions.append(_unused(sorted(unused), data, baseline))
    kinds = {}
    for spec in baseline.inputs:
        array = data.arrays[inputs[spec.name]]
        _check_shape(data, inputs[spec.name], spec)
        kinds[spec.name] = Kind(array.shape[1:], dtype_of(spec))
        cautions += _dtype_caution(array, spec)
    labels = checked_labels(data.source, data.arrays[LABELS], len(data.names)) if has_labels else None
    truths = {name: data.arrays[source_name] for name, source_name in targets.items()}
    _check_detection(data.source, truths)

    def read(index: int) -> dict[str, AnyArray]:
        return {
            name: convert(
                data.arrays[inputs[name]][index], kind.dtype, f"{shown(data.source)}: '{shown(name)}' of sample {index}"
            )
            for name, kind in kinds.items()
        }

    return Fitted(
        source=data.source,
        names=data.names,
        inputs=kinds,
        read=read,
        labels=labels,
        targets=truths,
        task=inferred_task(task, baseline.task, labels, truths),
        classes=data.classes,
        cautions=tuple(cautions),
    )


def _match_inputs(data: ArrayData, specs: tuple[TensorSpec, ...], cautions: list[Caution]) -> dict[str, str]:
    """Model input -> array name. By name; the only array may stand for the only input under any name."""
    missing = [spec.name for spec in specs if spec.name not in data.arrays]
    if not missing:
        return {spec.name: spec.name for spec in specs}
    others = [name for name in data.arrays if name != LABELS and not name.startswith(TARGET_PREFIX)]
    if len(specs) == 1 and len(others) == 1:
        (spec,), (other,) = specs, others
        if other:
            cautions.append(
                Caution(
                    code="input-renamed",
                    message=f"the array '{shown(other)}' is taken for the model's only input '{shown(spec.name)}'",
                    advice=f"name the array '{shown(spec.name)}' (now '{shown(other)}')",
                )
            )
        return {spec.name: other}
    raise DataError(
        f"{shown(data.source)} has no array for the model's input {listed(missing)}: "
        f"expected {listed(spec.name for spec in specs)}, found {listed(others)}"
    )


def _match_targets(data: ArrayData, outputs: tuple[TensorSpec, ...], cautions: list[Caution]) -> dict[str, str]:
    """Target -> array name: an output's name, detection's reserved two, or the only target for the only output."""
    given = [name.removeprefix(TARGET_PREFIX) for name in data.arrays if name.startswith(TARGET_PREFIX)]
    known = {spec.name for spec in outputs}
    if set(_DETECTION_TARGETS) <= set(given):
        known.update(_DETECTION_TARGETS)
    if len(outputs) == 1 and len(given) == 1 and not known & set(given):
        cautions.append(
            Caution(
                code="target-renamed",
                message=f"the array 'target:{shown(given[0])}' is taken for the model's only output "
                f"'{shown(outputs[0].name)}'",
                advice=f"name the array 'target:{shown(outputs[0].name)}' (now 'target:{shown(given[0])}')",
            )
        )
        return {outputs[0].name: TARGET_PREFIX + given[0]}
    matched = {name: TARGET_PREFIX + name for name in given if name in known}
    for name in matched.values():
        if data.arrays[name].dtype.kind not in "biuf":
            raise DataError(f"{shown(data.source)}: '{shown(name)}' is {data.arrays[name].dtype}, not numbers")
    return matched


def _unused(names: list[str], data: ArrayData, baseline: Baseline) -> Caution:
    outputs = listed(f"{TARGET_PREFIX}{spec.name}" for spec in baseline.outputs)
    return Caution(
        code="unused-array",
        message=f"{shown(data.source)}: the arrays {listed(names)} are left out: they are no input of the model "
        f"({listed(spec.name for spec in baseline.inputs)}), not 'labels', and no target ({outputs})",
        advice="rename the arrays that should be used",
    )


def _check_shape(data: ArrayData, name: str, spec: TensorSpec) -> None:
    array = data.arrays[name]
    expected = spec.shape[1:]
    fits = len(expected) == array.ndim - 1 and all(
        size is None or size == found for size, found in zip(expected, array.shape[1:], strict=True)
    )
    if not fits:
        found = shown_shape(array.shape[1:])
        raise DataError(
            f"{shown(data.source)}: each sample of '{shown(name)}' has shape {found}, the model's input "
            f"'{shown(spec.name)}' takes {shown_shape(expected)}{_way_out(array.shape[1:], expected)}"
        )


def _way_out(found: tuple[int, ...], expected: tuple[int | None, ...]) -> str:
    if len(found) == len(expected) == 3:
        if (found[2], found[0], found[1]) == expected:
            return ": transpose the samples from height-width-channels to channels-height-width"
        if (found[1], found[2], found[0]) == expected:
            return ": transpose the samples from channels-height-width to height-width-channels"
    if len(found) == len(expected) + 1 and found[0] == 1:
        return ": drop the extra axis of size 1; the first axis of the array counts samples"
    return ": bring the samples to the model's shape"


def _dtype_caution(array: AnyArray, spec: TensorSpec) -> list[Caution]:
    wanted = dtype_of(spec)
    if array.dtype.kind in "biu" and wanted.kind == "f":
        return [
            Caution(
                code="input-dtype",
                message=f"input '{shown(spec.name)}': {array.dtype} values become {wanted} as they are, "
                "without scaling",
                advice="if the model was trained on scaled values, scale the array yourself",
            )
        ]
    if array.dtype.kind == "f" and wanted.kind in "iu":
        return [
            Caution(
                code="input-dtype",
                message=f"input '{shown(spec.name)}': whole-numbered {array.dtype} values become {wanted}",
                advice=f"store the array as {wanted}",
            )
        ]
    return []


def _check_detection(source: str, targets: dict[str, AnyArray]) -> None:
    if not set(_DETECTION_TARGETS) <= targets.keys():
        return
    boxes, classes = targets["boxes"], targets["classes"]
    if boxes.ndim != 3 or boxes.shape[2] != 4 or classes.shape != boxes.shape[:2]:
        raise DataError(
            f"{shown(source)}: target:boxes is {shown_shape(boxes.shape)} and target:classes "
            f"{shown_shape(classes.shape)}; they must be (n, k, 4) and (n, k), classes -1 where there is no object"
        )
    if classes.dtype.kind not in "iu":
        raise DataError(f"{shown(source)}: target:classes is {classes.dtype}; class indices are whole numbers")
