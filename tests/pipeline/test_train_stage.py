"""Training as a stage: what is told on the way, in a real child process, and what a resumed one adds to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgebench.errors import ModelError
from edgebench.matrix import ModelSource
from edgebench.models import TrainOptions
from edgebench.pipeline.train import train

_NET = """
import torch


def line():
    return torch.nn.Linear(6, 1)
"""


class Told:
    """A reporter that remembers."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, int | None]] = []
        self.steps: list[str] = []
        self.details: list[str] = []

    def phase(self, text: str, steps: int | None) -> None:
        self.phases.append((text, steps))

    def step(self, text: str) -> None:
        self.steps.append(text)

    def detail(self, text: str) -> None:
        self.details.append(text)


@pytest.fixture
def net(tmp_path: Path) -> ModelSource:
    (tmp_path / "net.py").write_text(_NET)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 6)).astype("float32")
    np.savez(tmp_path / "data.npz", **{"x": x, "target:y": x @ np.arange(6) + 1, "target:none": np.arange(200)})
    np.savez(tmp_path / "wide.npz", **{"x": x, "target:y": x[:, :2]})
    return ModelSource(source=f"{tmp_path}/net.py:line")


def test_a_regression_tells_each_epoch_and_a_resumed_one_counts_those_before(net: ModelSource, tmp_path: Path) -> None:
    def run(epochs: int) -> Told:
        options = TrainOptions(epochs=epochs, batch_size=4, learning_rate=0.05, device="cpu")
        told = Told()
        result = train(net, f"{tmp_path}/data.npz", None, options, tmp_path / "out", told)
        assert (result.metric_name, result.last_epoch) == ("mean_squared_error", epochs)
        return told

    first = run(2)
    assert [steps for _, steps in first.phases] == [2]
    assert [line.split(":")[0] for line in first.steps] == ["epoch 1 of 2", "epoch 2 of 2"]
    assert "validation mean squared error" in first.steps[0]
    assert first.details[0].startswith("batch 20/45, loss ")
    resumed = run(3)
    assert resumed.steps[:2] == ["", ""]
    assert [line.split(":")[0] for line in resumed.steps[2:]] == ["epoch 3 of 3"]


def test_a_target_of_another_size_than_the_output_is_told(net: ModelSource, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the model gives 1 numbers a sample, the target has 2"):
        train(net, f"{tmp_path}/wide.npz", None, TrainOptions(epochs=1), tmp_path / "out", Told())
