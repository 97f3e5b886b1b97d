"""Regression and embedding: tasks whose outputs are numbers, not decisions."""

from __future__ import annotations

import numpy as np
import pytest

from edgebench.errors import DataError
from edgebench.measure.tasks import embedding, regression
from edgebench.measure.tasks.protocol import Context, Truth


def _context(outputs, targets=None, labels=None):
    return Context(baseline_outputs=outputs, truth=Truth(labels=labels, targets=targets or {}))


def test_regression_metrics_are_scikit_learns():
    from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

    random = np.random.default_rng(0)
    target = random.normal(size=(100, 3)) * [1, 5, 2]
    found = (target + random.normal(0, 0.5, target.shape)).astype(np.float32)
    metrics = regression.bind(_context({"y": found}, {"y": target})).metrics({"y": found})
    assert list(metrics) == ["mae", "rmse", "r2"]
    assert metrics["mae"].value == pytest.approx(mean_absolute_error(target, found))
    pooled_rmse = root_mean_squared_error(target.ravel(), found.ravel())
    assert metrics["rmse"].value == pytest.approx(pooled_rmse)
    assert metrics["r2"].value == pytest.approx(r2_score(target, found, multioutput="variance_weighted"))
    assert all(estimate.low < estimate.value < estimate.high and estimate.n == 100 for estimate in metrics.values())


def test_constant_targets_have_no_r2():
    found = np.array([[1.0], [3.0]], np.float32)
    metrics = regression.bind(_context({"y": found}, {"y": np.full((2, 1), 2.0)})).metrics({"y": found})
    assert metrics["mae"].value == 1
    assert "r2" not in metrics


def test_one_target_fits_the_only_output_by_any_name_and_labels_serve_too():
    found = np.array([[1.0], [3.0]], np.float32)
    for context in (
        _context({"output": found}, {"price": np.array([1.0, 2.0])}),
        _context({"output": found}, labels=np.array([1, 2])),
    ):
        assert regression.bind(context).metrics({"output": found})["mae"].value == 0.5


def test_metrics_of_several_targets_name_their_output():
    outputs = {"a": np.zeros((3, 1), np.float32), "b": np.ones((3, 1), np.float32)}
    targets = {"a": np.array([0.0, 1, 2]), "b": np.array([1.0, 2, 3])}
    metrics = regression.bind(_context(outputs, targets)).metrics(outputs)
    assert (metrics["mae/a"].value, metrics["mae/b"].value) == (1, 1)


def test_a_regression_target_that_fits_nothing_is_told():
    outputs = {"a": np.zeros((3, 1)), "b": np.zeros((3, 1))}
    with pytest.raises(DataError, match="target 'c' names no output; the model has: a, b"):
        regression.bind(_context(outputs, {"c": np.zeros(3)}))
    with pytest.raises(DataError, match=r"shape \[3, 2\], the output \[3, 1\]"):
        regression.bind(_context({"a": np.zeros((3, 1))}, {"a": np.zeros((3, 2))}))


def test_regression_has_no_drop_in_points_and_no_decision():
    found = {"y": np.array([[1.0], [3.0]], np.float32)}
    measure = regression.bind(_context(found, {"y": np.array([1.0, 2.0])}))
    assert measure.drop(found) is None
    assert measure.agreement(found, found) is None


def test_the_cosine_is_with_the_target_where_there_is_one():
    baseline = {"e": np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)}
    target = np.array([[2.0, 0.0], [0.0, 3.0]])
    turned = {"e": np.array([[1.0, 1.0], [0.0, 5.0]], np.float32)}
    measure = embedding.bind(_context(baseline, {"e": target}))
    assert measure.metrics(turned)["cosine"].value == pytest.approx((np.sqrt(0.5) + 1) / 2)
    assert measure.drop(turned).pp.value == pytest.approx(100 * (1 - np.sqrt(0.5)) / 2)
    without = embedding.bind(_context(baseline))
    assert without.metrics(turned)["cosine_to_baseline"].value == pytest.approx((np.sqrt(0.5) + 1) / 2)
    assert without.drop(turned) is None


def test_a_vector_of_zeros_has_cosine_zero():
    baseline = {"e": np.array([[1.0, 0.0]], np.float32)}
    assert embedding.bind(_context(baseline)).metrics({"e": np.zeros((1, 2))})["cosine_to_baseline"].value == 0


def test_an_embedding_target_of_another_size_is_told():
    with pytest.raises(DataError, match=r"shape \[2, 3\], the output \[2, 2\]"):
        embedding.bind(_context({"e": np.ones((2, 2))}, {"e": np.ones((2, 3))}))
