"""Semantic segmentation: mean intersection over union and pixel accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgebench import stats
from edgebench.arrays import Array
from edgebench.errors import DataError
from edgebench.measure.tasks.protocol import Agreement, Context, Drop, Outputs
from edgebench.measure.tasks.scores import are_probabilities, is_clear, two_or_more
from edgebench.types import Caution, Estimate

# Pixels of a target that count for nothing: negative ones, and the void class of Pascal VOC and Cityscapes.
VOID = 255


@dataclass(frozen=True, kw_only=True)
class Segmentation:
    """Pixel classes of the output named `output`, with class scores on `class_axis`: (n, h, w, c) or (n, c, h, w).

    `target` holds classes, integers of shape (n, h, w); negative and `VOID` pixels count for nothing.
    """

    output: str
    class_axis: Literal[1, 3]
    is_probability: bool
    baseline: Array
    target: NDArray[np.int64] | None
    cautions: tuple[Caution, ...] = ()

    def metrics(self, outputs: Outputs) -> dict[str, Estimate]:
        """`miou`, over the classes that occur in targets or outputs, and `pixel_accuracy`; bootstrap over samples."""
        if self.target is None:
            return {}
        counts = self._count(outputs[self.output])
        (miou,) = stats.bootstrap(lambda index: _miou(counts[index]), len(counts))
        (accuracy,) = stats.bootstrap(lambda index: _pixel_accuracy(counts[index]), len(counts))
        return {"miou": miou, "pixel_accuracy": accuracy}

    def drop(self, outputs: Outputs) -> Drop | None:
        """Of mIoU; paired bootstrap, which draws the same samples for both."""
        if self.target is None:
            return None
        before, after = self._count(self.baseline), self._count(outputs[self.output])
        (pp,) = stats.bootstrap(lambda index: 100 * (_miou(before[index]) - _miou(after[index])), len(before))
        return Drop(pp=pp)

    def agreement(self, reference: Outputs, outputs: Outputs) -> Agreement:
        """The fraction of pixels of equal class; clear where the reference's margin is above `scores.CLEAR_MARGIN`.

        Bootstrap over samples: the pixels of one are not independent.
        """
        expected, found = reference[self.output], outputs[self.output]
        shares = np.empty((len(expected), 4))
        for i in range(len(expected)):
            scores = self._scores(expected[i])
            is_equal = scores.argmax(axis=-1) == self._scores(found[i]).argmax(axis=-1)
            clear_pixels = is_clear(scores, self.is_probability)
            shares[i] = is_equal.sum(), is_equal.size, (is_equal & clear_pixels).sum(), clear_pixels.sum()
        (everywhere,) = stats.bootstrap(lambda index: shares[index, 0].sum() / shares[index, 1].sum(), len(shares))
        if not shares[:, 3].any():
            return Agreement(everywhere=everywhere, clear=None)
        (clear,) = stats.bootstrap(lambda index: _ratio(shares[index, 2].sum(), shares[index, 3].sum()), len(shares))
        return Agreement(everywhere=everywhere, clear=clear)

    def _scores(self, sample: Array) -> Array:
        """One sample's scores, (h, w, classes)."""
        return two_or_more(np.moveaxis(sample, self.class_axis - 1, -1), self.is_probability)

    def _count(self, output: Array) -> NDArray[np.int64]:
        """Pixels by sample and class, shape (n, 3, classes): right, predicted, in the target."""
        assert self.target is not None  # the callers ask only with a target
        classes = max(2, self.baseline.shape[self.class_axis])
        counts = np.zeros((len(output), 3, classes), np.int64)
        for i, (sample, target) in enumerate(zip(output, self.target, strict=True)):
            counted = (target >= 0) & (target != VOID)
            predicted, right = self._scores(sample).argmax(axis=-1)[counted], target[counted]
            counts[i, 0] = np.bincount(right[predicted == right], minlength=classes)
            counts[i, 1] = np.bincount(predicted, minlength=classes)
            counts[i, 2] = np.bincount(right, minlength=classes)
        return counts


def bind(context: Context) -> Segmentation:
    """The segmentation of the 4-d output that has a target by its name, else of the first 4-d output.

    The class axis is the one that leaves the target's height and width; without targets the baseline's layout tells.

    Raises:
        DataError: no output has 4 axes, the target's size is not the output's, or a target class is too high.
    """
    outputs, targets = context.baseline_outputs, context.truth.targets
    maps = [name for name, values in outputs.items() if values.ndim == 4]
    if not maps:
        shapes = ", ".join(f"'{name}' {list(values.shape)}" for name, values in outputs.items())
        raise DataError(
            f"segmentation needs an output of scores, (n, h, w, classes) or (n, classes, h, w); found {shapes}"
        )
    name = next((name for name in maps if name in targets), maps[0])
    scores, is_channels_first = outputs[name], context.layouts.get(name) == "NCHW"
    class_axis: Literal[1, 3] = 1 if is_channels_first else 3
    target = None
    if targets:
        target = targets.get(name, next(iter(targets.values())))
        class_axis = _class_axis(name, scores.shape, target.shape, is_channels_first)
        target = _checked(name, target, max(2, scores.shape[class_axis]))
    return Segmentation(
        output=name,
        class_axis=class_axis,
        is_probability=are_probabilities(np.moveaxis(scores, class_axis, -1)),
        baseline=scores,
        target=target,
    )


def _class_axis(name: str, shape: tuple[int, ...], target: tuple[int, ...], is_channels_first: bool) -> Literal[1, 3]:
    n, *rest = shape
    fits_first, fits_last = target == (n, *rest[1:]), target == (n, *rest[:-1])
    if not fits_first and not fits_last:
        raise DataError(
            f"segmentation target has shape {list(target)}, output '{name}' {list(shape)}: resize the targets to the "
            "output's height and width, one class a pixel"
        )
    return 1 if fits_first and (is_channels_first or not fits_last) else 3


def _checked(name: str, target: Array, classes: int) -> NDArray[np.int64]:
    whole = target.astype(np.int64)
    if ((whole >= classes) & (whole != VOID)).any():
        raise DataError(
            f"segmentation target has class {whole[whole != VOID].max()}, but output '{name}' has {classes} classes; "
            f"{VOID} and negative numbers mean 'count for nothing'"
        )
    return whole


def _miou(counts: NDArray[np.int64]) -> float:
    right, predicted, wanted = counts.sum(axis=0)
    union = predicted + wanted - right
    occurs = union > 0
    return float((right[occurs] / union[occurs]).mean()) if occurs.any() else float("nan")


def _pixel_accuracy(counts: NDArray[np.int64]) -> float:
    right, _, wanted = counts.sum(axis=(0, 2))
    return _ratio(right, wanted)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")
