from __future__ import annotations

import numpy as np
import pytest

from edgebench.errors import StageError
from edgebench.measure import feed
from edgebench.types import Binding, Quantization, TensorSpec


def _binding(shape, dtype, quantization=None, permutation=None):
    tensor = TensorSpec(name="file_x", shape=shape, dtype=dtype, quantization=quantization)
    return Binding(tensor=tensor, baseline="x", permutation=permutation)


def _per_tensor(scale, zero_point):
    return Quantization(scales=(scale,), zero_points=(zero_point,))


def test_halves_round_to_even_and_the_range_is_clipped():
    binding = _binding((1, 6), "int8", _per_tensor(0.5, 10))
    real = np.array([[0.25, 0.75, 1.25, -0.25, 1000, -1000]], np.float32)  # 0.5, 1.5, 2.5, -0.5 steps
    (encoded,) = feed.encode({"x": real}, (binding,)).values()
    assert encoded.dtype == np.int8
    assert encoded.tolist() == [[10, 12, 12, 10, 127, -128]]


@pytest.mark.parametrize(("dtype", "zero_point"), [("int8", -5), ("uint8", 120), ("int16", 0)])
def test_decoding_what_was_encoded_is_off_by_half_a_step_at_most(dtype, zero_point):
    binding = _binding((None, 3), dtype, _per_tensor(0.01, zero_point))
    real = np.random.default_rng(0).uniform(-1, 1, (40, 3)).astype(np.float32)
    back = feed.decode(feed.encode({"x": real}, (binding,)), (binding,))["x"]
    assert back.dtype == np.float32
    assert np.abs(back - real).max() <= 0.005 + 1e-6


def test_the_codes_are_those_of_a_runtimes_own_quantize_operator():
    """ONNX QuantizeLinear: round half to even, then clip."""
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"])]
    initializers = [
        helper.make_tensor("scale", TensorProto.FLOAT, [], [0.0123]),
        helper.make_tensor("zero", TensorProto.INT8, [], [7]),
    ]
    graph = helper.make_graph(
        nodes,
        "quantize",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("q", TensorProto.INT8, ["n", 64])],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    real = np.random.default_rng(0).normal(0, 1, (100, 64)).astype(np.float32)
    (expected,) = session.run(None, {"x": real})
    binding = _binding((None, 64), "int8", _per_tensor(float(np.float32(0.0123)), 7))
    (encoded,) = feed.encode({"x": real}, (binding,)).values()
    assert np.array_equal(encoded, expected)


def test_axes_are_permuted_to_the_file_s_and_back():
    binding = _binding((1, 4, 5, 3), "float32", permutation=(0, 2, 3, 1))
    nchw = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)
    encoded = feed.encode({"x": nchw}, (binding,))["file_x"]
    assert np.array_equal(encoded, np.transpose(nchw, (0, 2, 3, 1)))
    assert np.array_equal(feed.decode({"file_x": encoded}, (binding,))["x"], nchw)


def test_scales_by_channel_lie_on_the_file_s_axis():
    quantization = Quantization(scales=(0.1, 0.2, 0.4), zero_points=(0, 10, -10), axis=3)
    binding = _binding((1, 2, 2, 3), "int8", quantization, permutation=(0, 2, 3, 1))
    nchw = np.ones((1, 3, 2, 2), np.float32)
    encoded = feed.encode({"x": nchw}, (binding,))["file_x"]
    assert encoded[0, 0, 0].tolist() == [10, 15, -8]  # 1 / .4 = 2.5 rounds to 2
    assert feed.decode({"file_x": encoded}, (binding,))["x"][0, :, 1, 1] == pytest.approx([1.0, 1.0, 0.8])


def test_token_ids_pass_unquantized_and_are_cast():
    binding = _binding((None, 2), "int32")
    encoded = feed.encode({"x": np.array([[1, 30521]], np.int64)}, (binding,))["file_x"]
    assert encoded.dtype == np.int32
    assert encoded.tolist() == [[1, 30521]]


def test_an_id_that_does_not_fit_is_told():
    with pytest.raises(StageError, match=r"'file_x' holds 300, which the file's uint8"):
        feed.encode({"x": np.array([[1, 300]], np.int64)}, (_binding((None, 2), "uint8"),))


def test_codes_of_the_file_s_own_dtype_are_not_quantized_again():
    binding = _binding((None, 2), "int8", _per_tensor(0.5, 10))
    codes = np.array([[1, -3]], np.int8)
    assert feed.encode({"x": codes}, (binding,))["file_x"].tolist() == [[1, -3]]


def test_numbers_of_an_integer_baseline_are_real_values_to_a_quantized_file():
    binding = _binding((None, 2), "int8", _per_tensor(1.0, -128))
    pixels = np.array([[0, 255]], np.uint8)
    assert feed.encode({"x": pixels}, (binding,))["file_x"].tolist() == [[-128, 127]]


def test_booleans_go_both_ways():
    binding = _binding((None, 2), "bool")
    encoded = feed.encode({"x": np.array([[1.0, 0.0]], np.float32)}, (binding,))["file_x"]
    assert encoded.dtype == np.bool_
    assert feed.decode({"file_x": encoded}, (binding,))["x"].tolist() == [[1.0, 0.0]]


def test_float64_samples_become_the_file_s_float32():
    encoded = feed.encode({"x": np.array([[0.1, 1e-3]])}, (_binding((None, 2), "float32"),))["file_x"]
    assert encoded.dtype == np.float32


@pytest.mark.parametrize(
    ("values", "dtype", "quantization", "message"),
    [
        ([[np.nan, 0]], "int8", _per_tensor(1.0, 0), "has NaN"),
        ([[0.5, 0]], "int32", None, "holds 0.5"),
        ([[70000.0, 0]], "float16", None, "beyond the range of float16"),
    ],
)
def test_a_number_that_the_file_can_t_hold_is_told(values, dtype, quantization, message):
    with pytest.raises(StageError, match=message):
        feed.encode({"x": np.array(values, np.float32)}, (_binding((None, 2), dtype, quantization),))


def test_wrong_names_are_told_with_both_lists():
    with pytest.raises(StageError, match=r"\['x'\], the arrays given are \['image'\]"):
        feed.encode({"image": np.zeros((1, 2), np.float32)}, (_binding((1, 2), "float32"),))
    with pytest.raises(StageError, match=r"\['file_x'\], the arrays given are \['y'\]"):
        feed.decode({"y": np.zeros((1, 2), np.float32)}, (_binding((1, 2), "float32"),))


def test_wrong_shapes_are_told_with_both():
    with pytest.raises(StageError, match=r"shape \[5, 3\].*tensor 'file_x' is \[n, 2\]"):
        feed.encode({"x": np.zeros((5, 3), np.float32)}, (_binding((1, 2), "float32"),))
    with pytest.raises(StageError, match="can't order"):
        feed.encode({"x": np.zeros((5, 3), np.float32)}, (_binding((1, 2, 2, 3), "float32", None, (0, 2, 3, 1)),))


def test_any_number_of_samples_fits_whatever_the_file_s_batch():
    assert feed.encode({"x": np.zeros((5, 2))}, (_binding((8, 2), "float32"),))["file_x"].shape == (5, 2)
