from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from edgebench.converters import inspect_tflite, tflite_tflite
from edgebench.errors import ModelError, RefusedError
from edgebench.types import Baseline, Framework

FILES = Path(__file__).parents[1] / "files"


def _baseline(run_folder: Path, source: str) -> Baseline:
    shutil.copy(FILES / source, run_folder / "model.tflite")
    facts = inspect_tflite.read(run_folder / "model.tflite")
    return Baseline(
        name="tiny",
        framework=Framework.TFLITE,
        source=source,
        path="model.tflite",
        sha256="0",
        inputs=facts.inputs,
        outputs=facts.outputs,
        parameters=1,
    )


def test_a_float_file_is_copied_as_it_is(tmp_path: Path) -> None:
    exported = tflite_tflite.export(_baseline(tmp_path, "tiny-float.tflite"), tmp_path, tmp_path / "out.tflite", None)
    assert exported.path.read_bytes() == (FILES / "tiny-float.tflite").read_bytes()
    assert [b.baseline for b in (*exported.inputs, *exported.outputs)] == ["image", "scores"]


def test_a_batch_that_the_file_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"has batch open, not 3.*take --batch open or 1, or convert"):
        tflite_tflite.export(_baseline(tmp_path, "tiny-float.tflite"), tmp_path, tmp_path / "out.tflite", 3)


def test_a_quantized_file_is_no_baseline(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"is full-int8 already, a \.tflite baseline must be float"):
        tflite_tflite.export(_baseline(tmp_path, "tiny-int8.tflite"), tmp_path, tmp_path / "out.tflite", 1)


def test_a_damaged_file_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    baseline = _baseline(tmp_path, "tiny-float.tflite")
    (tmp_path / "model.tflite").write_bytes((FILES / "tiny-float.tflite").read_bytes()[:900])
    with pytest.raises(ModelError, match="damaged"):
        tflite_tflite.export(baseline, tmp_path, tmp_path / "out.tflite", None)
    assert not (tmp_path / "out.tflite").exists()
