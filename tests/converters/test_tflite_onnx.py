from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgebench import environments
from edgebench.converters import tflite_onnx
from edgebench.errors import MissingError, ModelError, RefusedError
from edgebench.types import Baseline, Framework, TensorSpec

FILES = Path(__file__).parents[1] / "files"
TINY = Baseline(
    name="tiny",
    framework=Framework.ONNX,
    source="tiny.onnx",
    path="tiny.onnx",
    sha256="0",
    inputs=(TensorSpec(name="image", shape=(None, 3, 8, 8), dtype="float32", layout="NCHW"),),
    outputs=(TensorSpec(name="scores", shape=(None, 3), dtype="float32"),),
    parameters=1,
)


def test_without_the_side_environment_the_command_that_makes_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEBENCH_HOME", str(tmp_path))
    with pytest.raises(MissingError, match="edgebench env make onnx2tf"):
        tflite_onnx.export(TINY, FILES, tmp_path / "out.tflite", 1)


def test_an_open_batch_or_image_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="name a batch"):
        tflite_onnx.export(TINY, FILES, tmp_path / "out.tflite", None)
    open_size = replace(TINY, inputs=(replace(TINY.inputs[0], shape=(None, 3, None, 8)),))
    with pytest.raises(RefusedError, match="'image' has open axes beside the batch"):
        tflite_onnx.export(open_size, FILES, tmp_path / "out.tflite", 1)


def test_shapes_that_no_order_of_axes_explains_are_refused() -> None:
    spec = TensorSpec(name="image", shape=(None, 3, 8, 6), dtype="float32")
    orders = {
        (1, 3, 8, 6): [None],
        (1, 8, 6, 3): [(0, 2, 3, 1)],
    }
    for shape, expected in orders.items():
        assert tflite_onnx._possible_orders(spec, replace(spec, shape=shape), 1) == expected
    square = replace(spec, shape=(None, 8, 8, 8))
    assert tflite_onnx._possible_orders(square, replace(spec, shape=(1, 8, 8, 8)), 1) == [None, (0, 2, 3, 1)]
    with pytest.raises(ModelError, match="neither its own order nor channels-last"):
        tflite_onnx._possible_orders(spec, replace(spec, shape=(1, 6, 8, 3)), 1)


@pytest.mark.slow
def test_a_conv_net_keeps_its_names_and_numbers_and_never_goes_online(tmp_path: Path) -> None:
    """Needs `edgebench env make onnx2tf`. The feature map is 3 x 3 x 3: only running it tells the order of its axes."""
    try:
        environments.python_of("onnx2tf")
    except MissingError as error:
        pytest.skip(str(error))
    import onnxruntime
    from ai_edge_litert.interpreter import Interpreter
    from onnx import TensorProto, helper, numpy_helper, save

    rng = np.random.default_rng(0)
    weights = numpy_helper.from_array(rng.standard_normal((3, 3, 3, 3), dtype=np.float32), "weights")
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["image:0", "weights"], ["feature/map"]),
            helper.make_node("Add", ["extra.1", "extra.1"], ["twice"]),
        ],
        "net",
        [
            helper.make_tensor_value_info("image:0", TensorProto.FLOAT, ["batch", 3, 5, 5]),
            helper.make_tensor_value_info("extra.1", TensorProto.FLOAT, ["batch", 5]),
        ],
        [
            helper.make_tensor_value_info("feature/map", TensorProto.FLOAT, ["batch", 3, 3, 3]),
            helper.make_tensor_value_info("twice", TensorProto.FLOAT, ["batch", 5]),
        ],
        [weights],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "net.onnx")
    baseline = replace(
        TINY,
        path="net.onnx",
        inputs=(
            TensorSpec(name="image:0", shape=(None, 3, 5, 5), dtype="float32", layout="NCHW"),
            TensorSpec(name="extra.1", shape=(None, 5), dtype="float32"),
        ),
        outputs=(
            TensorSpec(name="feature/map", shape=(None, 3, 3, 3), dtype="float32"),
            TensorSpec(name="twice", shape=(None, 5), dtype="float32"),
        ),
    )
    exported = tflite_onnx.export(baseline, tmp_path, tmp_path / "net.tflite", 1)
    assert [(b.baseline, b.permutation) for b in (*exported.inputs, *exported.outputs)] == [
        ("image:0", (0, 2, 3, 1)),
        ("extra.1", None),
        ("feature/map", (0, 2, 3, 1)),
        ("twice", None),
    ]
    feed = {
        "image:0": rng.standard_normal((1, 3, 5, 5), dtype=np.float32),
        "extra.1": rng.standard_normal((1, 5), dtype=np.float32),
    }
    (wanted, _) = onnxruntime.InferenceSession(str(tmp_path / "net.onnx")).run(["feature/map", "twice"], feed)
    image, extra = exported.inputs
    found = Interpreter(str(exported.path)).get_signature_runner()(
        **{image.tensor.name: feed["image:0"].transpose(0, 2, 3, 1).copy(), extra.tensor.name: feed["extra.1"]}
    )
    np.testing.assert_allclose(found[exported.outputs[0].tensor.name].transpose(0, 3, 1, 2), wanted, atol=1e-4)
