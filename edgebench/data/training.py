"""Arrays with their truth for training, split into a part to learn from and a part to validate on."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgebench.data import preprocess as images
from edgebench.data.fit_arrays import LABELS, TARGET_PREFIX
from edgebench.data.fit_images import declared_for, read_input
from edgebench.data.fitted import checked_labels
from edgebench.data.samples import AnyArray, IntArray
from edgebench.data.sources import Dataset, ImageData, Wanted, open_source
from edgebench.data.wording import listed, shown
from edgebench.errors import DataError
from edgebench.types import Layout, Preprocess

_ALL = 1_000_000

Labels = npt.NDArray[np.int64] | npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingData:
    """Inputs by name ("" is the only input), each (n, ...), and their labels; held in memory.

    `labels` are int64 class indices (n,) for a classifier, float32 numbers to hit (n, ...) for a regression, whose
    `classes` are empty.
    """

    inputs: dict[str, AnyArray]
    labels: Labels
    validation_inputs: dict[str, AnyArray]
    validation_labels: Labels
    classes: tuple[str, ...]


def load_training(
    source: str,
    *,
    preprocess: Preprocess | None,
    layout: Layout | None,
    validation_fraction: float = 0.1,
    seed: int = 0,
) -> TrainingData:
    """Everything that the source lets a model learn from; of `digits` that is the training split only.

    It learns the class labels, or else the source's one float `target:OUTPUT`. Each class gives `validation_fraction`
    of its samples, rounded, but never all of them, to validation; without classes all samples count as one class.

    Raises:
        DataError: the data can't be read, has no labels and no float target, images lack a `preprocess`, or it is too
            small to split.
    """
    if not 0 < validation_fraction < 1:
        raise DataError(f"validation fraction {validation_fraction} must be above 0 and below 1")
    with tempfile.TemporaryDirectory(prefix="edgebench-training-") as scratch:
        wanted = Wanted(scratch=Path(scratch), calibration_samples=0, evaluation_samples=_ALL, seed=seed, layout=layout)
        pools = open_source(source, wanted)
        # A source with a pool of its own for calibration keeps the other one for evaluation.
        data = pools.evaluation if pools.calibration is None else pools.calibration
        labels = _labels(data)
        classes = _classes(data, labels)
        groups = labels if classes else np.zeros(len(labels), np.int64)
        learn, validate = _split(data.source, groups, validation_fraction, seed)
        inputs = _inputs(data, preprocess, layout)
    return TrainingData(
        inputs={name: array[learn] for name, array in inputs.items()},
        labels=labels[learn],
        validation_inputs={name: array[validate] for name, array in inputs.items()},
        validation_labels=labels[validate],
        classes=classes,
    )


def _labels(data: Dataset) -> Labels:
    given = data.labels if isinstance(data, ImageData) else data.arrays.get(LABELS)
    if given is None:
        return _target(data)
    labels = checked_labels(data.source, given, len(data.names))
    if labels.ndim != 1:
        raise DataError(f"{shown(data.source)}: training needs one class a sample, `labels` holds masks")
    return np.asarray(labels, dtype=np.int64)


def _target(data: Dataset) -> npt.NDArray[np.float32]:
    """The numbers that a regression learns to hit."""
    arrays = {} if isinstance(data, ImageData) else data.arrays
    targets = [name for name, array in arrays.items() if name.startswith(TARGET_PREFIX) and array.dtype.kind == "f"]
    if not targets:
        raise DataError(
            f"{shown(data.source)} has no class labels to learn from: give one sub-folder a class, a CSV with labels, "
            "an array `labels`, or for a regression a float array `target:OUTPUT`"
        )
    if len(targets) > 1:
        raise DataError(f"{shown(data.source)} has {listed(targets)}; training learns one target: leave one")
    target = np.asarray(arrays[targets[0]], dtype=np.float32)
    is_bad = ~np.isfinite(target.reshape(len(target), -1)).all(axis=1)
    if is_bad.any():
        raise DataError(
            f"{shown(data.source)}: '{shown(targets[0])}' has NaN or Inf in {int(is_bad.sum())} of {len(target)} "
            f"samples, first in {int(is_bad.argmax())}"
        )
    return target


def _classes(data: Dataset, labels: Labels) -> tuple[str, ...]:
    """Names of the classes; empty for a regression."""
    if labels.dtype.kind == "f":
        return ()
    return data.classes or tuple(str(label) for label in range(int(labels.max()) + 1))


def _inputs(data: Dataset, preprocess: Preprocess | None, layout: Layout | None) -> dict[str, AnyArray]:
    if isinstance(data, ImageData):
        declared = declared_for(data.source, preprocess, layout)
        array = np.empty((len(data.names), *images.output_shape(declared)), dtype=declared.dtype)
        for index in range(len(data.names)):
            array[index] = read_input(data, index, declared)
        return {"": array}
    arrays = {
        name: np.array(array, dtype=np.float32 if array.dtype == np.float64 else None)
        for name, array in data.arrays.items()
        if name != LABELS and not name.startswith(TARGET_PREFIX)
    }
    if not arrays:
        raise DataError(f"{shown(data.source)} holds labels only, no model input")
    return {"": next(iter(arrays.values()))} if len(arrays) == 1 else arrays


def _split(source: str, labels: AnyArray, fraction: float, seed: int) -> tuple[IntArray, IntArray]:
    """Shuffled indices to learn from and to validate on, class by class."""
    rng = np.random.default_rng(seed)
    learn, validate = [], []
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        held_out = min(max(1, round(fraction * len(members))), len(members) - 1)
        validate.append(members[:held_out])
        learn.append(members[held_out:])
    if not sum(map(len, validate)):
        raise DataError(f"{shown(source)} has one sample a class or less; validation needs at least two of some class")
    return rng.permutation(np.concatenate(learn)), rng.permutation(np.concatenate(validate))
