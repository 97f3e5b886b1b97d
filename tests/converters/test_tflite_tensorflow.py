from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgebench.converters import inspect_tflite, tflite_tensorflow
from edgebench.errors import DataError, RefusedError
from edgebench.types import Baseline, Calibration, Format, Framework, Precision, Recipe, Scheme, TensorSpec

RNG = np.random.default_rng(0)
SAMPLES = {
    "image": RNG.standard_normal((20, 8, 8, 3), dtype=np.float32),
    "extra-in": RNG.standard_normal((20, 4), dtype=np.float32),
}
BASELINE = Baseline(
    name="net",
    framework=Framework.TENSORFLOW,
    source="net.keras",
    path="baseline",
    sha256="0",
    inputs=(
        TensorSpec(name="image", shape=(None, 8, 8, 3), dtype="float32", layout="NHWC"),
        TensorSpec(name="extra-in", shape=(None, 4), dtype="float32"),
    ),
    outputs=(
        TensorSpec(name="map", shape=(None, 8, 8, 8), dtype="float32", layout="NHWC"),
        TensorSpec(name="scores", shape=(None, 5), dtype="float32"),
    ),
    parameters=1,
)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A net of an image and a vector whose outputs are a feature map and scores, as a SavedModel of open batch."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    image, extra = keras.Input((8, 8, 3), name="image"), keras.Input((4,), name="extra-in")
    features = keras.layers.Conv2D(8, 3, padding="same", activation="relu", name="map")(image)
    joined = keras.layers.Concatenate()([keras.layers.GlobalAveragePooling2D()(features), extra])
    model = keras.Model([image, extra], {"map": features, "scores": keras.layers.Dense(5)(joined)})
    module = tf.Module()
    module.model = model
    module.serve = tf.function(lambda tensors: model([tensors["image"], tensors["extra-in"]], training=False))
    specs = {spec.name: tf.TensorSpec(spec.shape, tf.float32, name=spec.name) for spec in BASELINE.inputs}
    folder = tmp_path_factory.mktemp("tensorflow")
    signature = {"serving_default": module.serve.get_concrete_function(specs)}
    tf.saved_model.save(module, str(folder / "baseline"), signatures=signature)
    return folder


@pytest.mark.parametrize("batch", [1, 4, None])
def test_the_batch_is_what_was_asked_and_names_and_numbers_stay(
    batch: int | None, run_folder: Path, tmp_path: Path
) -> None:
    import tensorflow as tf

    exported = tflite_tensorflow.export(BASELINE, run_folder, tmp_path / "net.tflite", batch)
    assert [(b.baseline, b.tensor.name, b.tensor.shape) for b in exported.inputs] == [
        ("image", "image", (batch, 8, 8, 3)),
        ("extra-in", "extra_in", (batch, 4)),
    ]
    assert [b.baseline for b in exported.outputs] == ["map", "scores"]
    assert inspect_tflite.read(exported.path).census.precision is Precision.FP32
    rows = batch or 3
    feed = {"image": SAMPLES["image"][:rows], "extra_in": SAMPLES["extra-in"][:rows]}
    loaded = tf.saved_model.load(str(run_folder / "baseline"))
    wanted = loaded.signatures["serving_default"](**{name: tf.constant(array) for name, array in feed.items()})
    found = _run(exported.path, feed)
    for name in ("map", "scores"):
        np.testing.assert_allclose(found[name], wanted[name].numpy(), atol=1e-5)


@pytest.mark.parametrize(
    ("scheme", "io_dtype", "precision"),
    [
        (Scheme.INT8, "float32", Precision.FULL_INT8),
        (Scheme.INT8, "int8", Precision.FULL_INT8),
        (Scheme.INT8, "uint8", Precision.FULL_INT8),
        (Scheme.INT16X8, "float32", Precision.INT16X8),
        (Scheme.FP16, "float32", Precision.FP16),
    ],
)
def test_tensorflow_quantizes_to_what_the_recipe_names(
    scheme: Scheme, io_dtype: Any, precision: Precision, run_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.tflite"
    made, inputs, outputs = tflite_tensorflow.quantize(
        BASELINE, run_folder, _recipe(scheme, io_dtype=io_dtype), SAMPLES, out, 1
    )
    assert inspect_tflite.read(out).census.precision is precision
    assert {b.tensor.dtype for b in (*inputs, *outputs)} == {io_dtype}
    assert made.route == "tensorflow"


def test_an_int8_recipe_without_samples_is_refused_before_tensorflow_makes_a_float_file(
    run_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.tflite"
    for calibration in (None, {"image": SAMPLES["image"]}, {**SAMPLES, "image": SAMPLES["image"][:0]}):
        with pytest.raises(DataError, match="needs calibration samples for input"):
            tflite_tensorflow.quantize(BASELINE, run_folder, _recipe(Scheme.INT8), calibration, out, 1)
    assert not out.exists()


@pytest.mark.parametrize(
    ("recipe_settings", "message"),
    [
        ({"keep_float": ("SOFTMAX",)}, "can't keep single operators in float"),
        ({"calibration": Calibration(method="percentile")}, "by min-max, not percentile"),
    ],
)
def test_what_tensorflow_can_not_do_is_refused(
    recipe_settings: dict[str, Any], message: str, run_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(RefusedError, match=message):
        tflite_tensorflow.quantize(
            BASELINE, run_folder, _recipe(Scheme.INT8, **recipe_settings), SAMPLES, tmp_path / "out.tflite", 1
        )


def test_a_snapshot_of_fixed_batch_refuses_another(run_folder: Path, tmp_path: Path) -> None:
    fixed = replace(BASELINE, inputs=tuple(replace(s, shape=(2, *s.shape[1:])) for s in BASELINE.inputs))
    with pytest.raises(RefusedError, match="fixed at 2, so batch 1"):
        tflite_tensorflow.export(fixed, run_folder, tmp_path / "net.tflite", 1)


def _recipe(scheme: Scheme, **settings: Any) -> Recipe:
    calibration = Calibration() if scheme.needs_calibration else None
    return Recipe(
        name="under-test",
        format=Format.TFLITE,
        scheme=scheme,
        route="tensorflow",
        **{"calibration": calibration, **settings},
    )


def _run(path: Path, feed: dict[str, Any]) -> dict[str, Any]:
    from ai_edge_litert.interpreter import Interpreter

    result: dict[str, Any] = Interpreter(str(path)).get_signature_runner()(**feed)
    return result
