from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from edgebench.errors import ModelError
from edgebench.models import snapshot
from edgebench.models.predict import open_predictor, predict_all


def test_two_inputs_and_two_outputs_keep_the_layers_names_and_order(nets: Path) -> None:
    baseline = snapshot(f"{nets}/keras_nets.py:two_inputs", nets / "run")
    assert [(spec.name, spec.shape, spec.dtype) for spec in baseline.inputs] == [
        ("ids", (None, 7), "int32"),
        ("extra", (None, 3), "float32"),
    ]
    assert [(spec.name, spec.shape) for spec in baseline.outputs] == [("main", (None, 3)), ("aux", (None, 1))]
    assert baseline.path == "baseline/savedmodel"


def test_a_keras_file_and_its_snapshot_agree_and_hash_alike_twice(nets: Path) -> None:
    import keras

    keras.utils.set_random_seed(3)
    x = keras.Input((4,), name="x")
    model = keras.Model(x, keras.layers.Dense(3, name="y")(keras.layers.BatchNormalization()(x)))
    model.save(nets / "net.keras")
    model.save(nets / "net.h5")
    first = snapshot(f"{nets}/net.keras", nets / "run")
    data = np.random.default_rng(0).standard_normal((70, 4), dtype=np.float32)
    found = predict_all(open_predictor(first, nets / "run"), first, {"x": data})
    np.testing.assert_allclose(found["y"], model.predict(data, verbose=0), atol=1e-6)
    assert first.parameters == model.count_params()
    again = snapshot(f"{nets}/net.keras", nets / "run2")
    legacy = snapshot(f"{nets}/net.h5", nets / "run3")
    assert first.sha256 == again.sha256 == legacy.sha256
    model.layers[-1].set_weights([w + 1 for w in model.layers[-1].get_weights()])
    model.save(nets / "net.keras")
    assert snapshot(f"{nets}/net.keras", nets / "run4").sha256 != first.sha256


def test_sequential_dict_and_subclassed_models_are_written(nets: Path) -> None:
    sequential = snapshot(f"{nets}/keras_nets.py:sequential", nets / "run")
    assert (sequential.inputs[0].shape, sequential.inputs[0].layout) == ((None, 8, 8, 1), "NHWC")
    by_key = snapshot(f"{nets}/keras_nets.py:by_key", nets / "run")
    assert [spec.name for spec in by_key.outputs] == ["r", "a"]
    subclassed = snapshot(f"{nets}/keras_nets.py:Subclassed", nets / "run", example={"x": np.zeros((1, 6), np.float32)})
    assert [(spec.name, spec.shape) for spec in subclassed.inputs] == [("x", (None, 6))]
    assert [spec.name for spec in subclassed.outputs] == ["output"]
    with pytest.raises(ModelError, match="does not say the shape of its inputs"):
        snapshot(f"{nets}/keras_nets.py:Subclassed", nets / "run")


def test_a_users_saved_model_is_copied_and_hashes_alike(nets: Path) -> None:
    baseline = snapshot(f"{nets}/keras_nets.py:sequential", nets / "run")
    shutil.copytree(nets / "run" / baseline.path, nets / "mine")
    copied = snapshot(str(nets / "mine"), nets / "run2")
    assert copied.sha256 == baseline.sha256
    assert [spec.name for spec in copied.outputs] == [spec.name for spec in baseline.outputs]
    (nets / "mine" / "saved_model.pb").write_bytes(b"\x99" * 300)
    with pytest.raises(ModelError, match="corrupt or truncated"):
        snapshot(str(nets / "mine"), nets / "run3")


def test_a_saved_model_that_writes_files_needs_trust(nets: Path) -> None:
    import tensorflow as tf

    class Writer(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
        def serve(self, x):
            tf.io.write_file(str(nets / "ran"), "x")
            return {"y": x}

    writer = Writer()
    tf.saved_model.save(writer, str(nets / "writer"), signatures={"serving_default": writer.serve})
    with pytest.raises(ModelError, match=r"reaches for files or Python \(WriteFile\); if you trust it add --trust"):
        snapshot(str(nets / "writer"), nets / "run")
    assert snapshot(str(nets / "writer"), nets / "run", trust=True).inputs[0].name == "x"
    assert not (nets / "ran").exists()


def test_a_saved_model_without_the_signature_lists_what_it_has(nets: Path) -> None:
    import tensorflow as tf

    module = tf.Module()
    module.f = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec([None, 2], tf.float32)])
    tf.saved_model.save(module, str(nets / "other"), signatures={"predict": module.f})
    with pytest.raises(ModelError, match=r"no signature serving_default \(found: predict\)"):
        snapshot(str(nets / "other"), nets / "run")


@pytest.mark.parametrize("ending", ["keras", "h5"])
def test_a_lambda_layer_needs_trust(nets: Path, ending: str) -> None:
    import keras

    x = keras.Input((4,), name="x")
    keras.Model(x, keras.layers.Lambda(lambda t: t * 2, name="double")(x)).save(nets / f"lam.{ending}")
    with pytest.raises(ModelError, match=r"holds a Lambda layer .* add --trust"):
        snapshot(f"{nets}/lam.{ending}", nets / "run")
    assert snapshot(f"{nets}/lam.{ending}", nets / "run", trust=True).outputs[0].name == "double"


def test_weights_of_another_network_are_refused_with_their_keys(nets: Path) -> None:
    import keras

    other = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(10)])
    other.save_weights(nets / "w.weights.h5")
    with pytest.raises(ModelError, match="keys are missing"):
        snapshot(f"{nets}/keras_nets.py:sequential", nets / "run", weights=nets / "w.weights.h5")


@pytest.mark.parametrize("ending", ["weights.h5", "keras", "h5"])
def test_weights_of_the_same_network_are_used(nets: Path, ending: str) -> None:
    import keras
    from keras import layers

    keras.utils.set_random_seed(11)
    model = keras.Sequential(
        [keras.Input((8, 8, 1)), layers.Conv2D(4, 3), layers.BatchNormalization(), layers.Flatten(), layers.Dense(10)]
    )
    path = nets / f"w.{ending}"
    model.save_weights(path) if ending == "weights.h5" else model.save(path)
    baseline = snapshot(f"{nets}/keras_nets.py:sequential", nets / "run", weights=path)
    data = np.random.default_rng(0).standard_normal((3, 8, 8, 1), dtype=np.float32)
    found = predict_all(open_predictor(baseline, nets / "run"), baseline, {baseline.inputs[0].name: data})
    np.testing.assert_allclose(next(iter(found.values())), model.predict(data, verbose=0), atol=1e-5)


def test_damaged_keras_files_are_refused_in_one_line(nets: Path) -> None:
    import keras

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.save(nets / "net.keras")
    model.save(nets / "net.h5")
    model.save_weights(nets / "only.weights.h5")
    shutil.copy(nets / "only.weights.h5", nets / "only.h5")
    whole, legacy = (nets / "net.keras").read_bytes(), (nets / "net.h5").read_bytes()
    with zipfile.ZipFile(nets / "empty.keras", "w"):
        pass
    for name, content in {
        "cut.keras": whole[: len(whole) // 2],
        "cut.h5": legacy[: len(legacy) // 2],
        "random.keras": np.random.default_rng(0).bytes(5000),
        "random.h5": np.random.default_rng(0).bytes(5000),
        "empty.keras": None,
        "only.h5": None,
    }.items():
        if content is not None:
            (nets / name).write_bytes(content)
        with pytest.raises(ModelError) as caught:
            snapshot(f"{nets}/{name}", nets / "run")
        assert "\n" not in str(caught.value)
        assert name in str(caught.value)


def test_random_weights_are_told(nets: Path) -> None:
    baseline = snapshot("keras:MobileNetV2", nets / "run", weights=Path("random"))
    assert [caution.code for caution in baseline.cautions] == ["random-weights"]
    assert baseline.preprocess is not None
    assert (baseline.preprocess.mean, baseline.preprocess.std) == ((127.5,), (127.5,))
    assert baseline.parameters == 3_538_984
