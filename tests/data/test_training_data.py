from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgebench.data import digits, load_training, peek
from edgebench.errors import DataError
from edgebench.types import Preprocess

WriteImage = Callable[..., Path]

SMALL = Preprocess(height=8, width=8, scale=1 / 255)


def test_digits_give_their_training_split_only() -> None:
    data = load_training("digits", preprocess=None, layout="NCHW", validation_fraction=0.1, seed=0)
    assert data.inputs[""].shape == (1167, 1, 8, 8)
    assert data.validation_inputs[""].shape == (130, 1, 8, 8)
    seen = {image.tobytes() for image in (*data.inputs[""], *data.validation_inputs[""])}
    assert len(seen) == 1297
    assert not seen & {image.tobytes() for image in digits.test_split()[0]}
    assert data.classes == tuple("0123456789")


def test_each_class_is_validated_and_the_split_repeats() -> None:
    first, again, other = (
        load_training("digits", preprocess=None, layout=None, validation_fraction=0.2, seed=seed) for seed in (1, 1, 2)
    )
    assert set(first.validation_labels) == set(range(10))
    np.testing.assert_array_equal(first.inputs[""], again.inputs[""])
    assert not np.array_equal(first.labels, other.labels)


def test_image_folders_are_read_as_declared(tmp_path: Path, write_image: WriteImage) -> None:
    for place in range(8):
        write_image(tmp_path / ("a" if place % 2 else "b") / f"{place}.png", place)
    data = load_training(str(tmp_path), preprocess=SMALL, layout="NCHW", validation_fraction=0.25, seed=0)
    assert data.inputs[""].shape == (6, 3, 8, 8)
    assert sorted(data.validation_labels) == [0, 1]
    assert data.classes == ("a", "b")
    with pytest.raises(DataError, match="input size is not known yet"):
        load_training(str(tmp_path), preprocess=None, layout=None)


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"x": np.zeros((4, 2))}, "no class labels"),
        ({"x": np.zeros((4, 2)), "labels": np.arange(4)}, "at least two of some class"),
        ({"x": np.zeros((4, 2)), "labels": np.zeros((4, 2, 2), int)}, "holds masks"),
        ({"labels": np.zeros(4, int)}, "no model input"),
    ],
)
def test_data_to_learn_nothing_from_is_refused(tmp_path: Path, arrays: dict[str, np.ndarray], text: str) -> None:
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(DataError, match=text):
        load_training(str(tmp_path / "d.npz"), preprocess=None, layout=None)


def test_a_float_target_is_learnt_where_there_are_no_labels(tmp_path: Path) -> None:
    x = np.arange(40, dtype=np.float64).reshape(20, 2)
    np.savez(tmp_path / "d.npz", **{"x": x, "target:y": x[:, :1] * 10, "target:count": np.arange(20)})
    data = load_training(str(tmp_path / "d.npz"), preprocess=None, layout=None, validation_fraction=0.25)
    assert (data.labels.shape, data.labels.dtype, data.classes) == ((15, 1), np.float32, ())
    np.testing.assert_array_equal(data.labels[:, 0], data.inputs[""][:, 0] * 10)
    np.testing.assert_array_equal(data.validation_labels[:, 0], data.validation_inputs[""][:, 0] * 10)
    assert len(data.validation_labels) == 5


def test_a_target_that_can_not_be_learnt_is_told(tmp_path: Path) -> None:
    x, y = np.ones((4, 2)), np.array([1, np.inf, 2, np.nan])
    np.savez(tmp_path / "nan.npz", **{"x": x, "target:y": y})
    np.savez(tmp_path / "two.npz", **{"x": x, "target:y": np.ones(4), "target:z": np.ones(4)})
    with pytest.raises(DataError, match="'target:y' has NaN or Inf in 2 of 4 samples, first in 1"):
        load_training(str(tmp_path / "nan.npz"), preprocess=None, layout=None)
    with pytest.raises(DataError, match="has 'target:y', 'target:z'; training learns one target: leave one"):
        load_training(str(tmp_path / "two.npz"), preprocess=None, layout=None)


def test_a_peek_is_one_sample_with_a_batch_axis(tmp_path: Path, write_image: WriteImage) -> None:
    assert peek("digits", preprocess=None, layout="NCHW")[""].shape == (1, 1, 8, 8)
    write_image(tmp_path / "photos" / "a.png")
    image = peek(str(tmp_path / "photos"), preprocess=SMALL, layout="NCHW")[""]
    assert (image.shape, image.dtype) == ((1, 3, 8, 8), np.float32)
    np.savez(tmp_path / "d.npz", x=np.zeros((5, 2)), ids=np.zeros((5, 3), np.int64), labels=np.zeros(5))
    example = peek(str(tmp_path / "d.npz"), preprocess=None, layout=None)
    assert {name: (array.shape, str(array.dtype)) for name, array in example.items()} == {
        "x": ((1, 2), "float32"),
        "ids": ((1, 3), "int64"),
    }


def test_a_peek_at_images_without_a_size_is_no_error_as_the_model_may_bring_an_example(
    tmp_path: Path, write_image: WriteImage
) -> None:
    write_image(tmp_path / "photos" / "a.png")
    assert peek(str(tmp_path / "photos"), preprocess=None, layout="NCHW") is None


def test_a_peek_leaves_no_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    np.savez(tmp_path / "d.npz", x=np.ones((5, 2), np.float32))
    example = peek(str(tmp_path / "d.npz"), preprocess=None, layout=None)
    assert list(scratch.iterdir()) == []
    assert example[""].tolist() == [[1.0, 1.0]]
