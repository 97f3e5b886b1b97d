from __future__ import annotations

import math

import numpy as np
import pytest

from edgebench.errors import StageError
from edgebench.measure import accuracy, feed
from edgebench.types import Binding, Quantization, Task, TensorSpec


def _binding(classes, dtype="float32", quantization=None):
    tensor = TensorSpec(name="file_y", shape=(None, classes), dtype=dtype, quantization=quantization)
    return Binding(tensor=tensor, baseline="y")


def _evaluate(outputs, baseline, *, binding=None, raw=None, **named):
    binding = binding or _binding(baseline.shape[-1])
    arguments = {
        "task": Task.CLASSIFICATION,
        "outputs": {"y": outputs},
        "raw_outputs": {"file_y": outputs if raw is None else raw},
        "artifact_outputs": (binding,),
        "baseline_outputs": {"y": baseline},
        "float_outputs": None,
        "host_outputs": None,
        "is_fp32": False,
        "labels": None,
        "targets": {},
    }
    return accuracy.evaluate(**{**arguments, **named})


def test_an_embedding_without_baseline_or_targets_is_not_compared_with_itself():
    vectors = np.ones((3, 4), np.float32)
    binding = _binding(4)
    evaluation = _evaluate(vectors, vectors, binding=binding, task=Task.EMBEDDING, baseline_outputs=None)
    assert evaluation.metrics == {}


def _codes(evaluation):
    return [caution.code for caution in evaluation.cautions]


@pytest.fixture
def logits():
    return np.random.default_rng(0).normal(size=(200, 10)).astype(np.float32)


def test_the_split_names_where_the_error_comes_from(logits):
    converted = logits * np.float32(1.001)  # 60 dB
    quantized = converted * np.float32(1.1)  # 20 dB
    on_device = quantized * np.float32(1.01)  # 40 dB
    evaluation = _evaluate(on_device, logits, float_outputs={"y": converted}, host_outputs={"y": quantized})
    split = evaluation.split
    assert split.conversion.outputs["y"].sqnr_db == pytest.approx(60, abs=0.1)
    assert split.quantization.outputs["y"].sqnr_db == pytest.approx(20, abs=0.1)
    assert split.device.outputs["y"].sqnr_db == pytest.approx(40, abs=0.1)
    whole = 1.001 * 1.1 * 1.01 - 1
    assert evaluation.divergence.outputs["y"].sqnr_db == pytest.approx(-20 * math.log10(whole), abs=0.1)
    assert evaluation.divergence.agreement.value == 1


def test_all_error_of_a_float_file_is_conversion(logits):
    evaluation = _evaluate(logits * np.float32(1.01), logits)
    assert evaluation.split.conversion == evaluation.divergence
    assert evaluation.split.quantization is None
    assert evaluation.split.device is None


def test_a_device_that_spoils_a_float_file_is_not_taken_for_conversion(logits):
    evaluation = _evaluate(logits * np.float32(1.1), logits, host_outputs={"y": logits})
    assert evaluation.split.conversion.outputs["y"].sqnr_db == math.inf
    assert evaluation.split.device.outputs["y"].sqnr_db == pytest.approx(20, abs=0.1)


@pytest.mark.parametrize(("is_fp32", "differs_from"), [(True, 0.0011), (False, 0.021)])
def test_a_device_whose_outputs_are_not_the_hosts_is_named_unless_rounding_explains_it(logits, is_fp32, differs_from):
    def codes(relative):
        on_device = logits.copy()
        on_device[7, 3] += relative * np.abs(logits).max()
        evaluation = _evaluate(on_device, logits, host_outputs={"y": logits}, is_fp32=is_fp32, baseline_outputs=None)
        assert evaluation.split.device.outputs["y"].sqnr_db < math.inf
        return _codes(evaluation)

    assert "device-differs" in codes(differs_from)
    assert "device-differs" not in codes(differs_from / 1.2)


def test_a_device_that_gives_no_numbers_does_not_count_as_equal(logits):
    from edgebench.measure import device_cautions

    on_device = {"y": np.full_like(logits, np.nan)}
    (caution,) = device_cautions.against_host(on_device, {"y": logits}, (_binding(10),), is_fp32=True)
    assert "in 200 of 200 samples" in caution.message


def test_an_int8_output_may_be_two_codes_from_the_hosts(logits):
    binding = _binding(10, "int8", Quantization(scales=(0.1,), zero_points=(0,)))
    raw = np.clip(np.round(logits / 0.1), -128, 127).astype(np.int8)
    host = raw.astype(np.float32) * np.float32(0.1)

    def message(codes):
        on_device = host.copy()
        on_device[:3] += np.float32(0.1 * codes)
        found = _evaluate(on_device, logits, binding=binding, raw=raw, host_outputs={"y": host}).cautions
        return [caution.message for caution in found if caution.code == "device-differs"]

    assert message(1.9) == []
    assert "in 3 of 200 samples" in message(3)[0]


def test_labels_give_metrics_of_both_and_a_paired_drop(logits):
    labels = logits.argmax(axis=1)
    worse = logits.copy()
    worse[:10] *= -1
    evaluation = _evaluate(worse, logits, labels=labels)
    assert evaluation.baseline_metrics["top1"].value == 1
    assert evaluation.metrics["top1"].value == 0.95
    assert evaluation.drop_pp.value == pytest.approx(5)
    assert evaluation.drop_p_value == pytest.approx(2 / 2**10)
    assert evaluation.n == 200


def test_without_labels_agreement_and_errors_are_still_measured(logits):
    evaluation = _evaluate(logits, logits)
    assert (evaluation.metrics, evaluation.drop_pp, evaluation.drop_p_value) == ({}, None, None)
    assert evaluation.divergence.agreement.value == 1
    assert evaluation.divergence.agreement_clear.n < evaluation.divergence.agreement.n


def test_class_scores_without_a_task_are_assumed_and_told(logits):
    evaluation = _evaluate(logits, logits, task=None)
    assert evaluation.task is Task.CLASSIFICATION
    assert _codes(evaluation) == ["task-assumed"]


def test_an_output_that_is_no_vector_has_errors_but_no_decision():
    maps = np.random.default_rng(0).normal(size=(120, 4, 4, 2)).astype(np.float32)
    binding = Binding(tensor=TensorSpec(name="file_y", shape=(None, 4, 4, 2), dtype="float32"), baseline="y")
    evaluation = _evaluate(maps, maps, binding=binding, task=None)
    assert evaluation.task is None
    assert evaluation.divergence.agreement is None
    assert evaluation.divergence.outputs["y"].sqnr_db == math.inf


def test_few_samples_are_a_caution(logits):
    assert _codes(_evaluate(logits[:99], logits[:99])) == ["few-samples"]
    assert _codes(_evaluate(logits[:100], logits[:100])) == []


def test_a_constant_output_is_a_caution(logits):
    evaluation = _evaluate(np.ones_like(logits), logits)
    assert _codes(evaluation) == ["constant-output"]
    assert "output 'y' is the same for all 200 samples" in evaluation.cautions[0].message


def _quantized(values, scale, zero_point, dtype="int8"):
    binding = _binding(values.shape[1], dtype, Quantization(scales=(scale,), zero_points=(zero_point,)))
    back = Binding(tensor=binding.tensor, baseline="y")
    raw = feed.encode({"y": values}, (back,))
    return binding, raw["file_y"], feed.decode(raw, (back,))["y"]


@pytest.mark.parametrize(("dtype", "zero_point"), [("int8", -128), ("uint8", 0)])
def test_a_saturated_softmax_is_a_caution_with_its_share_of_ties(dtype, zero_point):
    logits = np.random.default_rng(0).normal(size=(200, 1000))
    probabilities = (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)).astype(np.float32)
    binding, raw, outputs = _quantized(probabilities, 1 / 256, zero_point, dtype)
    evaluation = _evaluate(outputs, probabilities, binding=binding, raw=raw)
    assert _codes(evaluation) == ["softmax-saturated"]
    tied = np.mean((raw == raw.max(axis=1, keepdims=True)).sum(axis=1) > 1)
    assert tied > 0.1
    assert f"tied in {tied:.1%} of the samples" in evaluation.cautions[0].message


def test_a_softmax_of_ten_sure_classes_is_no_caution(logits):
    probabilities = np.exp(3 * logits) / np.exp(3 * logits).sum(axis=1, keepdims=True)
    probabilities = probabilities[np.sort(probabilities, axis=1)[:, -2] < 0.4]  # no near-ties
    binding, raw, outputs = _quantized(probabilities, 1 / 256, -128)
    assert len(raw) >= 100
    assert _codes(_evaluate(outputs, probabilities, binding=binding, raw=raw)) == []


def test_clipped_numbers_are_a_caution_with_their_share(logits):
    binding, raw, outputs = _quantized(logits, 0.01, 0)
    evaluation = _evaluate(outputs, logits, binding=binding, raw=raw)
    share = np.mean((raw == 127) | (raw == -128))
    assert _codes(evaluation) == ["clipped-output"]
    assert f"{share:.1%} of its numbers" in evaluation.cautions[0].message


def test_the_zeros_of_a_relu_are_not_clipped(logits):
    rectified = np.maximum(logits, 0)
    binding, raw, outputs = _quantized(rectified, float(rectified.max()) / 255, -128)
    assert np.mean(raw == -128) > 0.4
    assert _codes(_evaluate(outputs, rectified, binding=binding, raw=raw)) == []


def test_a_channels_first_baseline_keeps_its_class_axis_behind_a_channels_last_file():
    random = np.random.default_rng(0)
    target = random.integers(0, 4, (3, 4, 4))
    nchw = np.moveaxis(np.eye(4, dtype=np.float32)[target], -1, 1)
    tensor = TensorSpec(name="file_y", shape=(1, 4, 4, 4), dtype="float32", layout="NHWC")
    binding = Binding(tensor=tensor, baseline="y", permutation=(0, 2, 3, 1))
    named = {"task": Task.SEGMENTATION, "targets": {"y": target}, "binding": binding}
    evaluation = _evaluate(nchw, nchw, raw=np.moveaxis(nchw, 1, -1), **named)
    assert evaluation.metrics["miou"].value == 1


def test_a_nan_fails_the_cell(logits):
    broken = logits.copy()
    broken[7, 3] = np.nan
    with pytest.raises(StageError, match="first in evaluation sample 7"):
        _evaluate(broken, logits)


def test_references_of_other_samples_are_told(logits):
    with pytest.raises(StageError, match=r"shape \[100, 10\], but the reference's is \[200, 10\]"):
        _evaluate(logits[:100], logits)
