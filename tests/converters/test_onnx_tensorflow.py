from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_onnx

from edgebench.converters import inspect_onnx, onnx_tensorflow, quantize_onnx
from edgebench.errors import ModelError, RefusedError
from edgebench.types import Baseline, Calibration, Format, Framework, Precision, Recipe, Scheme, TensorSpec

RNG = np.random.default_rng(0)
FEED = {
    "image": RNG.standard_normal((4, 8, 6, 3), dtype=np.float32),
    "ids": RNG.integers(0, 10, (4, 7), dtype=np.int32),
    "extra-in": RNG.standard_normal((4, 5), dtype=np.float32),
}
BASELINE = Baseline(
    name="net",
    framework=Framework.TENSORFLOW,
    source="net.keras",
    path="baseline",
    sha256="0",
    inputs=(
        TensorSpec(name="image", shape=(None, 8, 6, 3), dtype="float32", layout="NHWC"),
        TensorSpec(name="ids", shape=(None, 7), dtype="int32"),
        TensorSpec(name="extra-in", shape=(None, 5), dtype="float32"),
    ),
    outputs=(
        TensorSpec(name="map", shape=(None, 8, 6, 4), dtype="float32", layout="NHWC"),
        TensorSpec(name="scores", shape=(None, 5), dtype="float32"),
        TensorSpec(name="same", shape=(None, 5), dtype="float32"),
    ),
    parameters=1,
)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A net of an image, ids through an LSTM, and a vector; two of its three outputs are one tensor."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    image = keras.Input((8, 6, 3), name="image")
    ids = keras.Input((7,), dtype="int32", name="ids")
    extra = keras.Input((5,), name="extra-in")
    features = keras.layers.Conv2D(4, 3, padding="same", activation="relu")(image)
    pooled = keras.layers.GlobalAveragePooling2D()(features)
    states = keras.layers.LSTM(3)(keras.layers.Embedding(10, 4)(ids))
    scores = keras.layers.Add()([keras.layers.Dense(5)(keras.layers.Concatenate()([pooled, states])), extra])
    model = keras.Model([image, ids, extra], {"map": features, "scores": scores, "same": scores})
    module = tf.Module()
    module.model = model
    module.serve = tf.function(lambda tensors: model([tensors[name] for name in FEED], training=False))
    specs = {spec.name: tf.TensorSpec(spec.shape, spec.dtype, name=spec.name) for spec in BASELINE.inputs}
    folder = tmp_path_factory.mktemp("tensorflow")
    signature = {"serving_default": module.serve.get_concrete_function(specs)}
    tf.saved_model.save(module, str(folder / "baseline"), signatures=signature)
    return folder


@pytest.mark.parametrize("batch", [None, 1, 4])
def test_names_numbers_and_the_batch_are_as_asked(batch: int | None, run_folder: Path, tmp_path: Path) -> None:
    exported = onnx_tensorflow.export(BASELINE, run_folder, tmp_path / "net.onnx", batch)
    assert {b.baseline: (b.tensor.shape, b.tensor.dtype, b.permutation) for b in exported.inputs} == {
        "image": ((batch, 8, 6, 3), "float32", None),
        "ids": ((batch, 7), "int32", None),
        "extra-in": ((batch, 5), "float32", None),
    }
    assert {b.baseline for b in exported.outputs} == {"map", "scores", "same"}
    assert exported.inputs[0].tensor.layout == "NHWC"
    feed = {name: array[: batch or 3] for name, array in FEED.items()}
    wanted = _wanted(run_folder, feed)
    for binding, array in zip(exported.outputs, small_onnx.run(exported.path, **feed), strict=True):
        np.testing.assert_allclose(array, wanted[binding.baseline], atol=1e-5)
    facts = inspect_onnx.read(exported.path)
    assert (facts.census.precision, facts.batch) == (Precision.FP32, batch)


def test_the_file_quantizes_to_int8_but_for_its_lstm(run_folder: Path, tmp_path: Path) -> None:
    exported = onnx_tensorflow.export(BASELINE, run_folder, tmp_path / "net.onnx", 1)
    recipe = Recipe(name="r", format=Format.ONNX, scheme=Scheme.INT8, calibration=Calibration())
    out = tmp_path / "int8.onnx"
    quantize_onnx.quantize(exported, recipe, FEED, out)
    census = inspect_onnx.read(out).census
    assert census.ops["Conv:int8"] == 1
    assert "Conv" not in census.float_ops
    feed = {name: array[:1] for name, array in FEED.items()}
    names = [binding.baseline for binding in exported.outputs]
    wanted = _wanted(run_folder, feed)
    for name, array in zip(names, small_onnx.run(out, **feed), strict=True):
        assert small_onnx.sqnr_db(wanted[name], array) > 20


def test_a_fixed_batch_refuses_another(run_folder: Path, tmp_path: Path) -> None:
    fixed = replace(BASELINE, inputs=tuple(replace(s, shape=(2, *s.shape[1:])) for s in BASELINE.inputs))
    with pytest.raises(RefusedError, match="'net' has a fixed batch of 2; batch 1 can't be made, take --batch 2"):
        onnx_tensorflow.export(fixed, run_folder, tmp_path / "net.onnx", 1)


def test_an_operator_that_onnx_lacks_is_named(tmp_path: Path) -> None:
    import tensorflow as tf

    module = tf.Module()
    module.serve = tf.function(lambda x: {"y": tf.math.lgamma(x)}, [tf.TensorSpec([None, 4], name="x")])
    tf.saved_model.save(module, str(tmp_path / "baseline"), signatures={"serving_default": module.serve})
    baseline = replace(
        BASELINE,
        inputs=(TensorSpec(name="x", shape=(None, 4), dtype="float32"),),
        outputs=(TensorSpec(name="y", shape=(None, 4), dtype="float32"),),
    )
    with pytest.raises(RefusedError, match="tf2onnx has no counterpart in ONNX for the operators Lgamma"):
        onnx_tensorflow.export(baseline, tmp_path, tmp_path / "net.onnx", 1)


def test_a_folder_that_is_no_saved_model_is_told(tmp_path: Path) -> None:
    (tmp_path / "baseline").mkdir()
    with pytest.raises(ModelError, match="baseline can't be loaded: OSError"):
        onnx_tensorflow.export(BASELINE, tmp_path, tmp_path / "net.onnx", 1)


def _wanted(run_folder: Path, feed: dict[str, Any]) -> dict[str, Any]:
    import tensorflow as tf

    loaded = tf.saved_model.load(str(run_folder / "baseline"))
    outputs = loaded.signatures["serving_default"](**{name: tf.constant(array) for name, array in feed.items()})
    return {name: tensor.numpy() for name, tensor in outputs.items()}
