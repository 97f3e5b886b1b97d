"""Object detection: COCO's mean average precision, computed by pycocotools (extra `detection`).

Outputs and targets are found by the words in their names: `box` (n, k, 4), `score` (n, k) and `class` or `label` (n,
k). A box is two opposite corners; outputs and targets must agree on order (x or y first) and unit. Targets need boxes
and classes; rows of class -1 are padding. Detections of score 0 or below, or of a negative class, are padding too.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench import stats
from edgebench.arrays import Array
from edgebench.errors import DataError, missing_extra
from edgebench.measure.tasks.protocol import Agreement, Context, Drop, Outputs
from edgebench.types import Caution, Estimate

METRICS = ("map", "map50", "map75")

_RESAMPLES = 500
_DETECTIONS_PER_IMAGE = 100


@dataclass(frozen=True, kw_only=True)
class Detection:
    """Average precision of the outputs named `boxes`, `scores` and `classes`."""

    boxes: str
    scores: str
    classes: str
    baseline: Outputs
    target_boxes: Array | None
    target_classes: Array | None
    cautions: tuple[Caution, ...] = ()

    def metrics(self, outputs: Outputs) -> dict[str, Estimate]:
        """`map` (IoU .50 to .95), `map50` and `map75` as fractions, of boxes of any size; bootstrap over images."""
        if self.target_boxes is None or self.target_classes is None:
            return {}
        matched = self._match(outputs, self.target_boxes, self.target_classes)
        estimates = stats.bootstrap(matched.precision, matched.images, resamples=_RESAMPLES, is_cheap=False)
        return {
            name: estimate for name, estimate in zip(METRICS, estimates, strict=True) if not np.isnan(estimate.value)
        }

    def drop(self, outputs: Outputs) -> Drop | None:
        """Of `map`; paired bootstrap, which draws the same images for both."""
        if self.target_boxes is None or self.target_classes is None:
            return None
        before = self._match(self.baseline, self.target_boxes, self.target_classes)
        after = self._match(outputs, self.target_boxes, self.target_classes)

        def lost(index: NDArray[np.intp]) -> float:
            return 100 * float(before.precision(index)[0] - after.precision(index)[0])

        (pp,) = stats.bootstrap(lost, before.images, resamples=_RESAMPLES, is_cheap=False)
        return None if np.isnan(pp.value) else Drop(pp=pp)

    def agreement(self, reference: Outputs, outputs: Outputs) -> Agreement | None:
        """None: sets of boxes have no single decision to compare; the drop in `map` tells."""
        return None

    def _match(self, outputs: Outputs, target_boxes: Array, target_classes: Array) -> _Matched:
        return _match((outputs[self.boxes], outputs[self.scores], outputs[self.classes]), target_boxes, target_classes)


def bind(context: Context) -> Detection:
    """The detection that the outputs' names and shapes give.

    Raises:
        DataError: an output or a target is missing, or has another shape than the convention's.
    """
    outputs, targets = context.baseline_outputs, context.truth.targets
    names = {word: _find(outputs, words, "output") for word, words in _WORDS.items()}
    _check_shapes("output", outputs[names["boxes"]], outputs[names["scores"]], outputs[names["classes"]])
    target_boxes = target_classes = None
    if targets:
        target_boxes = targets[_find(targets, _WORDS["boxes"], "target")]
        target_classes = targets[_find(targets, _WORDS["classes"], "target")]
        _check_shapes("target", target_boxes, target_classes)
        if len(target_boxes) != len(outputs[names["boxes"]]):
            raise DataError(f"{len(target_boxes)} samples have targets, {len(outputs[names['boxes']])} have outputs")
    return Detection(
        boxes=names["boxes"],
        scores=names["scores"],
        classes=names["classes"],
        baseline=outputs,
        target_boxes=target_boxes,
        target_classes=target_classes,
    )


_WORDS = {"boxes": ("box",), "scores": ("score", "conf"), "classes": ("class", "label")}


def _find(arrays: Iterable[str], words: tuple[str, ...], kind: str) -> str:
    names = list(arrays)
    found = [name for name in names if any(word in name.lower() for word in words)]
    if len(found) != 1:
        raise DataError(
            f"detection needs one {kind} with '{words[0]}' in its name; the {kind}s are: {', '.join(names)}; "
            "the convention is boxes (n, k, 4), scores (n, k), classes (n, k)"
        )
    return found[0]


def _check_shapes(kind: str, boxes: Array, *others: Array) -> None:
    if boxes.ndim != 3 or boxes.shape[2] != 4 or any(other.shape != boxes.shape[:2] for other in others):
        shapes = " and ".join(str(list(array.shape)) for array in others)
        raise DataError(
            f"detection {kind}s have boxes of shape {list(boxes.shape)} with {shapes}: need (n, k, 4) with (n, k)"
        )


@dataclass(frozen=True)
class _Class:
    """One class's detections, best score first: the image of each, (d,), and whether it is right at each IoU, (10, d).

    `wanted` counts the class's target boxes in each image.
    """

    image: NDArray[np.intp]
    is_right: NDArray[np.bool_]
    wanted: NDArray[np.int64]


@dataclass(frozen=True)
class _Matched:
    """Detections that pycocotools matched to targets once, so that precision over any resample of images is quick."""

    classes: tuple[_Class, ...]
    images: int

    def precision(self, index: NDArray[np.intp]) -> NDArray[np.float64]:
        """`METRICS` over the images of the index, which may name one more than once; NaN without any target box."""
        times = np.bincount(index, minlength=self.images)
        by_class = [_average_precision(one, times) for one in self.classes if times @ one.wanted > 0]
        if not by_class:
            return np.full(len(METRICS), np.nan)
        by_threshold = np.mean(by_class, axis=0)
        return np.array([by_threshold.mean(), by_threshold[_IOU_50], by_threshold[_IOU_75]])


_THRESHOLDS, _IOU_50, _IOU_75 = 10, 0, 5  # COCO's .50, .55 ... .95
_RECALLS = np.linspace(0, 1, 101)


def _average_precision(one: _Class, times: NDArray[np.intp]) -> NDArray[np.float64]:
    """COCO's average precision of a class at each IoU threshold, an image counting as many times as `times` says.

    The mean, over 101 recalls, of the best precision at that recall or a higher one (pycocotools, COCOeval.accumulate,
    whose loops in Python would take minutes for the resamples).
    """
    weight = times[one.image]
    right = np.cumsum(one.is_right * weight, axis=1)
    found = np.cumsum(weight)
    precision = right / np.maximum(found, 1)
    best_from_here = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    recall = right / (times @ one.wanted)
    averages = np.zeros(len(right))
    for threshold in range(len(right)):
        at = np.searchsorted(recall[threshold], _RECALLS, side="left")
        reached = at[at < found.size]
        averages[threshold] = best_from_here[threshold, reached].sum() / _RECALLS.size
    return averages


def _match(detected: tuple[Array, Array, Array], target_boxes: Array, target_classes: Array) -> _Matched:
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError as error:
        raise missing_extra("pycocotools", "detection", "mean average precision") from error
    boxes, scores, classes = detected
    images = len(boxes)
    found_classes, wanted_classes = np.rint(classes).astype(np.int64), np.rint(target_classes).astype(np.int64)
    kept = (scores > 0) & (found_classes >= 0)
    targets = _annotations(target_boxes, wanted_classes, wanted_classes >= 0)
    detections = _annotations(boxes, found_classes, kept, scores)
    with contextlib.redirect_stdout(io.StringIO()):
        evaluator = COCOeval(_coco(COCO(), images, targets), _coco(COCO(), images, detections), "bbox")
        evaluator.params.imgIds = list(range(images))
        evaluator.params.catIds = sorted({annotation["category_id"] for annotation in targets})
        evaluator.params.areaRng, evaluator.params.areaRngLbl = [[0, 1e10]], ["all"]
        evaluator.params.maxDets = [_DETECTIONS_PER_IMAGE]
        evaluator.evaluate()
    matches = evaluator.evalImgs  # class by class, in the order of the images
    return _Matched(tuple(_of_class(matches[i : i + images]) for i in range(0, len(matches), images)), images)


def _of_class(matches: list[dict[str, Any] | None]) -> _Class:
    """From pycocotools' match of each image, None where it has neither targets nor detections of the class."""
    kept = [(image, match) for image, match in enumerate(matches) if match is not None]
    wanted = np.zeros(len(matches), np.int64)
    for image, match in kept:
        wanted[image] = len(match["gtIds"])
    scores = np.concatenate([np.empty(0), *(match["dtScores"] for _, match in kept)])
    order = np.argsort(-scores, kind="stable")
    images = np.concatenate([np.empty(0, np.intp), *(np.full(len(match["dtIds"]), image) for image, match in kept)])
    is_right = np.concatenate([np.empty((_THRESHOLDS, 0)), *(match["dtMatches"] for _, match in kept)], axis=1) > 0
    return _Class(image=images[order].astype(np.intp), is_right=is_right[:, order], wanted=wanted)


def _annotations(
    boxes: Array, classes: NDArray[np.int64], kept: NDArray[np.bool_], scores: Array | None = None
) -> list[dict[str, Any]]:
    """COCO's records, with boxes as corner, width and height. Ids start at 1: pycocotools takes 0 for 'not matched'."""
    annotations = []
    for number, (image, row) in enumerate(np.argwhere(kept), start=1):
        first, second, third, fourth = (float(value) for value in boxes[image, row])
        corner = [min(first, third), min(second, fourth)]
        size = [abs(third - first), abs(fourth - second)]
        annotation = {
            "id": number,
            "image_id": int(image),
            "category_id": int(classes[image, row]),
            "bbox": corner + size,
            "area": size[0] * size[1],
            "iscrowd": 0,
        }
        if scores is not None:
            annotation["score"] = float(scores[image, row])
        annotations.append(annotation)
    return annotations


def _coco(empty: Any, images: int, annotations: list[dict[str, Any]]) -> Any:
    classes = sorted({annotation["category_id"] for annotation in annotations})
    empty.dataset = {
        "images": [{"id": i} for i in range(images)],
        "categories": [{"id": number} for number in classes],
        "annotations": annotations,
    }
    empty.createIndex()
    return empty
