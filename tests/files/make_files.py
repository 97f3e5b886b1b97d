"""Make the small model files of the tests and of `devices check`: `python tests/files/make_files.py`.

Needs edgebench[tensorflow]. Those of the tests: one 3x3 convolution, a mean and a dense layer on 8x8x3 inputs, seeded;
the int8 file has int8 inputs and outputs. Those of the check are `check_net`, converted by edgebench itself.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from onnx import TensorProto, helper, numpy_helper, save

from edgebench.store import Store

HERE = Path(__file__).parent
CHECK_MODELS = HERE.parents[1] / "edgebench" / "pipeline" / "check_models"


def make_tflite() -> None:
    keras.utils.set_random_seed(0)
    image = keras.Input((8, 8, 3), name="image")
    hidden = keras.layers.Conv2D(4, 3, activation="relu")(image)
    scores = keras.layers.Dense(3, name="scores")(keras.layers.GlobalAveragePooling2D()(hidden))
    model = keras.Model(image, {"scores": scores})
    calibration = np.random.default_rng(0).random((20, 1, 8, 8, 3), dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        model.export(folder, format="tf_saved_model", verbose=False)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        (HERE / "tiny-float.tflite").write_bytes(converter.convert())
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: ([sample] for sample in calibration)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
        (HERE / "tiny-int8.tflite").write_bytes(converter.convert())


def make_onnx() -> None:
    random = np.random.default_rng(0)
    weights = random.standard_normal((4, 3, 3, 3), dtype=np.float32)
    dense = random.standard_normal((4, 3), dtype=np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["image", "weights"], ["conv"], name="conv"),
            helper.make_node("Relu", ["conv"], ["relu"], name="relu"),
            helper.make_node("GlobalAveragePool", ["relu"], ["pool"], name="pool"),
            helper.make_node("Flatten", ["pool"], ["flat"], name="flatten"),
            helper.make_node("MatMul", ["flat", "dense"], ["scores"], name="matmul"),
        ],
        "tiny",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(dense, "dense")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(model, HERE / "tiny.onnx")


def check_net() -> keras.Model:
    """The kernels that matter on a device: convolution, depthwise, pointwise, residual sum, mean, dense."""
    keras.utils.set_random_seed(0)
    image = keras.Input((16, 16, 8), name="image")
    x = keras.layers.Conv2D(32, 3, strides=2, padding="same", activation="relu6")(image)
    y = keras.layers.DepthwiseConv2D(3, padding="same", activation="relu6")(x)
    x = keras.layers.Add()([x, keras.layers.Conv2D(32, 1)(y)])
    scores = keras.layers.Dense(10, name="scores")(keras.layers.GlobalAveragePooling2D()(x))
    return keras.Model(image, scores)


def make_check_models() -> None:
    samples = np.random.default_rng(0).normal(size=(64, 16, 16, 8)).astype(np.float32)
    recipes = ("tflite-fp32", "tflite-int8", "onnx-fp32", "onnx-int8")
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "data.npz", image=samples)
        command = [
            sys.executable,
            "-m",
            "edgebench",
            "convert",
            f"{__file__}:check_net",
            "--data",
            f"{folder}/data.npz",
        ]
        command += [f"--recipe={recipe}" for recipe in recipes]
        subprocess.run([*command, "--out", f"{folder}/run", "--quiet"], check=True)
        with Store.open(Path(folder) / "run" / "records.sqlite", read_only=True) as store:
            for record in store.records():
                assert record.artifact
                made = Path(folder) / "run" / record.artifact.files[0]
                shutil.copyfile(made, CHECK_MODELS / f"{record.recipe}{made.suffix}")


if __name__ == "__main__":
    make_tflite()
    make_onnx()
    make_check_models()
