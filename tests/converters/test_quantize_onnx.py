from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import small_onnx
from onnx import helper

from edgebench.converters import inspect_onnx, onnx_sort, quantize_onnx
from edgebench.converters.quantized import Quantized
from edgebench.errors import ConfigError, DataError, RefusedError, StageError
from edgebench.types import Calibration, Census, Format, Precision, Recipe, Scheme

RNG = np.random.default_rng(0)
IMAGES = RNG.standard_normal((40, 3, 16, 16), dtype=np.float32)
TOKENS = {"ids": RNG.integers(0, 50, (40, 6)), "extra": RNG.standard_normal((40, 4), dtype=np.float32)}


def _recipe(scheme: Scheme, **options: Any) -> Recipe:
    calibration = options.pop("calibration", Calibration() if scheme.needs_calibration else None)
    return Recipe(name="r", format=Format.ONNX, scheme=scheme, calibration=calibration, **options)


def _quantize(
    model: onnx.ModelProto, recipe: Recipe, samples: dict[str, np.ndarray] | None, folder: Path, external: bool = False
) -> tuple[Path, Path, Quantized]:
    """The float file, the quantized one and what was said of it."""
    source, out = folder / "float.onnx", folder / "made" / "quantized.onnx"
    out.parent.mkdir(exist_ok=True)
    onnx.save(model, source, save_as_external_data=external, location="float.data", size_threshold=0)
    return source, out, quantize_onnx.quantize(small_onnx.exported(source), recipe, samples, out)


def _sqnr_db(source: Path, out: Path, feeds: list[dict[str, np.ndarray]]) -> float:
    wanted, found = (np.concatenate([small_onnx.run(path, **feed)[0] for feed in feeds]) for path in (source, out))
    return small_onnx.sqnr_db(wanted, found)


def _image_feeds(images: np.ndarray = IMAGES) -> list[dict[str, np.ndarray]]:
    return [{"image": image[None]} for image in images]


def _int8_stored(path: Path) -> dict[str, onnx.TensorProto]:
    return {tensor.name: tensor for tensor in onnx.load(path).graph.initializer}


def test_int8_is_integer_throughout_close_to_float_and_keeps_its_inputs(tmp_path: Path) -> None:
    source, out, said = _quantize(small_onnx.cnn(), _recipe(Scheme.INT8), {"image": IMAGES}, tmp_path)
    facts = inspect_onnx.read(out)
    assert (facts.census.precision, facts.census.float_ops) == (Precision.FULL_INT8, {})
    assert [(spec.name, spec.dtype) for spec in (*facts.inputs, *facts.outputs)] == [
        ("image", "float32"),
        ("scores", "float32"),
    ]
    assert _sqnr_db(source, out, _image_feeds()) > 25
    assert (said.route, set(said.tool_versions)) == ("onnxruntime.quantization", {"onnx", "onnxruntime"})


def test_weights_get_a_scale_a_channel_unless_the_recipe_says_per_tensor(tmp_path: Path) -> None:
    model = small_onnx.cnn()
    kernel = next(tensor for tensor in model.graph.initializer if tensor.name == "kernel")
    uneven = onnx.numpy_helper.to_array(kernel) * np.logspace(-2, 2, 8, dtype=np.float32)[:, None, None, None]
    kernel.CopyFrom(onnx.numpy_helper.from_array(uneven, "kernel"))
    lengths, errors = [], []
    for granularity in ("per-channel", "per-tensor"):
        recipe = _recipe(Scheme.INT8, granularity=granularity)
        source, out, _ = _quantize(model, recipe, {"image": IMAGES}, tmp_path)
        scales = [tensor for name, tensor in _int8_stored(out).items() if "kernel" in name and name.endswith("_scale")]
        lengths.append(int(np.prod(scales[0].dims)))
        errors.append(_sqnr_db(source, out, _image_feeds()))
    assert lengths == [8, 1]
    assert errors[0] > errors[1]


def test_a_batch_larger_than_one_is_calibrated_with_every_sample(tmp_path: Path) -> None:
    samples = np.zeros_like(IMAGES[:5])
    samples[4] = 30 * IMAGES[4]
    _, out, _ = _quantize(small_onnx.cnn(2), _recipe(Scheme.INT8), {"image": samples}, tmp_path)
    scale = onnx.numpy_helper.to_array(_int8_stored(out)["image_scale"])
    assert scale == pytest.approx(np.ptp(samples[4]) / 255, rel=0.01)


def test_percentile_calibration_leaves_out_outliers_and_never_widens_the_range(tmp_path: Path) -> None:
    samples = IMAGES.copy()
    samples[3, 0, 0, 0] = 1000
    scales = []
    for calibration in (Calibration(), Calibration(method="percentile", percentile=99.9)):
        recipe = _recipe(Scheme.INT8, calibration=calibration)
        _, out, _ = _quantize(small_onnx.cnn(), recipe, {"image": samples}, tmp_path)
        stored = _int8_stored(out)
        scales.append(
            {name: onnx.numpy_helper.to_array(stored[name]) for name in stored if name in ("image_scale", "r_scale")}
        )
    assert scales[0]["image_scale"] > 3.9
    assert scales[1]["image_scale"] < 0.05
    assert scales[1]["r_scale"] <= scales[0]["r_scale"]


def test_percentile_calibration_needs_no_more_memory_for_more_samples(tmp_path: Path) -> None:
    """Kept whole, the activations of 300 samples would be 7 MB."""
    import tracemalloc

    source = tmp_path / "float.onnx"
    onnx.save(small_onnx.cnn(), source)
    recipe = _recipe(Scheme.INT8, calibration=Calibration(method="percentile"))
    peaks = []
    for n in (2, 3, 300):  # the first run also counts what is imported
        samples = np.broadcast_to(IMAGES[:1], (n, 3, 16, 16))
        tracemalloc.start()
        try:
            quantize_onnx.quantize(small_onnx.exported(source), recipe, {"image": samples}, tmp_path / "out.onnx")
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[2] < peaks[1] + 2_000_000


def test_nan_in_the_calibration_data_is_told(tmp_path: Path) -> None:
    samples = IMAGES.copy()
    samples[0] = np.nan
    with pytest.raises(DataError, match="samples of input 'image' hold NaN or Inf"):
        _quantize(small_onnx.cnn(), _recipe(Scheme.INT8), {"image": samples}, tmp_path)


def test_a_model_that_overflows_on_its_calibration_data_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        StageError, match=r"tensor '.*' ranges from .*, though the samples are finite; the model overflows"
    ):
        _quantize(small_onnx.cnn(), _recipe(Scheme.INT8), {"image": 3e38 * np.sign(IMAGES)}, tmp_path)


def test_calibration_that_lacks_an_input_names_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no samples for input 'extra'; it has: ids"):
        _quantize(small_onnx.token_net(), _recipe(Scheme.INT8), {"ids": TOKENS["ids"]}, tmp_path)
    with pytest.raises(DataError, match="no samples"):
        _quantize(small_onnx.cnn(), _recipe(Scheme.INT8), {"image": IMAGES[:0]}, tmp_path)
    with pytest.raises(RefusedError, match="needs calibration samples: give --data or --calibration"):
        _quantize(small_onnx.cnn(), _recipe(Scheme.INT8), None, tmp_path)


@pytest.mark.parametrize("scheme", [Scheme.INT8, Scheme.DYNAMIC_INT8, Scheme.FP16, Scheme.WEIGHT_ONLY_INT4])
def test_a_net_of_ids_and_floats_keeps_its_ids_under_every_scheme(scheme: Scheme, tmp_path: Path) -> None:
    samples = TOKENS if scheme is Scheme.INT8 else None
    source, out, _ = _quantize(small_onnx.token_net(), _recipe(scheme), samples, tmp_path)
    assert [(spec.name, spec.dtype) for spec in inspect_onnx.read(out).inputs] == [
        ("ids", "int64"),
        ("extra", "float32"),
    ]
    feeds = [{name: array[i : i + 1] for name, array in TOKENS.items()} for i in range(40)]
    assert _sqnr_db(source, out, feeds) > (15 if scheme is Scheme.WEIGHT_ONLY_INT4 else 30)


def test_float16_keeps_float32_inputs_and_halves_the_weights(tmp_path: Path) -> None:
    source, out, _ = _quantize(small_onnx.cnn(), _recipe(Scheme.FP16), None, tmp_path)
    facts = inspect_onnx.read(out)
    assert facts.census.precision is Precision.FP16
    assert facts.inputs[0].dtype == facts.outputs[0].dtype == "float32"
    assert "float32" not in facts.census.weight_bytes
    assert _sqnr_db(source, out, _image_feeds()) > 50


def test_an_lstm_becomes_dynamic_int8(tmp_path: Path) -> None:
    source, out, _ = _quantize(small_onnx.lstm(), _recipe(Scheme.DYNAMIC_INT8), None, tmp_path)
    assert _census(out).precision is Precision.DYNAMIC_INT8
    steps = RNG.standard_normal((5, 1, 6), dtype=np.float32)
    assert _sqnr_db(source, out, [{"steps": steps}]) > 30


def test_int4_packs_the_weights_of_a_matmul(tmp_path: Path) -> None:
    _, out, _ = _quantize(small_onnx.token_net(), _recipe(Scheme.WEIGHT_ONLY_INT4), None, tmp_path)
    census = _census(out)
    assert census.precision is Precision.WEIGHT_ONLY_INT4
    assert census.weight_bytes["int4"] == 64 * 3 // 2
    assert census.parameters == 50 * 60 + 64 * 3


def test_int4_of_a_net_of_convolutions_is_refused(tmp_path: Path) -> None:
    model = small_onnx.cnn()
    del model.graph.node[3:]
    model.graph.output[0].name = "r"
    model.graph.output[0].type.CopyFrom(helper.make_tensor_type_proto(small_onnx.FLOAT, [1, 8, 16, 16]))
    with pytest.raises(RefusedError, match=r"no MatMul with constant weights .* take onnx-int8 or onnx-dynamic-int8"):
        _quantize(model, _recipe(Scheme.WEIGHT_ONLY_INT4), None, tmp_path)


def test_dead_channels_do_no_harm(tmp_path: Path) -> None:
    """A channel of tiny weights and a large bias overflows int32 biases at naive scales."""
    model = small_onnx.cnn()
    for name, value in (("kernel", 1e-9), ("beta", 7.0)):
        tensor = next(tensor for tensor in model.graph.initializer if tensor.name == name)
        array = onnx.numpy_helper.to_array(tensor).copy()
        array[2] = value
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, name))
    source, out, _ = _quantize(model, _recipe(Scheme.INT8), {"image": IMAGES}, tmp_path)
    assert _sqnr_db(source, out, _image_feeds()) > 25


@pytest.mark.parametrize("scheme", [Scheme.INT8, Scheme.DYNAMIC_INT8, Scheme.FP16])
def test_keep_float_leaves_the_operators_that_it_names_in_float(scheme: Scheme, tmp_path: Path) -> None:
    samples = {"image": IMAGES} if scheme is Scheme.INT8 else None
    _, out, _ = _quantize(small_onnx.cnn(), _recipe(scheme, keep_float=("stem/c*",)), samples, tmp_path)
    assert "Conv:float32" in _census(out).ops


@pytest.mark.parametrize("scheme", [Scheme.INT8, Scheme.DYNAMIC_INT8, Scheme.FP16])
@pytest.mark.parametrize("pattern", ["head", "Gemm"])
def test_a_linear_layer_is_kept_in_float_by_its_name_or_type(scheme: Scheme, pattern: str, tmp_path: Path) -> None:
    """onnxruntime renames a Gemm before it looks at the names to leave out."""
    samples = {"image": IMAGES} if scheme is Scheme.INT8 else None
    _, out, _ = _quantize(small_onnx.cnn(), _recipe(scheme, keep_float=(pattern,)), samples, tmp_path)
    assert {"Gemm:float32", "MatMul:float32"} & set(_census(out).ops)


def test_int4_with_its_only_linear_layer_kept_in_float_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="no MatMul with constant weights that it may quantize"):
        _quantize(small_onnx.cnn(), _recipe(Scheme.WEIGHT_ONLY_INT4, keep_float=("head",)), None, tmp_path)


@pytest.mark.parametrize("scheme", [Scheme.INT8, Scheme.DYNAMIC_INT8, Scheme.FP16])
def test_operators_without_names_are_kept_in_float_by_type_alone(scheme: Scheme, tmp_path: Path) -> None:
    model = small_onnx.cnn()
    for node in model.graph.node:
        node.name = ""
    samples = {"image": IMAGES} if scheme is Scheme.INT8 else None
    _, out, _ = _quantize(model, _recipe(scheme, keep_float=("Conv",)), samples, tmp_path)
    ops = _census(out).ops
    assert ops["Conv:float32"] == 1
    assert any(op.startswith(("Gemm", "MatMul")) and not op.endswith("float32") for op in ops)


def test_dynamic_convolutions_carry_a_caution_and_linear_layers_none(tmp_path: Path) -> None:
    _, _, said = _quantize(small_onnx.cnn(), _recipe(Scheme.DYNAMIC_INT8), None, tmp_path)
    assert [c.code for c in said.cautions if c.code != "saturates-without-vnni"] == ["dynamic-convolutions"]
    _, _, said = _quantize(small_onnx.token_net(), _recipe(Scheme.DYNAMIC_INT8), None, tmp_path)
    assert [c.code for c in said.cautions if c.code != "saturates-without-vnni"] == []


def test_keep_float_that_matches_nothing_names_types_and_some_operators(tmp_path: Path) -> None:
    recipe = _recipe(Scheme.INT8, keep_float=("stem/*", "tail/*"))
    with pytest.raises(ConfigError, match=r"'tail/\*' matches no operator .* types Conv, .*, and names like stem/conv"):
        _quantize(small_onnx.cnn(), recipe, {"image": IMAGES}, tmp_path)


@pytest.mark.parametrize("scheme", [Scheme.INT8, Scheme.DYNAMIC_INT8, Scheme.FP16, Scheme.WEIGHT_ONLY_INT4])
def test_weights_in_external_data_are_quantized_too(scheme: Scheme, tmp_path: Path) -> None:
    samples = TOKENS if scheme is Scheme.INT8 else None
    _, out, _ = _quantize(small_onnx.token_net(), _recipe(scheme), samples, tmp_path, external=True)
    assert inspect_onnx.read(out).files == (out,)
    assert not np.isnan(small_onnx.run(out, ids=TOKENS["ids"][:1], extra=TOKENS["extra"][:1])[0]).any()


@pytest.mark.parametrize("opset", [13, 17])
def test_older_opsets_are_quantized_and_too_old_ones_refused(opset: int, tmp_path: Path) -> None:
    _, out, _ = _quantize(small_onnx.cnn(opset=opset), _recipe(Scheme.INT8), {"image": IMAGES}, tmp_path)
    assert _census(out).precision is Precision.FULL_INT8
    with pytest.raises(RefusedError, match="has opset 12, int8 needs 13"):
        _quantize(small_onnx.cnn(opset=12), _recipe(Scheme.INT8), {"image": IMAGES}, tmp_path)


def test_an_open_batch_stays_open(tmp_path: Path) -> None:
    source, out, _ = _quantize(small_onnx.cnn("n"), _recipe(Scheme.INT8), {"image": IMAGES}, tmp_path)
    assert inspect_onnx.read(out).batch is None
    assert _sqnr_db(source, out, [{"image": IMAGES[:7]}]) > 25


def _census(path: Path) -> Census:
    return inspect_onnx.read(path).census


def _branches() -> onnx.ModelProto:
    """x (1, 4) -> y (1, 4): an If whose branches read what a node of the graph around it makes."""

    def branch(kind: str) -> onnx.GraphProto:
        value = helper.make_tensor_value_info(f"{kind}_out", small_onnx.FLOAT, [1, 4])
        return helper.make_graph([helper.make_node(kind, ["r"], [f"{kind}_out"], f"in/{kind}")], kind, [], [value])

    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "relu"),
        helper.make_node("ReduceMax", ["x"], ["top"], "top", keepdims=0),
        helper.make_node("Greater", ["top", "zero"], ["positive"], "test"),
        helper.make_node("If", ["positive"], ["b"], "if", then_branch=branch("Neg"), else_branch=branch("Abs")),
        helper.make_node("MatMul", ["b", "w"], ["y"], "head"),
    ]
    stored = {"zero": np.array(0, np.float32), "w": np.eye(4, dtype=np.float32)}
    return small_onnx.model(nodes, {"x": (small_onnx.FLOAT, [1, 4])}, {"y": [1, 4]}, stored)


def test_nodes_are_sorted_after_what_their_bodies_read(tmp_path: Path) -> None:
    model = _branches()
    assert not onnx_sort.sort_nodes(model)
    shuffled = [model.graph.node[index] for index in (4, 1, 2, 3, 0)]
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in shuffled]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    with pytest.raises(onnx.checker.ValidationError, match="topologically sorted"):
        onnx.checker.check_model(model)
    assert onnx_sort.sort_nodes(model)
    onnx.checker.check_model(model)
    onnx.save(model, tmp_path / "m.onnx")
    x = np.array([[1, -2, 3, -4]], np.float32)
    np.testing.assert_array_equal(small_onnx.run(tmp_path / "m.onnx", x=x)[0], [[-1, 0, -3, 0]])


def test_weights_that_float16_cannot_hold_are_named(tmp_path: Path) -> None:
    model = small_onnx.cnn()
    kernel = next(tensor for tensor in model.graph.initializer if tensor.name == "kernel")
    kernel.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(kernel) * np.float32(1e6), "kernel"))
    _, _, said = _quantize(model, _recipe(Scheme.FP16), None, tmp_path)
    (caution,) = said.cautions
    assert caution.code == "float16-range"
    assert "the weights kernel have values beyond float16's largest, 65504" in caution.message
    _, _, kept = _quantize(model, _recipe(Scheme.FP16, keep_float=("Conv",)), None, tmp_path)
    assert kept.cautions == ()
