from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_onnx

from edgebench.converters import inspect_onnx, onnx_torch
from edgebench.errors import ModelError, RefusedError, StageError
from edgebench.types import Baseline, Framework, Precision, TensorSpec

RNG = np.random.default_rng(0)
FEED = {
    "image": RNG.standard_normal((4, 3, 8, 6), dtype=np.float32),
    "ids": RNG.integers(0, 10, (4, 7)),
    "extra": RNG.standard_normal((4, 5), dtype=np.float32),
}
BASELINE = Baseline(
    name="net",
    framework=Framework.TORCH,
    source="net.py:net",
    path="open.pt2",
    sha256="0",
    inputs=(
        TensorSpec(name="image", shape=(None, 3, 8, 6), dtype="float32", layout="NCHW"),
        TensorSpec(name="ids", shape=(None, 7), dtype="int64"),
        TensorSpec(name="extra", shape=(None, 5), dtype="float32"),
    ),
    outputs=(
        TensorSpec(name="scores", shape=(None, 5), dtype="float32"),
        TensorSpec(name="map", shape=(None, 4, 8, 6), dtype="float32", layout="NCHW"),
    ),
    parameters=1,
)
FIXED = replace(
    BASELINE, path="fixed.pt2", inputs=tuple(replace(spec, shape=(2, *spec.shape[1:])) for spec in BASELINE.inputs)
)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A net with an image, ids through an LSTM, and a vector by keyword; open.pt2's batch is open, fixed.pt2's 2."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
            self.norm = torch.nn.BatchNorm2d(4)
            self.embed = torch.nn.Embedding(10, 4)
            self.lstm = torch.nn.LSTM(4, 3, batch_first=True)
            self.head = torch.nn.Linear(4, 5)
            self.tail = torch.nn.Linear(3, 5)

        def forward(self, image: torch.Tensor, ids: torch.Tensor, *, extra: torch.Tensor) -> dict[str, torch.Tensor]:
            features = torch.relu(self.norm(self.conv(image)))
            states, _ = self.lstm(self.embed(ids))
            return {"map": features, "scores": self.head(features.mean((2, 3))) + self.tail(states[:, -1]) + extra}

    torch.manual_seed(0)
    net = Net().eval()
    folder = tmp_path_factory.mktemp("torch")
    dims = {"open.pt2": torch.export.Dim("batch", min=1, max=64), "fixed.pt2": None}
    for name, dim in dims.items():
        tensors = {key: torch.from_numpy(array[:2]) for key, array in FEED.items()}
        program = torch.export.export(
            net,
            (tensors["image"], tensors["ids"]),
            {"extra": tensors["extra"]},
            dynamic_shapes=None if dim is None else {key: {0: dim} for key in FEED},
        )
        torch.export.save(program, folder / name)
    return folder


@pytest.mark.parametrize("batch", [None, 1, 4])
def test_names_numbers_and_the_batch_are_as_asked(batch: int | None, run_folder: Path, tmp_path: Path) -> None:
    exported = onnx_torch.export(BASELINE, run_folder, tmp_path / "net.onnx", batch)
    assert [(b.baseline, b.tensor.name, b.tensor.shape, b.tensor.dtype) for b in exported.inputs] == [
        ("image", "image", (batch, 3, 8, 6), "float32"),
        ("ids", "ids", (batch, 7), "int64"),
        ("extra", "extra", (batch, 5), "float32"),
    ]
    assert [(b.baseline, b.tensor.shape) for b in exported.outputs] == [
        ("map", (batch, 4, 8, 6)),
        ("scores", (batch, 5)),
    ]
    assert exported.inputs[0].tensor.layout == "NCHW"
    feed = {name: array[: batch or 3] for name, array in FEED.items()}
    found = small_onnx.run(exported.path, **feed)
    for binding, array in zip(exported.outputs, found, strict=True):
        np.testing.assert_allclose(array, _wanted(run_folder, feed)[binding.baseline], atol=1e-5)
    assert inspect_onnx.read(exported.path).census.precision is Precision.FP32
    assert (exported.route, set(exported.tool_versions)) == ("torch.onnx", {"onnx", "onnxscript", "torch"})


def test_the_file_is_one_and_says_nothing_of_this_machine(run_folder: Path, tmp_path: Path) -> None:
    exported = onnx_torch.export(BASELINE, run_folder, tmp_path / "net.onnx", 1)
    assert [file.name for file in tmp_path.iterdir()] == ["net.onnx"]
    content = exported.path.read_bytes()
    assert b"site-packages" not in content
    assert str(Path(__file__).parent).encode() not in content


def test_a_snapshot_of_fixed_batch_gives_that_batch_and_refuses_others(run_folder: Path, tmp_path: Path) -> None:
    exported = onnx_torch.export(FIXED, run_folder, tmp_path / "net.onnx", 2)
    assert inspect_onnx.read(exported.path).batch == 2
    for batch, wanted in ((3, "batch 3"), (None, "an open batch")):
        with pytest.raises(RefusedError, match=f"'net' has a fixed batch of 2; {wanted} can't be made"):
            onnx_torch.export(FIXED, run_folder, tmp_path / "net.onnx", batch)


def test_an_open_batch_that_does_not_hold_is_not_believed(run_folder: Path, tmp_path: Path) -> None:
    """The baseline says that its batch is open; its snapshot was made at batch 2."""
    with pytest.raises(StageError, match=r"the open batch does not hold: the file fails at batch 1 .*; give --batch 1"):
        onnx_torch.export(replace(BASELINE, path="fixed.pt2"), run_folder, tmp_path / "net.onnx", None)


@pytest.mark.parametrize("content", [b"", b"not a zip file"])
def test_a_damaged_snapshot_is_told_in_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "open.pt2").write_bytes(content)
    with pytest.raises(ModelError, match=r"open\.pt2 can't be loaded: [^\n]*$"):
        onnx_torch.export(BASELINE, tmp_path, tmp_path / "net.onnx", 1)


def test_a_baseline_with_other_tensors_than_its_snapshot_is_told(run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"takes 3 inputs .*, the baseline has 2"):
        onnx_torch.export(replace(BASELINE, inputs=BASELINE.inputs[:2]), run_folder, tmp_path / "net.onnx", 1)
    with pytest.raises(StageError, match="gives 2 outputs, the baseline has 1"):
        onnx_torch.export(replace(BASELINE, outputs=BASELINE.outputs[:1]), run_folder, tmp_path / "net.onnx", 1)


def _wanted(run_folder: Path, feed: dict[str, Any]) -> dict[str, Any]:
    import torch

    module = torch.export.load(run_folder / "open.pt2").module()
    tensors = {name: torch.from_numpy(array) for name, array in feed.items()}
    with torch.no_grad():
        outputs = module(tensors["image"], tensors["ids"], extra=tensors["extra"])
    return {name: tensor.numpy() for name, tensor in outputs.items()}
