from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgebench.data import DataRequest, open_samples, prepare
from edgebench.errors import DataError
from edgebench.types import Baseline, Layout, PreparedData, Preprocess, Task, TensorSpec

MakeBaseline = Callable[..., Baseline]
WriteImage = Callable[..., Path]

X = TensorSpec(name="x", shape=(None, 3), dtype="float32")


def image_spec(layout: Layout = "NHWC", size: int | None = 8, dtype: str = "float32") -> TensorSpec:
    shape = (None, size, size, 3) if layout == "NHWC" else (None, 3, size, size)
    return TensorSpec(name="image", shape=shape, dtype=dtype, layout=layout)


def vectors(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 3)).astype(np.float32)


def npz(folder: Path, **arrays: np.ndarray) -> str:
    np.savez(folder / "d.npz", **arrays)
    return str(folder / "d.npz")


def codes(prepared: PreparedData) -> set[str]:
    return {caution.code for caution in prepared.cautions}


def message(prepared: PreparedData, code: str) -> str:
    return next(caution.message for caution in prepared.cautions if caution.code == code)


# Subsets


def test_one_source_gives_disjoint_subsets_and_the_same_hashes_again(
    tmp_path: Path, make_baseline: MakeBaseline
) -> None:
    source = npz(tmp_path, x=vectors(400), labels=np.arange(400) % 10)
    request = DataRequest(calibration_samples=64, evaluation_samples=200, seed=5)
    first = prepare(source, make_baseline(X), tmp_path / "run", request)
    again = prepare(source, make_baseline(X), tmp_path / "other", request)
    assert first == again
    assert first.calibration is not None
    evaluation = open_samples(tmp_path / "run", first.evaluation)
    calibration = open_samples(tmp_path / "run", first.calibration)
    assert (len(evaluation), len(calibration)) == (200, 64)
    assert not set(evaluation.names) & set(calibration.names)
    assert evaluation.labels is not None
    assert evaluation.labels.tolist() == [int(name) % 10 for name in evaluation.names]
    np.testing.assert_array_equal(evaluation.inputs["x"], vectors(400)[[int(name) for name in evaluation.names]])
    assert first.cautions == ()
    other_seed = prepare(source, make_baseline(X), tmp_path / "run", replace(request, seed=6))
    assert other_seed.evaluation.sha256 != first.evaluation.sha256


def test_a_small_source_gives_a_quarter_to_calibration_and_says_so(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    prepared = prepare(npz(tmp_path, x=vectors(200)), make_baseline(X), tmp_path / "run", DataRequest())
    assert prepared.calibration is not None
    assert (prepared.calibration.n, prepared.evaluation.n) == (50, 150)
    (told,) = [caution for caution in prepared.cautions if caution.code == "few-calibration-samples"]
    assert told.message.startswith("100 calibration samples were asked for, 50 are used: 200 samples are too few for b")
    assert told.advice.startswith("lower --evaluation-samples to 100 (in a matrix: data.evaluation), or give more data")


@pytest.mark.parametrize("n", [101, 130, 300])
def test_the_advice_of_too_few_calibration_samples_works(tmp_path: Path, make_baseline: MakeBaseline, n: int) -> None:
    source = npz(tmp_path, x=vectors(n))
    before = prepare(source, make_baseline(X), tmp_path / "run", DataRequest(evaluation_samples=n))
    (told,) = [caution for caution in before.cautions if caution.code == "few-calibration-samples"]
    number = re.match(r"lower --evaluation-samples to (\d+) ", told.advice)
    assert number is not None
    request = DataRequest(evaluation_samples=int(number[1]))
    after = prepare(source, make_baseline(X), tmp_path / "run", request)
    assert after.calibration is not None
    assert (after.calibration.n, after.evaluation.n) == (100, n - 100)
    assert "few-calibration-samples" not in codes(after)


def test_a_calibration_source_that_is_too_small_is_not_blamed_on_the_split(
    tmp_path: Path, make_baseline: MakeBaseline
) -> None:
    (tmp_path / "other").mkdir()
    request = DataRequest(calibration_source=npz(tmp_path / "other", x=vectors(40)))
    prepared = prepare(npz(tmp_path, x=vectors(50)), make_baseline(X), tmp_path / "run", request)
    (told,) = [caution for caution in prepared.cautions if caution.code == "few-calibration-samples"]
    assert told.message == "100 calibration samples were asked for, 40 are used"
    assert told.advice == "give more calibration data"


def test_what_evaluation_does_not_ask_for_may_go_to_calibration(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    request = DataRequest(calibration_samples=100, evaluation_samples=100)
    prepared = prepare(npz(tmp_path, x=vectors(200)), make_baseline(X), tmp_path / "run", request)
    assert prepared.calibration is not None
    assert (prepared.calibration.n, prepared.evaluation.n) == (100, 100)


def test_evaluation_stops_at_a_thousand_unless_asked(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    source = npz(tmp_path, x=vectors(1500))
    assert prepare(source, make_baseline(X), tmp_path / "run", DataRequest()).evaluation.n == 1000
    request = DataRequest(evaluation_samples=1500, calibration_samples=0)
    assert prepare(source, make_baseline(X), tmp_path / "run", request).evaluation.n == 1500


def test_one_sample_evaluates_and_leaves_none_to_calibrate(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    source = npz(tmp_path, x=vectors(1))
    alone = prepare(source, make_baseline(X), tmp_path / "run", DataRequest())
    assert (alone.evaluation.n, alone.calibration) == (1, None)
    assert "few-calibration-samples" in codes(alone)
    quiet = prepare(source, make_baseline(X), tmp_path / "run", DataRequest(calibration_samples=0))
    assert "few-calibration-samples" not in codes(quiet)


def test_two_samples_serve_both_purposes(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    prepared = prepare(npz(tmp_path, x=vectors(2)), make_baseline(X), tmp_path / "run", DataRequest())
    assert prepared.calibration is not None
    assert (prepared.evaluation.n, prepared.calibration.n) == (1, 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_evaluation_input_that_is_not_finite_names_the_file_and_its_first_row(
    tmp_path: Path, make_baseline: MakeBaseline, bad: float
) -> None:
    values = vectors(40)
    values[[23, 31], 1] = bad
    (tmp_path / "other").mkdir()
    request = DataRequest(calibration_source=npz(tmp_path / "other", x=vectors(40)))
    with pytest.raises(DataError, match=r"d\.npz: 'x' has NaN or Inf in 2 of 40 samples, first in 23; mend"):
        prepare(npz(tmp_path, x=values), make_baseline(X), tmp_path / "run", request)


def test_zero_and_equal_target_vectors_of_an_embedding_are_cautioned(
    tmp_path: Path, make_baseline: MakeBaseline
) -> None:
    request = DataRequest(task=Task.EMBEDDING, calibration_samples=0)
    targets = np.random.default_rng(3).normal(size=(12, 10)).astype(np.float32)
    good = prepare(npz(tmp_path, x=vectors(12), **{"target:scores": targets}), make_baseline(X), tmp_path, request)
    assert not {code for code in codes(good) if code.startswith("embedding")}
    targets[5] = 0
    zero = prepare(npz(tmp_path, x=vectors(12), **{"target:scores": targets}), make_baseline(X), tmp_path, request)
    (caution,) = [caution for caution in zero.cautions if caution.code == "embedding-zero-target"]
    assert "'target:scores' is all zeros in 1 of 12 evaluation samples (first in sample 5)" in caution.message
    targets[:] = 1
    equal = prepare(npz(tmp_path, x=vectors(12), **{"target:scores": targets}), make_baseline(X), tmp_path, request)
    assert "embedding-constant-target" in codes(equal)


def test_a_calibration_source_leaves_the_data_whole_and_is_audited(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    np.savez(tmp_path / "c.npz", x=vectors(40, seed=1) * 255)
    request = DataRequest(calibration_source=str(tmp_path / "c.npz"), calibration_samples=40)
    prepared = prepare(npz(tmp_path, x=vectors(50)), make_baseline(X), tmp_path / "run", request)
    assert prepared.calibration is not None
    assert (prepared.calibration.n, prepared.evaluation.n) == (40, 50)
    assert codes(prepared) == {"calibration-range"}


def test_a_calibration_source_alone_serves_both(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    source = npz(tmp_path, x=vectors(200))
    request = DataRequest(calibration_source=source, calibration_samples=50)
    prepared = prepare(None, make_baseline(X), tmp_path / "run", request)
    assert (prepared.source, prepared.evaluation.n) == (source, 150)


def test_a_killed_run_leaves_nothing_behind(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    leftover = tmp_path / "run/data/.scratch-abc"
    leftover.mkdir(parents=True)
    (tmp_path / "run/data/calibration").mkdir()
    prepare(npz(tmp_path, x=vectors(50)), make_baseline(X), tmp_path / "run", DataRequest(calibration_samples=0))
    assert [path.name for path in (tmp_path / "run/data").iterdir()] == ["evaluation"]


@pytest.mark.parametrize("wrong", [{"evaluation_samples": 0}, {"calibration_samples": -1}, {"seed": -1}])
def test_impossible_counts_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(DataError, match=r"at least 1 is needed|0 or more"):
        DataRequest(**wrong)  # type: ignore[arg-type]  # one of the integer fields


# Arrays against the model


def test_inputs_match_by_name_whatever_their_order(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    ids = TensorSpec(name="ids", shape=(None, None), dtype="int64")
    source = npz(tmp_path, extra=np.zeros(80), ids=np.arange(320).reshape(80, 4), x=vectors(80))
    prepared = prepare(source, make_baseline(X, ids), tmp_path / "run", DataRequest(calibration_samples=0))
    samples = open_samples(tmp_path / "run", prepared.evaluation)
    assert samples.inputs["ids"].shape == (80, 4)
    assert samples.inputs["ids"].dtype == np.int64
    assert "arrays 'extra' are left out" in message(prepared, "unused-array")


def test_the_only_array_may_have_any_name_but_that_is_said(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    prepared = prepare(npz(tmp_path, data=vectors(400)), make_baseline(X), tmp_path / "run", DataRequest())
    assert "'data' is taken for the model's only input 'x'" in message(prepared, "input-renamed")
    assert [caution.advice for caution in prepared.cautions] == ["name the array 'x' (now 'data')"]


@pytest.mark.parametrize("dtype", ["U", "S"])
def test_labels_that_are_text_are_shown_and_refused(tmp_path: Path, make_baseline: MakeBaseline, dtype: str) -> None:
    source = npz(tmp_path, x=vectors(9), labels=np.array(["cat", "cat", "dog"] * 3, dtype))
    with pytest.raises(DataError, match=r"d\.npz: labels are text \('cat', 'dog' \.\.\.\): number the classes 0, 1, 2"):
        prepare(source, make_baseline(X), tmp_path / "run", DataRequest())


def test_a_missing_input_lists_both_sides(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    two = make_baseline(X, replace(X, name="y"))
    with pytest.raises(DataError, match=r"no array for the model's input 'y': expected 'x', 'y', found 'x', 'z'"):
        prepare(npz(tmp_path, x=vectors(9), z=vectors(9)), two, tmp_path / "run", DataRequest())


@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ((9, 3, 8, 8), "transpose the samples from channels-height-width to height-width-channels"),
        ((9, 1, 8, 8, 3), "drop the extra axis of size 1"),
        ((9, 6, 6, 3), "bring the samples to the model's shape"),
        ((9,), "bring the samples to the model's shape"),
    ],
)
def test_a_wrong_shape_shows_both_and_the_way_out(
    tmp_path: Path, make_baseline: MakeBaseline, shape: tuple[int, ...], hint: str
) -> None:
    source = npz(tmp_path, image=np.ones(shape, np.float32))
    with pytest.raises(DataError, match=rf"takes \(8, 8, 3\): {hint}"):
        prepare(source, make_baseline(image_spec()), tmp_path / "run", DataRequest())


def test_bytes_for_a_float_input_are_not_scaled_but_told(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (400, 8, 8, 3)).astype(np.uint8)
    prepared = prepare(npz(tmp_path, image=pixels), make_baseline(image_spec()), tmp_path / "run", DataRequest())
    assert "uint8 values become float32 as they are, without scaling" in message(prepared, "input-dtype")
    values = open_samples(tmp_path / "run", prepared.evaluation).inputs["image"]
    assert values.dtype == np.float32
    assert values.max() == 255


def test_whole_floats_may_feed_integers_but_fractions_may_not(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    ids = make_baseline(TensorSpec(name="ids", shape=(None, 2), dtype="int32"))
    whole = np.arange(800.0).reshape(400, 2)
    prepared = prepare(npz(tmp_path, ids=whole), ids, tmp_path / "run", DataRequest())
    assert open_samples(tmp_path / "run", prepared.evaluation).inputs["ids"].dtype == np.int32
    assert "input-dtype" in codes(prepared)
    whole[7, 1] += 0.5
    with pytest.raises(DataError, match="'ids' of sample 7 is float64 with fractions, the model takes int32"):
        prepare(npz(tmp_path, ids=whole), ids, tmp_path / "run", DataRequest())
    whole[7, 1] = 2.0**40
    with pytest.raises(DataError, match="outside of int32"):
        prepare(npz(tmp_path, ids=whole), ids, tmp_path / "run", DataRequest())


def test_texts_are_refused(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    with pytest.raises(DataError, match="not numbers"):
        prepare(npz(tmp_path, x=np.full((9, 3), "a")), make_baseline(X), tmp_path / "run", DataRequest())


def test_a_value_too_large_for_the_model_is_refused(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    huge = vectors(400).astype(np.float64)
    huge[:, 0] = 1e300
    with pytest.raises(DataError, match=r"NaN or Inf in 300 of 300 samples.*too large for float32"):
        prepare(npz(tmp_path, x=huge), make_baseline(X), tmp_path / "run", DataRequest())


# Tasks, labels and targets


@pytest.mark.parametrize(
    ("arrays", "own_task", "task"),
    [
        ({}, None, None),
        ({}, Task.EMBEDDING, Task.EMBEDDING),
        ({"labels": np.arange(9)}, None, Task.CLASSIFICATION),
        ({"labels": np.arange(9.0).reshape(9, 1)}, None, Task.CLASSIFICATION),
        ({"labels": np.zeros((9, 4, 4), np.uint8)}, None, Task.SEGMENTATION),
        ({"target:scores": np.ones((9, 10))}, None, Task.REGRESSION),
        ({"target:scores": np.eye(9, 10)}, Task.EMBEDDING, Task.EMBEDDING),
        ({"target:boxes": np.ones((9, 2, 4)), "target:classes": np.ones((9, 2), np.int64)}, None, Task.DETECTION),
    ],
)
def test_the_task_follows_from_the_truth(
    tmp_path: Path, make_baseline: MakeBaseline, arrays: dict[str, np.ndarray], own_task: Task | None, task: Task | None
) -> None:
    baseline = make_baseline(X, task=own_task)
    request = DataRequest(calibration_samples=0)
    prepared = prepare(npz(tmp_path, x=vectors(9), **arrays), baseline, tmp_path / "run", request)
    assert prepared.task == task
    assert codes(prepared) == set()
    targets = open_samples(tmp_path / "run", prepared.evaluation).targets
    assert set(targets) == {name[7:] for name in arrays if name.startswith("target:")}


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"labels": np.full(9, 12)}, r"label 12, the model's output 'scores' has 10 classes \(0 to 9\)"),
        ({"labels": np.arange(9) - 1}, "label of sample 0 is -1"),
        ({"labels": np.eye(9)}, "store their argmax"),
        ({"labels": np.full(9, 0.5)}, "real-valued truth in `target:OUTPUT`"),
        (
            {"target:boxes": np.ones((9, 4)), "target:classes": np.ones((9, 2), int)},
            r"must be \(n, k, 4\) and \(n, k\)",
        ),
    ],
)
def test_truth_that_does_not_fit_is_refused(
    tmp_path: Path, make_baseline: MakeBaseline, arrays: dict[str, np.ndarray], text: str
) -> None:
    with pytest.raises(DataError, match=text):
        prepare(npz(tmp_path, x=vectors(9), **arrays), make_baseline(X), tmp_path / "run", DataRequest())


def test_a_target_of_no_output_is_renamed_only_where_there_is_one(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    source = npz(tmp_path, x=vectors(9), **{"target:y": vectors(9)})
    request = DataRequest(calibration_samples=0)
    one = prepare(source, make_baseline(X), tmp_path / "run", request)
    assert codes(one) == {"target-renamed"}
    outputs = (
        TensorSpec(name="a", shape=(None, 3), dtype="float32"),
        TensorSpec(name="b", shape=(None,), dtype="int64"),
    )
    two = prepare(source, make_baseline(X, outputs=outputs), tmp_path / "run", request)
    assert "'target:y' are left out" in message(two, "unused-array")
    assert open_samples(tmp_path / "run", two.evaluation).targets == {}


# Images against the model


@pytest.fixture
def photos(tmp_path: Path, write_image: WriteImage) -> str:
    for place in range(12):
        write_image(tmp_path / "photos" / ("cat" if place % 2 else "dog") / f"{place}.png", place)
    return str(tmp_path / "photos")


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_guessed_preprocessing_says_what_was_assumed(
    tmp_path: Path, make_baseline: MakeBaseline, photos: str, layout: Layout
) -> None:
    prepared = prepare(photos, make_baseline(image_spec(layout)), tmp_path / "run", DataRequest(calibration_samples=3))
    assert prepared.preprocess == Preprocess(height=8, width=8, scale=1 / 255, layout=layout)
    assert "resized to 8x8, middle cropped, RGB, 0 to 1" in message(prepared, "preprocess-guessed")
    assert "2 classes ('cat', 'dog')" in message(prepared, "class-count")
    samples = open_samples(tmp_path / "run", prepared.evaluation)
    assert samples.inputs["image"].shape == ((9, 8, 8, 3) if layout == "NHWC" else (9, 3, 8, 8))
    assert samples.inputs["image"].max() <= 1
    assert prepared.task is Task.CLASSIFICATION


def test_the_declared_preprocessing_goes_before_the_models_own(
    tmp_path: Path, make_baseline: MakeBaseline, photos: str
) -> None:
    own = Preprocess(height=8, width=8, scale=1 / 127.5, mean=(1.0,))
    declared = replace(own, mean=(0.5,))
    baseline = make_baseline(image_spec("NCHW"), preprocess=own)
    request = DataRequest(calibration_samples=0)
    assert prepare(photos, baseline, tmp_path / "run", request).preprocess == replace(own, layout="NCHW")
    prepared = prepare(photos, baseline, tmp_path / "run", replace(request, preprocess=declared))
    assert prepared.preprocess == replace(declared, layout="NCHW")


def test_an_open_image_size_must_be_declared(tmp_path: Path, make_baseline: MakeBaseline, photos: str) -> None:
    baseline = make_baseline(image_spec(size=None))
    with pytest.raises(DataError, match=r"leaves the image size open: give --preprocess FILE\.yaml"):
        prepare(photos, baseline, tmp_path / "run", DataRequest())
    request = DataRequest(preprocess=Preprocess(height=6, width=5), calibration_samples=0)
    prepared = prepare(photos, baseline, tmp_path / "run", request)
    assert open_samples(tmp_path / "run", prepared.evaluation).inputs["image"].shape == (12, 6, 5, 3)


def test_a_preprocessing_of_another_size_shows_both(tmp_path: Path, make_baseline: MakeBaseline, photos: str) -> None:
    request = DataRequest(preprocess=Preprocess(height=9, width=9))
    with pytest.raises(DataError, match=r"gives 9x9 pixels with 3 channels \(RGB\).*takes \(\?, 8, 8, 3\)"):
        prepare(photos, make_baseline(image_spec()), tmp_path / "run", request)


def test_a_gray_input_without_a_channel_axis_takes_images(
    tmp_path: Path, make_baseline: MakeBaseline, photos: str
) -> None:
    baseline = make_baseline(TensorSpec(name="flat", shape=(None, 8, 8), dtype="uint8"))
    prepared = prepare(photos, baseline, tmp_path / "run", DataRequest(calibration_samples=0))
    values = open_samples(tmp_path / "run", prepared.evaluation).inputs["flat"]
    assert (values.shape, values.dtype) == ((12, 8, 8), np.uint8)
    assert values.max() > 100


def test_images_cannot_feed_a_model_of_vectors_or_of_two_inputs(
    tmp_path: Path, make_baseline: MakeBaseline, photos: str
) -> None:
    with pytest.raises(DataError, match=r"can't feed the model's input 'x' of shape \(\?, 3\)"):
        prepare(photos, make_baseline(X), tmp_path / "run", DataRequest())
    with pytest.raises(DataError, match="one input, this one has 'image', 'x'"):
        prepare(photos, make_baseline(image_spec(), X), tmp_path / "run", DataRequest())


def test_a_damaged_image_is_named_and_nothing_is_left(tmp_path: Path, make_baseline: MakeBaseline, photos: str) -> None:
    (tmp_path / "photos/dog/4.png").write_text("no image")
    with pytest.raises(DataError, match=r"dog/4\.png is not an image"):
        prepare(photos, make_baseline(image_spec()), tmp_path / "run", DataRequest(calibration_samples=0))
    assert list((tmp_path / "run/data").iterdir()) == []


# Packaged and synthetic data


@pytest.mark.parametrize("shape", [(8, 8, 1), (1, 8, 8), (8, 8), (64,)])
def test_digits_take_the_shape_of_the_model(
    tmp_path: Path, make_baseline: MakeBaseline, shape: tuple[int, ...]
) -> None:
    baseline = make_baseline(TensorSpec(name="pixels", shape=(None, *shape), dtype="float32"))
    prepared = prepare("digits", baseline, tmp_path / "run", DataRequest())
    assert prepared.calibration is not None
    assert (prepared.evaluation.n, prepared.calibration.n) == (500, 100)
    assert open_samples(tmp_path / "run", prepared.evaluation).inputs["pixels"].shape == (500, *shape)
    assert prepared.classes == tuple("0123456789")
    assert not codes(prepared) & {"calibration-overlap", "input-renamed", "calibration-range"}


def test_digits_do_not_fit_another_image_size(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    with pytest.raises(DataError, match=r"digits are images of 8x8.*is \(\?, 8, 8, 3\)"):
        prepare("digits", make_baseline(image_spec()), tmp_path / "run", DataRequest())


def test_sample_photos_give_as_many_disjoint_crops_as_asked(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    request = DataRequest(calibration_samples=40, evaluation_samples=60)
    baseline = make_baseline(image_spec("NCHW", 32))
    prepared = prepare("sample-photos", baseline, tmp_path / "run", request)
    assert prepared.calibration is not None
    assert (prepared.evaluation.n, prepared.calibration.n) == (60, 40)
    assert codes(prepared) == {"preprocess-guessed"}


def test_without_data_inputs_are_made_up_and_say_so(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    ids = TensorSpec(name="ids", shape=(None, None), dtype="int64")
    flag = TensorSpec(name="flag", shape=(1,), dtype="bool")
    baseline = make_baseline(X, ids, flag, image_spec("NCHW", None, "uint8"))
    prepared = prepare(None, baseline, tmp_path / "run", DataRequest())
    assert prepared == prepare(None, baseline, tmp_path / "run", DataRequest())
    assert prepared.calibration is None
    samples = open_samples(tmp_path / "run", prepared.evaluation)
    shapes = {name: array.shape for name, array in samples.inputs.items()}
    assert shapes == {"x": (8, 3), "ids": (8, 16), "flag": (8,), "image": (8, 3, 224, 224)}
    assert set(np.unique(samples.inputs["ids"])) == {0, 1}
    assert samples.inputs["image"].max() > 200
    assert codes(prepared) == {"synthetic-inputs"}
    assert "'ids' (?, ?) is fed as (16)" in message(prepared, "synthetic-inputs")


def test_an_input_that_holds_texts_cannot_be_fed(tmp_path: Path, make_baseline: MakeBaseline) -> None:
    with pytest.raises(DataError, match="only number and bool inputs"):
        prepare(None, make_baseline(replace(X, dtype="object")), tmp_path / "run", DataRequest())
