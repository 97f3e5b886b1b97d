from __future__ import annotations

import numpy as np
import pytest

from edgebench.errors import DataError
from edgebench.measure.tasks import segmentation
from edgebench.measure.tasks.protocol import Context, Truth


def _bind(scores, target=None, layout=None):
    targets = {} if target is None else {"mask": target}
    return segmentation.bind(
        Context(baseline_outputs={"y": scores}, truth=Truth(targets=targets), layouts={"y": layout})
    )


def _scores_of(classes_of_pixels, classes):
    return np.eye(classes, dtype=np.float32)[classes_of_pixels]


def test_miou_worked_out_by_hand():
    """Class 0: 1 right of a union of 2; class 1: 2 of 3."""
    target = np.array([[[0, 0], [1, 1]]])
    scores = _scores_of(np.array([[[0, 1], [1, 1]]]), 2)
    metrics = _bind(scores, target).metrics({"y": scores})
    assert metrics["miou"].value == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert metrics["pixel_accuracy"].value == 0.75


def test_miou_is_scikit_learns_jaccard_in_both_layouts():
    from sklearn.metrics import jaccard_score

    random = np.random.default_rng(0)
    target = random.integers(0, 4, (12, 6, 5))
    scores = random.normal(size=(12, 6, 5, 4)).astype(np.float32) + 2 * _scores_of(target, 4)
    expected = jaccard_score(target.ravel(), scores.argmax(-1).ravel(), average="macro")
    nhwc = _bind(scores, target).metrics({"y": scores})["miou"]
    nchw = np.moveaxis(scores, -1, 1)
    assert nhwc.value == pytest.approx(expected)
    assert nhwc.low < expected < nhwc.high
    assert _bind(nchw, target).metrics({"y": nchw})["miou"] == nhwc


def test_void_pixels_count_for_nothing():
    target = np.array([[[0, 255], [1, -1]]])
    scores = _scores_of(np.array([[[0, 0], [1, 0]]]), 2)
    metrics = _bind(scores, target).metrics({"y": scores})
    assert (metrics["miou"].value, metrics["pixel_accuracy"].value) == (1, 1)


def test_a_layout_decides_where_the_shape_can_t():
    scores = np.zeros((1, 3, 3, 3), np.float32)
    assert _bind(scores, np.zeros((1, 3, 3), int), "NCHW").class_axis == 1
    assert _bind(scores, np.zeros((1, 3, 3), int), "NHWC").class_axis == 3
    assert _bind(scores, None, "NCHW").class_axis == 1


def test_a_drop_is_of_miou_in_points():
    target = np.stack([np.array([[0, 1], [0, 1]])] * 10)
    right = _scores_of(target, 2)
    wrong = right.copy()
    wrong[:, 0, 0] = [0, 1]
    drop = _bind(right, target).drop({"y": wrong})
    assert drop.pp.value == pytest.approx(100 * (1 - (1 / 2 + 2 / 3) / 2))
    assert drop.p_value is None


def test_agreement_is_of_pixels_and_leaves_out_near_ties():
    reference = np.zeros((1, 1, 4, 2), np.float32)
    reference[..., 0] = [0.05, 1, 1, 1]
    other = reference.copy()
    other[0, 0, 0, 1] = other[0, 0, 1, 1] = 5
    agreement = _bind(reference).agreement({"y": reference}, {"y": other})
    assert (agreement.everywhere.value, agreement.clear.value) == (0.5, pytest.approx(2 / 3))
    assert agreement.everywhere.n == 1


def test_one_sigmoid_map_decides_between_two_classes():
    scores = np.array([[[[0.9], [0.2]]]], np.float32)
    assert _bind(scores, np.array([[[1, 0]]])).metrics({"y": scores})["miou"].value == 1


@pytest.mark.parametrize(
    ("shape", "target", "message"),
    [
        ((1, 4, 4, 3), np.zeros((1, 8, 8), int), r"target has shape \[1, 8, 8\], output 'y' \[1, 4, 4, 3\]: resize"),
        ((1, 4, 4, 3), np.full((1, 4, 4), 3), "target has class 3, but output 'y' has 3 classes"),
        ((1, 3), np.zeros((1, 4, 4), int), r"found 'y' \[1, 3\]"),
    ],
)
def test_what_does_not_fit_is_told(shape, target, message):
    with pytest.raises(DataError, match=message):
        _bind(np.zeros(shape, np.float32), target)
