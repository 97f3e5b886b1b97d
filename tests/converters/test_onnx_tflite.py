from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import small_onnx

from edgebench.converters import inspect_onnx, inspect_tflite, onnx_tflite
from edgebench.converters.exported import Exported
from edgebench.errors import ModelError, RefusedError
from edgebench.types import Baseline, Framework, Precision

FILES = Path(__file__).parents[1] / "files"
IMAGES = np.random.default_rng(0).random((3, 8, 8, 3), dtype=np.float32)


def _baseline(path: Path) -> Baseline:
    facts = inspect_tflite.read(path)
    return Baseline(
        name="tiny",
        framework=Framework.TFLITE,
        source=str(path),
        path=path.name,
        sha256="0",
        inputs=facts.inputs,
        outputs=facts.outputs,
        parameters=1,
    )


def _scores(path: Path, images: np.ndarray) -> np.ndarray:
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(str(path)).get_signature_runner()
    return np.concatenate([runner(image=image[None])["scores"] for image in images])


def _export(path: Path, out: Path, batch: int | None) -> Exported:
    return onnx_tflite.export(_baseline(path), path.parent, out, batch)


def test_a_float_file_keeps_its_numbers_and_is_bound_by_its_signature(tmp_path: Path) -> None:
    source = FILES / "tiny-float.tflite"
    exported = _export(source, tmp_path / "tiny.onnx", 1)
    assert [b.baseline for b in (*exported.inputs, *exported.outputs)] == ["image", "scores"]
    assert exported.inputs[0].tensor.shape == (1, 8, 8, 3)
    name = exported.inputs[0].tensor.name
    (found,) = small_onnx.run(exported.path, **{name: IMAGES[:1]})
    np.testing.assert_allclose(found, _scores(source, IMAGES[:1]), atol=1e-5)
    assert inspect_onnx.read(exported.path).census.precision is Precision.FP32
    assert (exported.route, set(exported.tool_versions)) == ("tf2onnx", {"onnx", "tf2onnx"})


@pytest.mark.parametrize("batch", [3, None])
def test_an_open_batch_stays_open_or_is_fixed_as_asked(batch: int | None, tmp_path: Path) -> None:
    source = FILES / "tiny-float.tflite"
    exported = _export(source, tmp_path / "tiny.onnx", batch)
    assert exported.inputs[0].tensor.shape == (batch, 8, 8, 3)
    (found,) = small_onnx.run(exported.path, **{exported.inputs[0].tensor.name: IMAGES})
    np.testing.assert_allclose(found, _scores(source, IMAGES), atol=1e-5)


def test_a_quantized_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"'tiny' is full-int8; only float32 \.tflite files become ONNX"):
        _export(FILES / "tiny-int8.tflite", tmp_path / "tiny.onnx", 1)


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    baseline = _baseline(FILES / "tiny-float.tflite")
    shutil.copy(FILES / "tiny-float.tflite", tmp_path)
    (tmp_path / "tiny-float.tflite").write_bytes((FILES / "tiny-float.tflite").read_bytes()[:900])
    with pytest.raises(ModelError, match=r"tiny-float\.tflite"):
        onnx_tflite.export(baseline, tmp_path, tmp_path / "tiny.onnx", 1)
