"""What goes into a training and comes out of it, and whether a model fits the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from edgebench.errors import ModelError

if TYPE_CHECKING:
    from edgebench.data.training import TrainingData


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """How to train. AdamW at a constant `learning_rate`.

    `mixed_precision` None takes it where it is usual (torch on CUDA); True also on a CPU, in bfloat16.
    `deterministic` asks the framework for repeatable kernels: the same seed then gives the same bits on one machine.
    """

    epochs: int = 10
    batch_size: int = 32
    learning_rate: float = 1e-3
    seed: int = 0
    deterministic: bool = False
    mixed_precision: bool | None = None
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1:
            raise ValueError(f"epochs {self.epochs} and batch size {self.batch_size}: each must be at least 1")
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(f"learning rate {self.learning_rate}: it must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where training is: after `batch` of `batches` in `epoch` of `epochs`, all counted from 1.

    `loss` is the mean over this epoch so far. `metric` is the validation's, at the end of an epoch only.
    """

    epoch: int
    epochs: int
    batch: int
    batches: int
    loss: float
    metric: float | None = None
    metric_name: str = "accuracy"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochResult:
    """`metric` is top-1 accuracy (higher is better) or the mean squared error (lower is) on the validation part."""

    epoch: int
    loss: float
    validation_loss: float
    metric: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """`best_path` loads again as MODEL; `weights_path` as `--weights` of the same source (torch), else None.

    `precision` is what was used: float32, or bfloat16 or float16 autocast. `resumed_from` is the epoch that a resumed
    training went on from, 0 for a fresh one.
    """

    best_path: Path
    weights_path: Path | None
    last_epoch: int
    best_epoch: int
    best_metric: float
    metric_name: str
    device: str
    precision: str
    resumed_from: int
    history: tuple[EpochResult, ...]


def epoch_seed(seed: int, epoch: int) -> int:
    """A 32-bit seed for one epoch, unlike those of neighbouring seeds and epochs."""
    return int(np.random.SeedSequence((seed, epoch)).generate_state(1)[0])


def is_regression(labels: np.ndarray[Any, Any]) -> bool:
    """Whether labels are numbers to hit rather than classes."""
    return bool(np.issubdtype(labels.dtype, np.floating))


def gives_probabilities(output: np.ndarray[Any, Any], data: TrainingData) -> bool:
    """Whether the model's `output` for a few samples is class probabilities, rather than logits or numbers to hit.

    Raises:
        ModelError: the output does not fit the labels of the data.
    """
    if is_regression(data.labels):
        wanted = np.asarray(data.labels[0]).size
        if output[0].size != wanted:
            raise ModelError(f"the model gives {output[0].size} numbers a sample, the target has {wanted}")
        return False
    _check_classes(output.shape, data)
    return _are_probabilities(output)


def _check_classes(outputs: tuple[int, ...], data: TrainingData) -> None:
    """Raise ModelError unless the model's output shape (n, classes) has a place for each class of the data."""
    if len(outputs) != 2:
        raise ModelError(f"a classifier's output must be (batch, classes); this model's is {outputs}")
    needed = int(max(data.labels.max(initial=0), data.validation_labels.max(initial=0))) + 1
    if outputs[1] < needed:
        raise ModelError(f"the model tells {outputs[1]} classes apart, the data has {needed}; build it with {needed}")


def _are_probabilities(outputs: np.ndarray[Any, Any]) -> bool:
    """Whether rows (n, classes) are what a softmax gives: none below 0, each row's sum 1."""
    return bool((outputs >= 0).all() and np.allclose(outputs.sum(axis=1), 1, atol=1e-3))
