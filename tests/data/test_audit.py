from __future__ import annotations

import numpy as np
import pytest

from edgebench.data.audit import BLOCKING_CODES, audit
from edgebench.data.samples import AnyArray, Samples


def images(seed: int, n: int = 64) -> AnyArray:
    return np.random.default_rng(seed).random((n, 6, 6, 3), dtype=np.float32)


def samples(values: AnyArray, labels: AnyArray | None = None, **more: AnyArray) -> Samples:
    names = tuple(f"img{index}.png" for index in range(len(values)))
    return Samples(inputs={"x": values, **more}, labels=labels, targets={}, names=names)


def found(calibration: Samples, evaluation: Samples) -> dict[str, str]:
    return {caution.code: f"{caution.message}; {caution.advice}" for caution in audit(calibration, evaluation)}


EVALUATION = samples(images(1))


def test_sound_data_raises_no_doubt() -> None:
    assert audit(samples(images(0)), EVALUATION) == ()


def test_few_samples_are_counted() -> None:
    assert "5 calibration samples" in found(samples(images(0, n=5)), EVALUATION)["calibration-few"]


def test_nan_and_inf_are_counted_and_named_and_block() -> None:
    values = images(0)
    values[3, 0, 0, 0] = np.nan
    values[7, 1] = np.inf
    message = found(samples(values), EVALUATION)["calibration-nan"]
    assert "19 values in 2 of 64 calibration samples" in message
    assert "3 (img3.png), 7 (img7.png)" in message
    assert "calibration-nan" in BLOCKING_CODES


def test_a_set_of_nothing_but_nan_is_told_without_a_crash() -> None:
    assert "calibration-nan" in found(samples(np.full_like(images(0), np.nan)), EVALUATION)


def test_all_zeros_block() -> None:
    findings = found(samples(np.zeros_like(images(0))), EVALUATION)
    assert "0 in all 64 calibration samples" in findings["calibration-zero"]
    assert "calibration-zero" in BLOCKING_CODES


def test_zeros_in_both_sets_block_where_there_is_no_other_input() -> None:
    zeros = samples(np.zeros_like(images(0)))
    assert "calibration-zero" in found(zeros, zeros)


def test_one_value_everywhere_blocks() -> None:
    assert "calibration-constant" in found(samples(np.full_like(images(0), 0.5)), EVALUATION)
    assert "calibration-constant" in BLOCKING_CODES


def test_a_mask_that_is_constant_in_both_sets_only_gets_a_remark() -> None:
    mask = np.ones((64, 4), dtype=np.int64)
    codes = found(samples(images(0), mask=mask), samples(images(1), mask=mask)).keys()
    assert codes == {"input-constant"}
    assert "input-constant" not in BLOCKING_CODES


@pytest.mark.parametrize(("factor", "larger"), [(255.0, "calibration"), (1 / 255, "evaluation")])
def test_unscaled_pixels_are_recognised_in_either_set(factor: float, larger: str) -> None:
    message = found(samples(images(0) * np.float32(factor)), EVALUATION)["calibration-range"]
    assert f"{larger} values are 255 times as large" in message
    assert f"{larger} looks unscaled (0-255)" in message


def test_a_narrow_set_says_how_much_would_be_clipped() -> None:
    message = found(samples(images(0) * 0.5), EVALUATION)["calibration-range"]
    assert "% of the evaluation values lie outside" in message
    assert 45 < float(message.split(": ")[1].split(" %")[0]) < 55


def test_a_wide_set_says_how_wide() -> None:
    assert "times as wide" in found(samples(images(0) * 6 - 3), EVALUATION)["calibration-range"]


def test_one_wild_sample_is_named_and_does_not_count_as_the_range() -> None:
    values = images(0)
    values[9] *= 255
    findings = found(samples(values), EVALUATION)
    assert "calibration sample 9 (img9.png) reaches" in findings["calibration-outlier"]
    assert "calibration-range" not in findings


def test_gaussian_tails_are_not_called_wild() -> None:
    rng = np.random.default_rng(0)
    pair = [samples(rng.standard_normal((200, 10)).astype(np.float32)) for _ in range(2)]
    assert "calibration-outlier" not in found(*pair)


def test_blank_samples_are_named() -> None:
    values = images(0)
    values[4] = 0.3
    assert "4 (img4.png)" in found(samples(values), EVALUATION)["calibration-constant-samples"]


def test_a_dead_channel_is_named() -> None:
    values = images(0)
    values[..., 1] = 0.5
    assert "(index 1)" in found(samples(values), EVALUATION)["calibration-constant-channel"]


def test_shared_and_repeated_samples_are_counted() -> None:
    values = images(0)
    values[5] = EVALUATION.inputs["x"][2]
    values[8] = values[7]
    findings = found(samples(values), EVALUATION)
    assert "1 of 64 calibration samples are also evaluation samples" in findings["calibration-overlap"]
    assert "5 (img5.png)" in findings["calibration-overlap"]
    assert "8 (img8.png)" in findings["calibration-duplicates"]


def test_a_repeated_evaluation_sample_narrows_intervals() -> None:
    values = images(1)
    values[1] = values[0]
    assert "evaluation-duplicates" in found(samples(images(0)), samples(values))


def test_missing_and_rare_classes_are_named() -> None:
    ours = np.array([0] * 60 + [1] * 4)
    theirs = np.arange(64) % 3
    findings = found(samples(images(0), ours), samples(images(1), theirs))
    assert "(classes 2)" in findings["calibration-missing-classes"]
    assert "class 0 has 60 calibration samples, class 1 has 4" in findings["calibration-imbalance"]


def test_other_dtypes_and_shapes_are_shown_side_by_side() -> None:
    findings = found(samples(images(0).astype(np.float64)[:, :5]), EVALUATION)
    assert "float64, evaluation float32" in findings["calibration-dtype"]
    assert "(5, 6, 3), an evaluation sample (6, 6, 3)" in findings["calibration-shape"]


def test_ids_below_zero_and_ids_of_half_the_range_are_told() -> None:
    rng = np.random.default_rng(0)
    ours = samples(rng.integers(-1, 10, (64, 8)))
    theirs = samples(rng.integers(0, 1000, (64, 8)))
    assert found(ours, theirs).keys() == {"input-negative-ids", "calibration-range"}


def test_other_input_names_end_the_audit() -> None:
    assert found(samples(images(0), y=images(2)), EVALUATION).keys() == {"calibration-inputs"}


def test_every_finding_is_one_line() -> None:
    values = images(0)
    values[0] = np.nan
    weird = Samples(inputs={"x\ny": values}, labels=None, targets={}, names=tuple(f"a\n{i}" for i in range(64)))
    other = Samples(inputs={"x\ny": images(1)}, labels=None, targets={}, names=weird.names)
    assert all("\n" not in caution.message for caution in audit(weird, other))
