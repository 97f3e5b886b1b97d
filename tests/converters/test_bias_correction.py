"""Bias correction against real convolutions and real quantized files."""

from __future__ import annotations

import numpy as np
import pytest

from edgebench.converters import quantize_onnx, quantize_tflite
from edgebench.converters.bias_correction import MOST_SAMPLES, Sweep, mean_of_convolution, spread
from edgebench.converters.exported import Exported
from edgebench.types import Calibration, Format, Recipe, Scheme

RANDOM = np.random.default_rng(0)
SAMPLES = RANDOM.normal(size=(40, 16, 16, 8)).astype(np.float32)


def recipe(format, **said):
    said = {"name": "r", "format": format, "scheme": Scheme.INT8, "calibration": Calibration(), **said}
    return Recipe(**said)


def exported(path):
    return Exported(path=path, inputs=(), outputs=(), route="given", tool_versions={})


@pytest.mark.parametrize(
    ("stride", "pads", "dilation", "groups"),
    [(1, (0, 0), 1, 1), (2, (1, 0), 1, 1), (2, (1, 2), 2, 2), (3, (2, 2), 1, 6)],
)
def test_the_mean_of_a_convolution_follows_from_the_mean_of_its_inputs(stride, pads, dilation, groups):
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    x = RANDOM.normal(size=(5, 6, 11, 9)).astype(np.float32)
    kernel = RANDOM.normal(size=(12, 6 // groups, 3, 2)).astype(np.float32)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy"]
    node = helper.make_node(
        "Conv", ["x", "k"], ["y"], strides=[stride, 1], pads=[pads[0], 1, pads[1], 0],
        dilations=[dilation, 1], group=groups,
    )  # fmt: skip
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [numpy_helper.from_array(kernel, "k")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (y,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    sweeps = (
        Sweep(positions=y.shape[2], stride=stride, dilation=dilation, padded_by=pads[0]),
        Sweep(positions=y.shape[3], stride=1, dilation=1, padded_by=1),
    )
    mean = mean_of_convolution(kernel.transpose(0, 2, 3, 1), x.mean(axis=0).transpose(1, 2, 0), sweeps)
    np.testing.assert_allclose(mean, y.mean(axis=(0, 2, 3)), atol=1e-5)


def shift(outputs, reference):
    """How far the mean of each output is from the float file's, as a norm."""
    return float(np.linalg.norm(outputs.mean(axis=0) - reference.mean(axis=0)))


@pytest.fixture(scope="module")
def float_tflite(tmp_path_factory):
    """A small net with every kind of layer that is corrected, and biases."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    biased = {"bias_initializer": keras.initializers.RandomNormal(stddev=0.5)}
    image = keras.Input((16, 16, 8), name="image", batch_size=1)
    x = keras.layers.Conv2D(32, 3, strides=2, padding="same", activation="relu6", **biased)(image)
    x = keras.layers.DepthwiseConv2D(3, padding="same", activation="relu6", **biased)(x)
    x = keras.layers.Conv2D(32, 1, activation="relu", **biased)(x)
    scores = keras.layers.Dense(10, name="scores", **biased)(keras.layers.GlobalAveragePooling2D()(x))
    folder = tmp_path_factory.mktemp("net")
    keras.Model(image, {"scores": scores}).export(folder / "saved", format="tf_saved_model", verbose=False)
    path = folder / "float.tflite"
    path.write_bytes(tf.lite.TFLiteConverter.from_saved_model(str(folder / "saved")).convert())
    return path


def run_tflite(path):
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(str(path)).get_signature_runner()
    return np.concatenate([runner(image=sample[np.newaxis])["scores"] for sample in SAMPLES])


def test_a_corrected_tflite_file_has_the_float_files_means_and_only_its_biases_changed(tmp_path, float_tflite):
    made = {}
    for name, corrects in (("plain", False), ("corrected", True)):
        made[name] = tmp_path / f"{name}.tflite"
        asked = recipe(Format.TFLITE, bias_correction=corrects)
        assert quantize_tflite.quantize(exported(float_tflite), asked, {"image": SAMPLES}, made[name]).cautions == ()
    reference = run_tflite(float_tflite)
    assert shift(run_tflite(made["corrected"]), reference) < 0.5 * shift(run_tflite(made["plain"]), reference)
    plain, corrected = (np.frombuffer(path.read_bytes(), np.uint8) for path in made.values())
    biases = 32 + 32 + 32 + 10
    assert len(plain) == len(corrected)
    assert 0 < np.count_nonzero(plain != corrected) <= 4 * biases


@pytest.fixture
def float_onnx(tmp_path):
    from onnx import TensorProto, helper, numpy_helper, save

    shapes = {"k": (32, 8, 3, 3), "d": (32, 1, 3, 3), "g": (10, 32)}
    arrays = {name: RANDOM.normal(size=shape).astype(np.float32) * 0.2 for name, shape in shapes.items()}
    arrays |= {f"{name}_bias": RANDOM.normal(size=shape[0]).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "k", "k_bias"], ["a"], name="conv", strides=[2, 2], pads=[0, 0, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Conv", ["b", "d", "d_bias"], ["c"], name="depthwise", group=32, auto_pad="SAME_UPPER"),
        helper.make_node("Relu", ["c"], ["e"], name="relu_2"),
        helper.make_node("GlobalAveragePool", ["e"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
        helper.make_node("Gemm", ["f", "g", "g_bias"], ["y"], name="gemm", transB=1),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 16, 16]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10]),
    ]
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    path = tmp_path / "float.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_corrected_onnx_file_has_the_float_files_means(tmp_path, float_onnx):
    import onnxruntime

    samples = SAMPLES.transpose(0, 3, 1, 2)

    def run(path):
        session = onnxruntime.InferenceSession(str(path))
        return np.concatenate([session.run(None, {"x": sample[np.newaxis]})[0] for sample in samples])

    reference = run(float_onnx)
    shifts = {}
    for corrects in (False, True):
        out = tmp_path / f"{corrects}.onnx"
        asked = recipe(Format.ONNX, bias_correction=corrects)
        assert quantize_onnx.quantize(exported(float_onnx), asked, {"x": samples}, out).cautions == ()
        shifts[corrects] = shift(run(out), reference)
    assert shifts[True] < 0.5 * shifts[False]


def test_a_model_without_a_layer_that_has_a_bias_says_that_nothing_was_corrected(tmp_path):
    from onnx import TensorProto, helper, numpy_helper, save

    weights = RANDOM.normal(size=(8, 4)).astype(np.float32)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name, size in (("x", 8), ("y", 4))]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="m")], "g", ends[:1], ends[1:],
        [numpy_helper.from_array(weights, "w")],
    )  # fmt: skip
    path = tmp_path / "float.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    samples = {"x": RANDOM.normal(size=(20, 8)).astype(np.float32)}
    made = quantize_onnx.quantize(
        exported(path), recipe(Format.ONNX, bias_correction=True), samples, tmp_path / "out.onnx"
    )
    assert [caution.code for caution in made.cautions] == ["biases-not-corrected"]


def test_samples_are_spread_over_all_and_few_are_all_taken():
    assert spread(np.arange(100)).tolist()[::23] == [0, 99]
    assert len(spread(np.arange(100))) == MOST_SAMPLES
    assert spread(np.arange(3)).tolist() == [0, 1, 2]


def test_bias_correction_is_for_int8_by_the_usual_route():
    with pytest.raises(ValueError, match="bias_correction takes scheme int8"):
        Recipe(name="r", format=Format.TFLITE, scheme=Scheme.FP16, bias_correction=True)


def test_operators_without_names_are_corrected_too(tmp_path, float_onnx):
    import onnx

    model = onnx.load(float_onnx)
    for node in model.graph.node:
        node.name = ""
    onnx.save(model, float_onnx)
    samples = {"x": SAMPLES.transpose(0, 3, 1, 2)}
    asked = recipe(Format.ONNX, bias_correction=True)
    assert quantize_onnx.quantize(exported(float_onnx), asked, samples, tmp_path / "out.onnx").cautions == ()
