"""A data set in the model's terms: the model's names, shapes and dtypes, read one sample at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgebench.data.samples import AnyArray, IntArray, Kind, Row, SampleStream
from edgebench.data.wording import shown
from edgebench.errors import DataError
from edgebench.types import Caution, Preprocess, Task

_LABELS_LOOKED_AT, _LABELS_SHOWN = 1000, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """`read` gives one sample's inputs, converted and checked; labels and targets are whole arrays, maybe on disk.

    `labels` are integers, (n,) or (n, h, w). `preprocess` is what `read` applies, None where the source gives arrays.
    """

    source: str
    names: tuple[str, ...]
    inputs: dict[str, Kind]
    read: Callable[[int], dict[str, AnyArray]]
    labels: AnyArray | None = None
    targets: dict[str, AnyArray]
    task: Task | None = None
    classes: tuple[str, ...] = ()
    preprocess: Preprocess | None = None
    cautions: tuple[Caution, ...] = ()

    def stream(self, indices: Sequence[int]) -> SampleStream:
        """The chosen samples, in that order, for `write_samples`."""
        labels = self.labels
        return SampleStream(
            names=tuple(self.names[index] for index in indices),
            inputs=self.inputs,
            targets={name: Kind(array.shape[1:], array.dtype) for name, array in self.targets.items()},
            label=None if labels is None else Kind(labels.shape[1:], np.dtype(np.int64)),
            rows=(
                Row(
                    inputs=self.read(index),
                    targets={name: array[index] for name, array in self.targets.items()},
                    label=None if labels is None else labels[index],
                )
                for index in indices
            ),
        )


def checked_labels(source: str, labels: AnyArray, n: int) -> AnyArray:
    """The labels as integers, (n,) for classes or (n, h, w) for masks.

    Raises:
        DataError: they are text or no whole numbers, negative class indices, or of another shape.
    """
    if labels.dtype.kind in "US":
        raise text_labels(source, labels)
    if labels.shape == (n, 1):
        labels = labels[:, 0]
    if labels.ndim == 2:
        raise DataError(
            f"{shown(source)}: `labels` has shape {labels.shape}; it must be (n,) class indices or (n, h, w) masks: "
            "for one-hot labels store their argmax"
        )
    if labels.ndim not in (1, 3):
        raise DataError(
            f"{shown(source)}: `labels` has shape {labels.shape}; it must be (n,) class indices or (n, h, w) masks"
        )
    if labels.dtype.kind == "f" and labels.ndim == 1 and bool(np.all(labels == np.rint(labels))):
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "iub":
        raise DataError(
            f"{shown(source)}: `labels` is {labels.dtype}, not whole numbers: class indices belong in `labels`, "
            "real-valued truth in `target:OUTPUT`"
        )
    if labels.ndim == 1 and int(labels.min()) < 0:
        index = int(labels.argmin())
        raise DataError(f"{shown(source)}: the label of sample {index} is {labels[index]}; class indices start at 0")
    return labels


def text_labels(source: str, labels: AnyArray) -> DataError:
    """The refusal of labels that are text (dtype U or S), with the first distinct ones."""
    seen = dict.fromkeys(labels.ravel()[:_LABELS_LOOKED_AT].tolist())
    words = [each.decode(errors="replace") if isinstance(each, bytes) else each for each in seen]
    first = ", ".join(f"'{shown(word)}'" for word in words[:_LABELS_SHOWN])
    return DataError(f"{shown(source)}: labels are text ({first} ...): number the classes 0, 1, 2 ...")


def inferred_task(
    declared: Task | None, baseline: Task | None, labels: AnyArray | IntArray | None, targets: dict[str, Any]
) -> Task | None:
    """The declared task, else the one that the labels and targets tell, else the model's.

    Float targets say regression, unless the model itself is known to embed.
    """
    if declared is not None:
        return declared
    if {"boxes", "classes"} <= targets.keys():
        return Task.DETECTION
    if labels is not None:
        return Task.CLASSIFICATION if labels.ndim == 1 else Task.SEGMENTATION
    if any(target.dtype.kind == "f" for target in targets.values()):
        return Task.EMBEDDING if baseline is Task.EMBEDDING else Task.REGRESSION
    return baseline
