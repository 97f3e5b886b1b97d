from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgebench.converters import inspect_tflite, quantize_tflite, tflite_torch
from edgebench.errors import ModelError, RefusedError
from edgebench.types import Baseline, Calibration, Format, Framework, Precision, Recipe, Scheme, TensorSpec

RNG = np.random.default_rng(0)
FEED = {
    "image": RNG.standard_normal((2, 3, 8, 6), dtype=np.float32),
    "ids": RNG.integers(0, 10, (2, 7)),
    "extra": RNG.standard_normal((2, 5), dtype=np.float32),
}


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A net with an image, ids through an LSTM, and a vector; its outputs are a feature map and scores."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
            self.embed = torch.nn.Embedding(10, 4)
            self.lstm = torch.nn.LSTM(4, 3, batch_first=True)
            self.head = torch.nn.Linear(4, 5)
            self.tail = torch.nn.Linear(3, 5)

        def forward(self, image: torch.Tensor, ids: torch.Tensor, *, extra: torch.Tensor) -> dict[str, torch.Tensor]:
            features = torch.relu(self.conv(image))
            states, _ = self.lstm(self.embed(ids))
            return {"map": features, "scores": self.head(features.mean((2, 3))) + self.tail(states[:, -1]) + extra}

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("torch")
    batch = torch.export.Dim("batch", min=1, max=64)
    tensors = {name: torch.from_numpy(array) for name, array in FEED.items()}
    program = torch.export.export(
        Net().eval(),
        (tensors["image"], tensors["ids"]),
        {"extra": tensors["extra"]},
        dynamic_shapes={name: {0: batch} for name in FEED},
    )
    torch.export.save(program, folder / "model.pt2")
    return folder


BASELINE = Baseline(
    name="net",
    framework=Framework.TORCH,
    source="net.py:net",
    path="model.pt2",
    sha256="0",
    inputs=(
        TensorSpec(name="image", shape=(None, 3, 8, 6), dtype="float32", layout="NCHW"),
        TensorSpec(name="ids", shape=(None, 7), dtype="int64"),
        TensorSpec(name="extra", shape=(None, 5), dtype="float32"),
    ),
    outputs=(
        TensorSpec(name="map", shape=(None, 4, 8, 6), dtype="float32", layout="NCHW"),
        TensorSpec(name="scores", shape=(None, 5), dtype="float32"),
    ),
    parameters=1,
)


def test_images_become_channels_last_and_every_tensor_keeps_its_name(run_folder: Path, tmp_path: Path) -> None:
    exported = tflite_torch.export(BASELINE, run_folder, tmp_path / "net.tflite", batch=2)
    assert [(b.baseline, b.tensor.shape, b.tensor.dtype, b.permutation) for b in exported.inputs] == [
        ("image", (2, 8, 6, 3), "float32", (0, 2, 3, 1)),
        ("ids", (2, 7), "int32", None),
        ("extra", (2, 5), "float32", None),
    ]
    assert [(b.baseline, b.tensor.shape, b.permutation) for b in exported.outputs] == [
        ("map", (2, 8, 6, 4), (0, 2, 3, 1)),
        ("scores", (2, 5), None),
    ]
    wanted, found = _wanted(run_folder), _run(exported.path, exported)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, atol=1e-5)
    assert set(exported.tool_versions) == {"litert-torch", "torch"}


def test_an_open_batch_runs_at_any_size(run_folder: Path, tmp_path: Path) -> None:
    exported = tflite_torch.export(_without_lstm(run_folder), run_folder, tmp_path / "open.tflite", batch=None)
    assert exported.inputs[0].tensor.shape == (None, 8, 6, 3)
    assert inspect_tflite.read(exported.path).batch is None
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(str(exported.path)).get_signature_runner()
    alone = np.concatenate([runner(input=FEED["image"][i : i + 1].transpose(0, 2, 3, 1))["output"] for i in (0, 1, 0)])
    together = runner(input=np.ascontiguousarray(FEED["image"][[0, 1, 0]].transpose(0, 2, 3, 1)))["output"]
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_a_net_with_ids_and_an_lstm_quantizes_to_int8_and_keeps_its_ids(run_folder: Path, tmp_path: Path) -> None:
    exported = tflite_torch.export(BASELINE, run_folder, tmp_path / "net.tflite", batch=1)
    rng = np.random.default_rng(1)
    samples = {
        "image": rng.standard_normal((20, 8, 6, 3), dtype=np.float32),
        "ids": rng.integers(0, 10, (20, 7)),
        "extra": rng.standard_normal((20, 5), dtype=np.float32),
    }
    recipe = Recipe(name="r", format=Format.TFLITE, scheme=Scheme.INT8, calibration=Calibration())
    out = tmp_path / "int8.tflite"
    quantize_tflite.quantize(exported, recipe, samples, out)
    facts = inspect_tflite.read(out)
    assert facts.census.precision in (Precision.FULL_INT8, Precision.MIXED)
    assert {spec.name: spec.dtype for spec in facts.inputs} == {"image": "float32", "ids": "int32", "extra": "float32"}
    found, wanted = _run(out, exported, rows=1), _wanted(run_folder)
    error = found["scores"] - wanted["scores"][:1]
    assert 10 * np.log10((wanted["scores"][:1] ** 2).sum() / (error**2).sum()) > 20


def test_a_baseline_that_names_other_tensors_than_its_snapshot_is_told(run_folder: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    wrong = replace(BASELINE, inputs=(replace(BASELINE.inputs[0], name="picture"), *BASELINE.inputs[1:]))
    with pytest.raises(ModelError, match="takes image, ids, extra where the baseline says picture, ids, extra"):
        tflite_torch.export(wrong, run_folder, tmp_path / "net.tflite", batch=1)


def test_a_damaged_snapshot_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "model.pt2").write_bytes(b"not a zip file")
    with pytest.raises(ModelError, match=r"model\.pt2 can't be loaded: [^\n]*$"):
        tflite_torch.export(BASELINE, tmp_path, tmp_path / "net.tflite", batch=1)


def test_a_snapshot_of_fixed_batch_refuses_another(run_folder: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    fixed = replace(BASELINE, inputs=tuple(replace(s, shape=(2, *s.shape[1:])) for s in BASELINE.inputs))
    for batch in (1, None):
        with pytest.raises(RefusedError, match="batch is fixed at 2"):
            tflite_torch.export(fixed, run_folder, tmp_path / "net.tflite", batch=batch)


def _without_lstm(run_folder: Path) -> Baseline:
    """A second snapshot beside the first: an LSTM's initial state has the batch's size, which must be known."""
    from dataclasses import replace

    import torch

    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU()).eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    image = torch.from_numpy(FEED["image"])
    torch.export.save(torch.export.export(net, (image,), dynamic_shapes=({0: batch},)), run_folder / "conv.pt2")
    return replace(
        BASELINE,
        path="conv.pt2",
        inputs=(replace(BASELINE.inputs[0], name="input"),),
        outputs=(replace(BASELINE.outputs[0], name="output"),),
    )


def _wanted(run_folder: Path) -> dict[str, Any]:
    import torch

    module = torch.export.load(run_folder / "model.pt2").module()
    tensors = {name: torch.from_numpy(array) for name, array in FEED.items()}
    with torch.no_grad():
        outputs = module(tensors["image"], tensors["ids"], extra=tensors["extra"])
    return {name: tensor.numpy() for name, tensor in outputs.items()}


def _run(path: Path, exported: Any, rows: int = 2) -> dict[str, Any]:
    """The outputs by baseline name and in its axis order."""
    from ai_edge_litert.interpreter import Interpreter

    feed = {}
    for binding in exported.inputs:
        array = FEED[binding.baseline][:rows]
        array = array.transpose(binding.permutation) if binding.permutation else array
        feed[binding.tensor.name] = np.ascontiguousarray(array, dtype=binding.tensor.dtype)
    raw = Interpreter(str(path)).get_signature_runner()(**feed)
    return {
        b.baseline: raw[b.tensor.name].transpose(np.argsort(b.permutation)) if b.permutation else raw[b.tensor.name]
        for b in exported.outputs
    }
