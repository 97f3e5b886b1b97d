from __future__ import annotations

import numpy as np
import pytest

from edgebench.errors import DataError
from edgebench.measure.tasks import classification
from edgebench.measure.tasks.protocol import Context, Truth


def _bind(outputs, labels=None, classes=None):
    arrays = {name: np.asarray(values, np.float32) for name, values in outputs.items()}
    truth = Truth(labels=None if labels is None else np.asarray(labels))
    return classification.bind(Context(baseline_outputs=arrays, truth=truth, classes=classes))


def test_top1_and_top5_are_scikit_learns():
    from sklearn.metrics import top_k_accuracy_score

    random = np.random.default_rng(0)
    labels = random.integers(0, 10, 200)
    scores = random.normal(size=(200, 10)).astype(np.float32)
    scores[np.arange(200), labels] += 1
    metrics = _bind({"y": scores}, labels).metrics({"y": scores})
    assert list(metrics) == ["top1", "top5"]
    for name, k in [("top1", 1), ("top5", 5)]:
        assert metrics[name].value == top_k_accuracy_score(labels, scores, k=k, labels=range(10))
        assert metrics[name].n == 200


def test_five_classes_have_no_top5():
    assert list(_bind({"y": np.eye(5)}, [0, 1, 2, 3, 4]).metrics({"y": np.eye(5)})) == ["top1"]


def test_a_tie_counts_as_its_lowest_class():
    measure = _bind({"y": np.eye(3)}, [0, 1, 2])
    tied = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 0]], np.float32)  # decisions 0, 0, 0
    assert measure.metrics({"y": tied})["top1"].value == pytest.approx(1 / 3)
    assert measure.agreement({"y": np.eye(3, dtype=np.float32)}, {"y": tied}).everywhere.value == pytest.approx(1 / 3)


def test_a_drop_is_paired_and_has_mcnemars_p_value():
    baseline = np.tile([1.0, 0.0], (20, 1))
    worse = baseline.copy()
    worse[:6] = [0, 1]
    drop = _bind({"y": baseline}, [0] * 20).drop({"y": worse})
    assert drop.pp.value == pytest.approx(30)
    assert drop.p_value == pytest.approx(2 / 2**6)
    assert drop.pp.low > 0


def test_agreement_is_clear_where_the_margin_exceeds_a_tenth_of_a_logit():
    reference = np.array([[0, 0.05, -1], [0, 0.2, -1], [3, 0, 0], [0, 0, 4]], np.float32)
    other = reference.copy()
    other[0, 0] = 1  # a near-tie that flips
    other[3, 0] = 9  # a clear decision that flips
    agreement = _bind({"y": reference}).agreement({"y": reference}, {"y": other})
    assert (agreement.everywhere.value, agreement.everywhere.n) == (0.5, 4)
    assert (agreement.clear.value, agreement.clear.n) == (pytest.approx(2 / 3), 3)


def test_probabilities_are_as_clear_as_their_logits():
    logits = np.random.default_rng(0).normal(0, 0.15, (500, 4)).astype(np.float32)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    from_logits = _bind({"y": logits}).agreement({"y": logits}, {"y": logits})
    from_probabilities = _bind({"y": probabilities}).agreement({"y": probabilities}, {"y": probabilities})
    assert 100 < from_logits.clear.n < 400
    assert from_probabilities.clear.n == from_logits.clear.n


def test_no_clear_sample_means_no_clear_agreement():
    scores = np.array([[0, 0.01], [0.01, 0]], np.float32)
    assert _bind({"y": scores}).agreement({"y": scores}, {"y": scores}).clear is None


def test_one_sigmoid_or_logit_decides_between_two_classes():
    labels = [0, 1, 1, 0]
    sigmoid = np.array([[0.2], [0.9], [0.4], [0.6]], np.float32)
    assert _bind({"y": sigmoid}, labels).metrics({"y": sigmoid})["top1"].value == 0.5
    logit = np.array([-2, 3, -0.5, 0.7], np.float32)
    assert _bind({"y": logit}, labels).metrics({"y": logit})["top1"].value == 0.5


def test_the_output_with_as_many_columns_as_classes_is_taken():
    outputs = {"features": np.ones((4, 64)), "aux": np.ones((4, 7)), "logits": np.ones((4, 1, 1, 10))}
    measure = _bind(outputs, [0, 9, 1, 2], classes=10)
    assert (measure.output, measure.cautions) == ("logits", ())


def test_labels_rule_out_an_output_that_is_too_narrow():
    assert _bind({"boxes": np.ones((2, 4)), "logits": np.ones((2, 10))}, [0, 9]).output == "logits"


def test_several_possible_outputs_are_told():
    measure = _bind({"logits": np.ones((2, 10)), "features": np.ones((2, 64))}, [0, 9])
    assert measure.output == "logits"
    assert [caution.code for caution in measure.cautions] == ["classes-output"]
    assert "outputs features could hold" in measure.cautions[0].message


def test_a_model_without_class_scores_is_told():
    with pytest.raises(DataError, match=r"'mask' \[2, 8, 8, 3\]"):
        _bind({"mask": np.ones((2, 8, 8, 3))}, [0, 1])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 3], "label 3 of sample 1"),
        ([-1, 0], "label -1 of sample 0"),
        ([0.5, 1], "label 0.5"),
        ([0], r"shape \[1\]"),
    ],
)
def test_labels_that_are_no_classes_are_told(labels, message):
    with pytest.raises(DataError, match=message):
        _bind({"y": np.ones((2, 3))}, labels)
