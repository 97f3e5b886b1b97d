from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgebench.errors import ModelError
from edgebench.models import snapshot
from edgebench.models.predict import open_predictor, predict_all

_WEIGHT = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)


def _write_onnx(path: Path, batch: str | int = "n", external: str | None = None) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weight = numpy_helper.from_array(_WEIGHT, "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 3])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if external is not None:
        (path.parent / external).write_bytes(weight.raw_data)
        tensor = model.graph.initializer[0]
        onnx.external_data_helper.set_external_data(tensor, external)
        tensor.ClearField("raw_data")
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize("batch", ["n", 1, 4])
def test_an_onnx_file_is_copied_and_runs_at_any_batch(tmp_path: Path, batch: str | int) -> None:
    _write_onnx(tmp_path / "m.onnx", batch)
    baseline = snapshot(f"{tmp_path}/m.onnx", tmp_path / "run")
    assert baseline.inputs[0].shape == (None if batch == "n" else batch, 4)
    assert (baseline.path, baseline.parameters) == ("baseline/model.onnx", 12)
    x = np.random.default_rng(1).standard_normal((70, 4)).astype(np.float32)
    found = predict_all(open_predictor(baseline, tmp_path / "run"), baseline, {"x": x})
    np.testing.assert_allclose(found["y"], x @ _WEIGHT, atol=1e-5)


def test_external_data_travels_and_counts_in_the_hash(tmp_path: Path) -> None:
    _write_onnx(tmp_path / "m.onnx", external="w.bin")
    first = snapshot(f"{tmp_path}/m.onnx", tmp_path / "run")
    assert (tmp_path / "run/baseline/w.bin").is_file()
    (tmp_path / "w.bin").write_bytes((_WEIGHT + 1).tobytes())
    assert snapshot(f"{tmp_path}/m.onnx", tmp_path / "run").sha256 != first.sha256


def test_external_data_outside_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    _write_onnx(tmp_path / "inner/m.onnx", external="../w.bin")
    with pytest.raises(ModelError, match=r"external data of 'w' lies outside the model's folder: ../w.bin"):
        snapshot(f"{tmp_path}/inner/m.onnx", tmp_path / "run")


def test_missing_and_truncated_external_data_are_told(tmp_path: Path) -> None:
    _write_onnx(tmp_path / "m.onnx", external="w.bin")
    (tmp_path / "w.bin").write_bytes(b"\0" * 20)
    with pytest.raises(ModelError):
        snapshot(f"{tmp_path}/m.onnx", tmp_path / "run")
    (tmp_path / "w.bin").unlink()
    with pytest.raises(ModelError, match=r"'w.bin' is missing; put it beside the .onnx file"):
        snapshot(f"{tmp_path}/m.onnx", tmp_path / "run")


def _write_tflite(path: Path) -> None:
    import tensorflow as tf

    weight = tf.constant(_WEIGHT)
    function = tf.function(lambda x: {"y": tf.matmul(x, weight)}).get_concrete_function(
        tf.TensorSpec([None, 4], tf.float32, name="x")
    )
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function])
    path.write_bytes(converter.convert())


def test_a_tflite_file_is_copied_and_runs(tmp_path: Path) -> None:
    _write_tflite(tmp_path / "m.tflite")
    baseline = snapshot(f"{tmp_path}/m.tflite", tmp_path / "run")
    assert [(spec.name, spec.shape) for spec in baseline.inputs] == [("x", (None, 4))]
    assert baseline.parameters == 12
    x = np.random.default_rng(1).standard_normal((37, 4)).astype(np.float32)
    found = predict_all(open_predictor(baseline, tmp_path / "run"), baseline, {"x": x})
    np.testing.assert_allclose(next(iter(found.values())), x @ _WEIGHT, atol=1e-5)


def test_damaged_onnx_and_tflite_files_are_refused_in_one_line(tmp_path: Path) -> None:
    _write_onnx(tmp_path / "m.onnx")
    _write_tflite(tmp_path / "m.tflite")
    onnx, tflite = (tmp_path / "m.onnx").read_bytes(), (tmp_path / "m.tflite").read_bytes()
    noise = np.random.default_rng(0).bytes(3000)
    for name, content in {
        "cut.onnx": onnx[: len(onnx) // 2],
        "random.onnx": noise,
        "empty.onnx": b"",
        "cut.tflite": tflite[: len(tflite) // 2],
        "short.tflite": tflite[:12],
        "random.tflite": noise,
        "marked.tflite": noise[:4] + b"TFL3" + noise[8:],
        "empty.tflite": b"",
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ModelError) as caught:
            snapshot(f"{tmp_path}/{name}", tmp_path / "run")
        assert "\n" not in str(caught.value)


def test_external_data_by_a_way_out_of_the_folder_and_back_is_refused(tmp_path: Path) -> None:
    _write_onnx(tmp_path / "m.onnx", external="w.bin")
    import onnx

    model = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    model.graph.initializer[0].external_data[0].value = "a/../w.bin"
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"outside the model's folder: a/\.\./w\.bin"):
        snapshot(f"{tmp_path}/m.onnx", tmp_path / "run")


def _write_gather(path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2, 3])],
        [numpy_helper.from_array(_WEIGHT, "table")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.parametrize("bad", [77, -5])
def test_an_id_outside_of_the_vocabulary_names_its_sample(tmp_path: Path, bad: int) -> None:
    _write_gather(tmp_path / "m.onnx")
    baseline = snapshot(f"{tmp_path}/m.onnx", tmp_path / "run")
    ids = np.zeros((70, 2), np.int64)
    ids[41, 1] = bad
    predictor = open_predictor(baseline, tmp_path / "run")
    with pytest.raises(ModelError, match=f"m fails on evaluation sample 41: .*idx={bad}.*an id outside"):
        predict_all(predictor, baseline, {"ids": ids})
    with pytest.raises(ModelError, match=r"m fails on evaluation sample row-41\.txt: "):
        predict_all(predictor, baseline, {"ids": ids}, [f"row-{index}.txt" for index in range(70)])


def test_a_batch_that_is_only_said_to_be_open_is_told(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(np.array([1, 4]), "shape")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    baseline = snapshot(f"{tmp_path}/m.onnx", tmp_path / "run")
    x = np.ones((40, 2, 2), np.float32)
    with pytest.raises(ModelError, match=r"runs on one sample but not on 32 together.*export it with a batch of 1"):
        predict_all(open_predictor(baseline, tmp_path / "run"), baseline, {"x": x})


def test_a_file_with_quantized_inputs_is_no_model_to_convert(tmp_path: Path) -> None:
    source = Path(__file__).parent.parent / "files" / "tiny-int8.tflite"
    with pytest.raises(ModelError, match=r"is quantized already \(input '.*' is int8\).*edgebench measure FILE"):
        snapshot(str(source), tmp_path / "run")
