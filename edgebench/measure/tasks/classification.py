"""Image (or any) classification: top-1 and top-5 accuracy from one output of class scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench import stats
from edgebench.arrays import Array
from edgebench.errors import DataError
from edgebench.measure.tasks.protocol import Agreement, Context, Drop, Outputs
from edgebench.measure.tasks.scores import are_probabilities, is_clear, two_or_more
from edgebench.types import Caution, Estimate


@dataclass(frozen=True, kw_only=True)
class Classification:
    """Accuracy of the output named `output`: shape (n, classes), or (n, 1) as the score of class 1 of two.

    A decision is the first class with the highest score, as argmax gives it in an application; so of classes that a
    quantized output ties, the lowest wins, for the metrics as for agreement.
    """

    output: str
    is_probability: bool
    baseline_scores: NDArray[np.float32]
    labels: NDArray[np.int64] | None
    cautions: tuple[Caution, ...] = ()

    def metrics(self, outputs: Outputs) -> dict[str, Estimate]:
        """`top1`, and `top5` where there are more than 5 classes: fractions with Wilson intervals."""
        if self.labels is None:
            return {}
        rank = _rank_of(self._scores(outputs), self.labels)
        n = rank.size
        metrics = {"top1": stats.wilson(int(np.sum(rank < 1)), n)}
        if self.baseline_scores.shape[1] > 5:
            metrics["top5"] = stats.wilson(int(np.sum(rank < 5)), n)
        return metrics

    def drop(self, outputs: Outputs) -> Drop | None:
        """Of top-1, by the samples that change (`stats.paired_drop_pp`), with McNemar's exact p-value."""
        if self.labels is None:
            return None
        before = _rank_of(self.baseline_scores, self.labels) < 1
        after = _rank_of(self._scores(outputs), self.labels) < 1
        return Drop(pp=stats.paired_drop_pp(before, after), p_value=stats.mcnemar(before, after))

    def agreement(self, reference: Outputs, outputs: Outputs) -> Agreement:
        """Of top-1 classes; clear where the reference's margin is above `scores.CLEAR_MARGIN`."""
        expected = self._scores(reference)
        is_equal = expected.argmax(axis=1) == self._scores(outputs).argmax(axis=1)
        clear = is_clear(expected, self.is_probability)
        n_clear = int(clear.sum())
        return Agreement(
            everywhere=stats.wilson(int(is_equal.sum()), is_equal.size),
            clear=stats.wilson(int((is_equal & clear).sum()), n_clear) if n_clear else None,
        )

    def _scores(self, outputs: Outputs) -> NDArray[np.float32]:
        values = outputs[self.output]
        return two_or_more(values.reshape(len(values), -1), self.is_probability)


def bind(context: Context) -> Classification:
    """The classification that the model's outputs give.

    Of outputs of shape (n, classes) (axes of size 1 between are dropped), it takes the one that has `classes` columns,
    else the only one that has room for the labels, else the first, with the caution `classes-output` naming the others.

    Raises:
        DataError: no output has that shape, or a label is outside the classes.
    """
    name, others = _choose(context)
    values = context.baseline_outputs[name].reshape(len(context.baseline_outputs[name]), -1)
    is_probability = are_probabilities(values)
    scores = two_or_more(values, is_probability)
    labels = context.truth.labels
    if labels is not None:
        labels = _checked(labels, scores.shape, name)
    cautions: tuple[Caution, ...] = ()
    if others:
        message = f"outputs {', '.join(others)} could hold the classes too; accuracy is of '{name}', the first of them"
        advice = "if another output holds the classes, put it first where the model is built or exported"
        cautions = (Caution(code="classes-output", message=message, advice=advice),)
    return Classification(
        output=name, is_probability=is_probability, baseline_scores=scores, labels=labels, cautions=cautions
    )


def class_outputs(context: Context) -> list[str]:
    """The outputs that can be class scores, in order: (n, 2 or more), with axes of size 1 between."""
    return [name for name, values in context.baseline_outputs.items() if _width(values) >= 2]


def _choose(context: Context) -> tuple[str, list[str]]:
    outputs = context.baseline_outputs
    candidates = class_outputs(context) or [name for name, values in outputs.items() if _width(values) == 1]
    if context.classes is not None:
        exact = [name for name in candidates if _width(outputs[name]) == context.classes]
        candidates = exact or candidates
    if context.truth.labels is not None and context.truth.labels.size and len(candidates) > 1:
        wide_enough = [name for name in candidates if _width(outputs[name]) > int(context.truth.labels.max())]
        candidates = wide_enough or candidates
    if not candidates:
        shapes = ", ".join(f"'{name}' {list(values.shape)}" for name, values in outputs.items())
        raise DataError(
            f"classification needs an output of shape (n, classes); the model has {shapes}: name another --task"
        )
    return candidates[0], candidates[1:]


def _width(values: Array) -> int:
    """Classes of an output (n, 1, ..., classes); 0 for any other shape."""
    if values.ndim == 1:
        return 1
    return int(values.shape[-1]) if all(size == 1 for size in values.shape[1:-1]) else 0


def _checked(labels: Array, shape: tuple[int, ...], output: str) -> NDArray[np.int64]:
    n, classes = shape
    if labels.shape != (n,):
        raise DataError(
            f"labels have shape {list(labels.shape)}, but there are {n} samples: one whole number a sample is needed"
        )
    whole = labels.astype(np.int64)
    outside = np.flatnonzero((whole < 0) | (whole >= classes) | (whole != labels))
    if outside.size:
        raise DataError(
            f"label {labels[outside[0]]} of sample {outside[0]} is no class of output '{output}', which has {classes}: "
            f"labels are 0 to {classes - 1}, in the model's order"
        )
    return whole


def _rank_of(scores: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many classes come before the label's, of equal scores the lower class first."""
    own = np.take_along_axis(scores, labels[:, None], axis=1)
    lower_class = np.arange(scores.shape[1]) < labels[:, None]
    before: NDArray[np.int64] = ((scores > own) | ((scores == own) & lower_class)).sum(axis=1)
    return before
