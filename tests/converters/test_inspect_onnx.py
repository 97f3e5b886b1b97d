from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
import pytest
import small_onnx
from onnx import helper, numpy_helper
from small_onnx import FLOAT

from edgebench.converters import inspect_onnx, quantize_onnx
from edgebench.errors import ModelError
from edgebench.types import Calibration, Format, Precision, Quantization, Recipe, Scheme, TensorSpec


def _save(model: onnx.ModelProto, path: Path) -> Path:
    onnx.save(model, path)
    return path


def test_a_float_model_is_read_back_as_it_is(tmp_path: Path) -> None:
    path = _save(small_onnx.cnn(), tmp_path / "m.onnx")
    facts = inspect_onnx.read(path)
    assert facts.inputs == (TensorSpec(name="image", shape=(1, 3, 16, 16), dtype="float32"),)
    assert facts.outputs == (TensorSpec(name="scores", shape=(1, 5), dtype="float32"),)
    assert facts.batch == 1
    assert facts.census.precision is Precision.FP32
    assert facts.census.ops["Conv:float32"] == 1
    assert facts.census.macs == 8 * 16 * 16 * 3 * 9 + 5 * 8
    assert facts.census.parameters == 8 * 27 + 4 * 8 + 5 * 8 + 5
    assert facts.census.weight_bytes == {"float32": 4 * facts.census.parameters, "int64": 16}
    assert {op.version for op in facts.ops} == {18}
    assert (facts.size_bytes, facts.files) == (path.stat().st_size, (path,))


def test_an_open_batch_is_none_and_leaves_the_macs_unknown(tmp_path: Path) -> None:
    facts = inspect_onnx.read(_save(small_onnx.cnn("n"), tmp_path / "m.onnx"))
    assert (facts.batch, facts.inputs[0].shape, facts.census.macs) == (None, (None, 3, 16, 16), None)


def test_an_lstm_counts_its_macs_at_every_step(tmp_path: Path) -> None:
    facts = inspect_onnx.read(_save(small_onnx.lstm(), tmp_path / "m.onnx"))
    assert facts.census.macs == 5 * 4 * 7 * (6 + 7)


def test_external_data_is_counted_and_listed(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(small_onnx.cnn(), path, save_as_external_data=True, location="m.data", size_threshold=0)
    facts = inspect_onnx.read(path)
    assert facts.files == (path, tmp_path / "m.data")
    assert facts.size_bytes == path.stat().st_size + (tmp_path / "m.data").stat().st_size
    assert facts.census.parameters == 8 * 27 + 4 * 8 + 5 * 8 + 5


@pytest.mark.parametrize("location", ["../secret", "/etc/hostname", "sub/../../secret", "", "link"])
def test_external_data_outside_the_folder_is_not_opened(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(10_000))
    (folder / "link").symlink_to(tmp_path / "secret")
    path = folder / "m.onnx"
    onnx.save(small_onnx.cnn(), path, save_as_external_data=True, location="m.data", size_threshold=0)
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        next(entry for entry in tensor.external_data if entry.key == "location").value = location
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="outside the model's folder; not opened"):
        inspect_onnx.read(path)


def test_external_data_that_is_absent_or_short_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(small_onnx.cnn(), path, save_as_external_data=True, location="m.data", size_threshold=0)
    (tmp_path / "m.data").write_bytes((tmp_path / "m.data").read_bytes()[:100])
    with pytest.raises(ModelError, match=r"'m\.data', which has 100; it is cut short"):
        inspect_onnx.read(path)
    (tmp_path / "m.data").unlink()
    with pytest.raises(ModelError, match=r"external data 'm\.data' is not beside it"):
        inspect_onnx.read(path)


def test_a_weight_shorter_than_its_shape_is_refused(tmp_path: Path) -> None:
    model = small_onnx.cnn()
    model.graph.initializer[0].dims[0] = 2**40
    with pytest.raises(ModelError, match=r"tensor 'kernel' of shape .* the file holds 864"):
        inspect_onnx.read(_save(model, tmp_path / "m.onnx"))


@pytest.mark.parametrize("content", [b"", b"\x00", b"not a model", bytes(range(256)) * 20])
def test_a_file_of_another_kind_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        inspect_onnx.read(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("kind", ["float", "lstm", "tokens", "int8", "dynamic-int8", "int4"])
def test_damaged_files_are_read_or_refused_but_never_crash(tmp_path: Path, kind: str) -> None:
    seeded = random.Random(0)
    whole = _any_model(kind, tmp_path).SerializeToString()
    path = tmp_path / "damaged.onnx"
    outcomes = []
    for _ in range(200):
        damaged = bytearray(whole)
        if seeded.random() < 0.2:
            damaged = damaged[: seeded.randrange(1, len(damaged))]
        for _ in range(seeded.randrange(1, 9)):
            damaged[seeded.randrange(len(damaged))] = seeded.randrange(256)
        path.write_bytes(damaged)
        outcomes.append(_refusal(path))
    refusals = [message for message in outcomes if message is not None]
    assert len(refusals) > 50
    assert not [message for message in refusals if "\n" in message]


@pytest.mark.parametrize("kind", ["float", "lstm", "tokens", "int8", "dynamic-int8", "int4"])
def test_well_formed_nonsense_is_read_or_refused_but_never_crashes(tmp_path: Path, kind: str) -> None:
    """Operators without their inputs, of other domains, on other types: nothing that ONNX's own checker must find."""
    seeded = random.Random(0)
    model = _any_model(kind, tmp_path)
    op_types = ["LSTM", "MatMul", "Conv", "QLinearConv", "Gemm", "Clip", "MatMulNBits", "DynamicQuantizeLSTM", "If"]
    for _ in range(200):
        nonsense = onnx.ModelProto()
        nonsense.CopyFrom(model)
        node = seeded.choice(nonsense.graph.node)
        for _ in range(seeded.randrange(1, 4)):
            match seeded.randrange(4):
                case 0:
                    del node.input[seeded.randrange(len(node.input) + 1) :]
                case 1:
                    node.op_type, node.domain = seeded.choice(op_types), seeded.choice(["", "com.microsoft", "other"])
                case 2:
                    seeded.choice(nonsense.graph.initializer).data_type = seeded.randrange(30)
                case 3:
                    value = seeded.choice([*nonsense.graph.input, *nonsense.graph.output])
                    del value.type.tensor_type.shape.dim[:]
        _refusal(_save(nonsense, tmp_path / "nonsense.onnx"))


def test_an_operator_without_its_inputs_is_named(tmp_path: Path) -> None:
    model = small_onnx.cnn()
    del model.graph.node[0].input[1:]
    model.graph.node[0].domain = "other"
    model.opset_import.append(helper.make_opsetid("other", 1))
    with pytest.raises(ModelError, match="Conv 'stem/conv' has 1 inputs and 1 outputs, it needs 2 and 1"):
        inspect_onnx.read(_save(model, tmp_path / "m.onnx"))


def test_branches_that_use_one_name_for_unlike_tensors_do_not_hang(tmp_path: Path) -> None:
    def branch(source: str, result: str, output: str) -> onnx.GraphProto:
        return helper.make_graph(
            [
                helper.make_node("Identity", [source], [result]),
                helper.make_node("MatMul", ["x", result], [output]),
            ],
            output,
            [],
            [helper.make_tensor_value_info(output, FLOAT, [1, 4])],
            [numpy_helper.from_array(np.eye(4, dtype=np.float32), source)],
        )

    choice = helper.make_node("If", ["c"], ["y"], then_branch=branch("p", "q", "a"), else_branch=branch("q", "p", "b"))
    inputs = {"x": (FLOAT, [1, 4]), "c": (onnx.TensorProto.BOOL, [])}
    model = small_onnx.model([choice], inputs, {"y": [1, 4]}, {})
    assert inspect_onnx.read(_save(model, tmp_path / "m.onnx")).census.ops["MatMul:float32"] == 2


def _refusal(path: Path) -> str | None:
    """The message of the ModelError; any other error fails the test."""
    try:
        inspect_onnx.read(path)
    except ModelError as error:
        return str(error)
    return None


def _any_model(kind: str, folder: Path) -> onnx.ModelProto:
    if kind in ("float", "lstm", "tokens"):
        return {"float": small_onnx.cnn, "lstm": small_onnx.lstm, "tokens": small_onnx.token_net}[kind]()
    scheme, model, samples = {
        "int8": (Scheme.INT8, small_onnx.cnn(), {"image": np.ones((2, 3, 16, 16), np.float32)}),
        "dynamic-int8": (Scheme.DYNAMIC_INT8, small_onnx.lstm(), None),
        "int4": (Scheme.WEIGHT_ONLY_INT4, small_onnx.token_net(), None),
    }[kind]
    source = small_onnx.exported(_save(model, folder / "float.onnx"))
    calibration = Calibration() if scheme.needs_calibration else None
    recipe = Recipe(name="r", format=Format.ONNX, scheme=scheme, calibration=calibration)
    quantize_onnx.quantize(source, recipe, samples, folder / "quantized.onnx")
    return onnx.load(folder / "quantized.onnx")


def test_qdq_around_an_operator_makes_it_int8(tmp_path: Path) -> None:
    assert _qdq_facts(tmp_path, activation=np.uint8).precision is Precision.FULL_INT8
    assert _qdq_facts(tmp_path, activation=np.int16).precision is Precision.INT16X8


def test_an_operator_whose_output_is_not_quantized_computes_in_float(tmp_path: Path) -> None:
    census = _qdq_facts(tmp_path, activation=np.uint8, quantizes_result=False)
    assert (census.precision, census.float_ops) == (Precision.WEIGHT_ONLY_INT8, {"Conv": 1, "Relu": 1})


def _qdq_facts(tmp_path: Path, activation: type, quantizes_result: bool = True):  # type: ignore[no-untyped-def]
    """x -> Q DQ -> Conv (weights DQ) -> Relu -> Q DQ -> y."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
        helper.make_node("Conv", ["xd", "wd"], ["c"]),
        helper.make_node("Relu", ["c"], ["r" if quantizes_result else "y"]),
    ]
    if quantizes_result:
        nodes += [
            helper.make_node("QuantizeLinear", ["r", "s", "z"], ["rq"]),
            helper.make_node("DequantizeLinear", ["rq", "s", "z"], ["y"]),
        ]
    stored = {
        "s": np.array(0.1, np.float32),
        "z": np.array(0, activation),
        "w": np.ones((4, 3, 1, 1), np.int8),
        "ws": np.ones(4, np.float32),
        "wz": np.zeros(4, np.int8),
    }
    model = small_onnx.model(nodes, {"x": (FLOAT, [1, 3, 8, 8])}, {"y": [1, 4, 8, 8]}, stored, opset=21)
    census = inspect_onnx.read(_save(model, tmp_path / "m.onnx")).census
    assert census.parameters == 12
    assert census.macs == 4 * 8 * 8 * 3
    return census


def test_integer_inputs_and_outputs_carry_their_scale(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["xd"]),
        helper.make_node("Relu", ["xd"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["y"]),
    ]
    stored = {"s": np.array(0.5, np.float32), "z": np.array(3, np.uint8)}
    model = small_onnx.model(nodes, {"x": (onnx.TensorProto.UINT8, [1, 4])}, {"y": [1, 4]}, stored)
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    facts = inspect_onnx.read(_save(model, tmp_path / "m.onnx"))
    scale = Quantization(scales=(0.5,), zero_points=(3,))
    assert (facts.inputs[0].quantization, facts.outputs[0].quantization) == (scale, scale)
