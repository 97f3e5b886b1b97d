from __future__ import annotations

import math

import numpy as np
import pytest

from edgebench.errors import StageError
from edgebench.measure import divergence


def _one(reference, output):
    return divergence.compare({"y": np.asarray(reference)}, {"y": np.asarray(output)})["y"]


def test_figures_worked_out_by_hand():
    error = _one([[3.0, 4.0]], [[3.0, 3.0]])
    assert error.sqnr_db == pytest.approx(10 * math.log10(25 / 1))
    assert error.cosine == pytest.approx(21 / (5 * math.sqrt(18)))
    assert error.max_abs_error == 1
    assert error.mean_abs_error == 0.5


def test_equal_outputs_have_an_infinite_sqnr_and_cosine_one():
    error = _one([[1.0, 2.0]], [[1.0, 2.0]])
    assert (error.sqnr_db, error.cosine, error.max_abs_error) == (math.inf, pytest.approx(1), 0)


def test_a_reference_of_zeros_has_a_defined_error():
    assert _one(np.zeros((2, 2)), np.zeros((2, 2))).sqnr_db == math.inf
    assert _one(np.zeros((2, 2)), np.zeros((2, 2))).cosine == 1
    assert _one(np.zeros((2, 2)), np.ones((2, 2))).sqnr_db == -math.inf
    assert _one(np.zeros((2, 2)), np.ones((2, 2))).cosine == 0


def test_slices_show_which_column_breaks():
    reference = np.random.default_rng(0).normal(size=(50, 7, 4))
    broken = reference.copy()
    broken[..., 2] = 0
    error = _one(reference, broken)
    assert [part.index for part in error.slices] == [0, 1, 2, 3]
    assert [part.sqnr_db for part in error.slices] == [math.inf, math.inf, pytest.approx(0), math.inf]
    assert error.slices[2].max_abs_error == np.abs(reference[..., 2]).max()


@pytest.mark.parametrize(("shape", "slices"), [((4, 32), 32), ((4, 33), 0), ((4, 1), 0), ((4,), 0)])
def test_slices_are_of_a_small_last_axis_only(shape, slices):
    assert len(_one(np.ones(shape), np.zeros(shape)).slices) == slices


def test_blocks_give_what_the_whole_gives(monkeypatch):
    random = np.random.default_rng(0)
    reference = random.normal(size=(101, 6, 5)).astype(np.float32)
    output = (reference + random.normal(0, 0.1, reference.shape)).astype(np.float32)
    whole = _one(reference, output)
    monkeypatch.setattr(divergence, "_BLOCK_NUMBERS", 64)
    blocks = _one(reference, output)
    assert blocks.sqnr_db == pytest.approx(whole.sqnr_db)
    assert blocks.mean_abs_error == pytest.approx(np.abs(reference - output).mean(), rel=1e-5)
    assert blocks.max_abs_error == whole.max_abs_error
    assert blocks.sqnr_db == pytest.approx(20, abs=0.3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_that_is_not_finite_fails_with_its_output_and_first_sample(bad):
    output = np.ones((5, 3))
    output[3, 1] = output[4, 0] = bad
    with pytest.raises(
        StageError, match=r"output 'y': this file's numbers have NaN or Inf, first in evaluation sample 3"
    ):
        _one(np.ones((5, 3)), output)
    with pytest.raises(StageError, match=r"the reference's numbers have NaN or Inf, first in evaluation sample 3"):
        _one(output, np.ones((5, 3)))


def test_outputs_that_do_not_match_are_told():
    with pytest.raises(StageError, match=r"reference \['y'\], this file \['z'\]"):
        divergence.compare({"y": np.ones(2)}, {"z": np.ones(2)})
    with pytest.raises(StageError, match=r"shape \[2, 3\], but the reference's is \[2, 4\]"):
        _one(np.ones((2, 4)), np.ones((2, 3)))
    with pytest.raises(StageError, match="nothing to compare"):
        _one(np.ones((0, 4)), np.ones((0, 4)))
