from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
import small_onnx
from onnx import helper

from edgebench import environments, models
from edgebench.converters import convert
from edgebench.converters.recipes import load_recipes
from edgebench.data import DataRequest, prepare
from edgebench.errors import RefusedError
from edgebench.types import (
    Artifact,
    Baseline,
    Calibration,
    Format,
    Framework,
    PreparedData,
    Recipe,
    SampleSet,
    Scheme,
    TensorSpec,
)  # fmt: skip

RECURRENT = """
import keras

def gru():
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((5, 6), name="x"), keras.layers.GRU(7), keras.layers.Dense(3)])
"""


def _linear(path: Path, external: bool = False) -> None:
    """x (n, 40) -> y (n, 30)."""
    stored = {"w": np.random.default_rng(0).standard_normal((40, 30)).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "head")]
    model = small_onnx.model(nodes, {"x": (small_onnx.FLOAT, ["n", 40])}, {"y": ["n", 30]}, stored)
    onnx.save(model, path, save_as_external_data=external, location="w.bin", size_threshold=0)


def _prepared(folder: Path, baseline: Baseline, values: np.ndarray) -> PreparedData:
    np.savez(folder / "d.npz", x=values)
    source = str(folder / "d.npz")
    request = DataRequest(calibration_source=source, calibration_samples=len(values))
    return prepare(source, baseline, folder / "run", request)


def _quantized(
    folder: Path, values: np.ndarray, recipe: Recipe, *, external: bool = False
) -> tuple[Artifact, Artifact]:
    _linear(folder / "m.onnx", external)
    baseline = models.snapshot(str(folder / "m.onnx"), folder / "run")
    calibration = _prepared(folder, baseline, values).calibration
    float_artifact = convert.export_float(baseline, recipe.format, folder / "run", 1)
    for index, file in enumerate(float_artifact.files):
        os.link(folder / "run" / file, folder / f"link-{index}")  # as the host device does to run it
    return float_artifact, convert.quantize(baseline, float_artifact, recipe, calibration, folder / "run")


@pytest.mark.parametrize("name", ["onnx-int8", "onnx-fp16", "onnx-dynamic-int8"])
def test_a_model_with_external_data_is_quantized_after_it_ran_on_the_host(tmp_path: Path, name: str) -> None:
    values = np.random.default_rng(1).standard_normal((100, 40)).astype(np.float32)
    (recipe,) = load_recipes([name])
    float_artifact, artifact = _quantized(tmp_path, values, recipe, external=True)
    assert len(float_artifact.files) == 2
    feed = values[:1]
    (wanted,), (found,) = (small_onnx.run(tmp_path / "run" / a.files[0], x=feed) for a in (float_artifact, artifact))
    assert small_onnx.sqnr_db(wanted, found) > 20


def _int8(samples: int) -> Recipe:
    return Recipe(name="mine", format=Format.ONNX, scheme=Scheme.INT8, calibration=Calibration(samples=samples))


def test_a_recipe_draws_its_calibration_samples_from_all_and_says_how_many_count(tmp_path: Path) -> None:
    rising = np.repeat(np.arange(60, dtype=np.float32)[:, None], 40, axis=1)  # as samples sorted by class may be
    _, artifact = _quantized(tmp_path, rising, _int8(12))
    (caution,) = artifact.cautions
    assert caution.code == "calibration-samples-unused"
    assert "60 calibration samples are prepared, recipe 'mine' takes 12 of them" in caution.message
    stored = {t.name: t for t in onnx.load(tmp_path / "run" / artifact.files[0]).graph.initializer}
    assert 255 * float(onnx.numpy_helper.to_array(stored["x_scale"])) > 40


def test_a_recipe_that_asks_for_more_samples_than_there_are_says_so(tmp_path: Path) -> None:
    values = np.random.default_rng(1).standard_normal((40, 40)).astype(np.float32)
    _, artifact = _quantized(tmp_path, values, _int8(500))
    (caution,) = artifact.cautions
    assert caution.code == "few-calibration-samples"
    assert "asks for 500 calibration samples, 40 are prepared" in caution.message


def test_the_pinned_tools_of_the_side_environment_decide_the_key_of_what_they_make(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = TensorSpec(name="x", shape=(1, 2), dtype="float32")
    baseline = Baseline(
        name="m", framework=Framework.ONNX, source="m", path="m", sha256="0", inputs=(spec,), outputs=(), parameters=0
    )

    def keys() -> list[str]:
        return [convert.artifact_key(baseline, format, None, None, 1) for format in (Format.TFLITE, Format.ONNX)]

    before = keys()
    newer = environments._Environment(("onnx2tf==99",), 12, "tests")
    monkeypatch.setitem(environments._ENVIRONMENTS, "onnx2tf", newer)
    assert [old == new for old, new in zip(before, keys(), strict=True)] == [False, True]


def test_a_float64_model_is_told_to_be_built_in_float32(tmp_path: Path) -> None:
    double = onnx.TensorProto.DOUBLE
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", double, ["n", 4])],
        [helper.make_tensor_value_info("y", double, ["n", 3])],
        [onnx.numpy_helper.from_array(np.ones((4, 3)), "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "m.onnx")
    baseline = models.snapshot(str(tmp_path / "m.onnx"), tmp_path / "run")
    with pytest.raises(RefusedError, match=r"computes in float64 \(MatMul\).*float32 \(torch: model\.float\(\)\)"):
        convert.export_float(baseline, Format.ONNX, tmp_path / "run", 1)


@pytest.fixture(scope="module")
def gru(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Baseline, SampleSet]:
    """A Keras GRU, whose ONNX export is a Loop; its samples are (100, 5, 6)."""
    folder = tmp_path_factory.mktemp("gru")
    (folder / "nets.py").write_text(RECURRENT)
    baseline = models.snapshot(f"{folder / 'nets.py'}:gru", folder / "run")
    values = np.random.default_rng(0).standard_normal((100, 5, 6)).astype(np.float32)
    calibration = _prepared(folder, baseline, values).calibration
    assert calibration is not None
    return folder, baseline, calibration


@pytest.mark.parametrize("name", ["onnx-int8", "onnx-int8-percentile", "onnx-dynamic-int8", "onnx-fp16"])
def test_a_gru_is_quantized_to_onnx_and_runs(gru: tuple[Path, Baseline, SampleSet], name: str) -> None:
    folder, baseline, calibration = gru
    float_artifact = convert.export_float(baseline, Format.ONNX, folder / "run", 1)
    artifact = convert.quantize(baseline, float_artifact, load_recipes([name])[0], calibration, folder / "run")
    values = np.random.default_rng(5).standard_normal((1, 5, 6)).astype(np.float32)
    (wanted,), (found,) = (
        small_onnx.run(folder / "run" / each.files[0], **{each.inputs[0].tensor.name: values})
        for each in (float_artifact, artifact)
    )
    assert small_onnx.sqnr_db(wanted, found) > 15


@pytest.mark.parametrize("name", ["tflite-int8", "tflite-int8-tensorflow"])
def test_a_gru_is_refused_by_calibrated_tflite_recipes_with_the_ways_out(
    gru: tuple[Path, Baseline, SampleSet], name: str
) -> None:
    folder, baseline, calibration = gru
    float_artifact = convert.export_float(baseline, Format.TFLITE, folder / "run", 1)
    with pytest.raises(RefusedError, match=f"'{name}'.*WHILE.*take tflite-dynamic-int8, or.*unroll=True"):
        convert.quantize(baseline, float_artifact, load_recipes([name])[0], calibration, folder / "run")
