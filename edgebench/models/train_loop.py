"""Train a baseline: the loop that both frameworks share; it goes on where it was killed.

Epoch `e` shuffles by (seed, e) alone, so that a run that was interrupted goes on as if it never was.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from edgebench.atomic import replacing
from edgebench.errors import ConfigError, StageError
from edgebench.models import live
from edgebench.models import source as sources
from edgebench.models.contents import hash_files
from edgebench.models.event_log import EventLog
from edgebench.models.source import Source
from edgebench.models.training import EpochResult, Progress, TrainOptions, TrainResult, is_regression
from edgebench.types import Framework

if TYPE_CHECKING:
    from edgebench.data.training import TrainingData

PROGRESS_FILE = "progress.jsonl"
CHECKPOINT_FILE = "checkpoint.npz"
_BATCHES_PER_PROGRESS = 20


class Trainer(Protocol):
    """One framework's part of the loop. `rows` are indices of the training samples."""

    device: str
    precision: str

    def begin_epoch(self, epoch: int) -> None:
        """Seed everything random that a step uses (dropout), from the seed and the epoch."""

    def step(self, rows: np.ndarray[Any, Any]) -> Any:
        """Learn from a batch; the result becomes its mean loss by float()."""

    def validate(self) -> tuple[float, float]:
        """Mean loss and metric over the validation samples, in inference mode."""

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Everything that the next step depends on: weights, buffers and the optimizer."""

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Take a state of `state` back."""

    def save_best(self, out: Path) -> None:
        """Write the present weights as the best ones, atomically."""

    def finish(self, out: Path) -> tuple[Path, Path | None]:
        """Write what needs writing once, from the best weights; `best_path` and `weights_path` of the result."""


def train(
    source: str,
    data: TrainingData,
    options: TrainOptions,
    out: Path,
    on_progress: Callable[[Progress], None],
    *,
    weights: Path | None = None,
    trust: bool = False,
) -> TrainResult:
    """Train the model of `source` and keep the best epoch's weights; the same call goes on after an interruption.

    Float labels train a regression (mean squared error), integer labels a classifier (cross-entropy, of logits or of
    probabilities, whichever the model gives). `out` gets `best.keras`, or `best.pt` and `best.pt2`; `checkpoint.npz`
    after each epoch; `progress.jsonl`; and `tensorboard/`.

    Raises:
        ModelError: the model can't be loaded or trained, or does not fit the data.
        ConfigError: `out` holds another training, or the device asked for is absent.
        MissingError: an extra is not installed.
        StageError: the loss is no number any more.
    """
    parsed = sources.parse(source)
    sources.check_weights(parsed, weights)
    out.mkdir(parents=True, exist_ok=True)
    loaded = live.load(parsed, weights, trust=trust, to_train=True)
    trainer: Trainer
    if loaded.framework is Framework.TORCH:
        from edgebench.models.train_torch import TorchTrainer

        trainer = TorchTrainer(loaded.model, data, options)
    else:
        from edgebench.models.train_keras import KerasTrainer

        trainer = KerasTrainer(loaded.model, data, options)
    return _run(trainer, data, options, out, on_progress, question=_question(parsed, weights, options, data))


def _run(
    trainer: Trainer,
    data: TrainingData,
    options: TrainOptions,
    out: Path,
    on_progress: Callable[[Progress], None],
    *,
    question: str,
) -> TrainResult:
    regression = is_regression(data.labels)
    metric_name = "mean_squared_error" if regression else "accuracy"
    history = _resume(trainer, out, question)
    resumed_from = len(history)
    tell = _Progress(out, resumed_from, on_progress)
    with EventLog(out / "tensorboard", purge_after=resumed_from) as board:
        for epoch in range(resumed_from + 1, options.epochs + 1):
            started = time.monotonic()
            trainer.begin_epoch(epoch)
            batches = list(_batches(len(data.labels), options, epoch))
            losses: list[Any] = []
            for number, rows in enumerate(batches, start=1):
                losses.append(trainer.step(rows))
                if number % _BATCHES_PER_PROGRESS == 0 and number < len(batches):
                    loss = _mean_loss(losses, batches, epoch)
                    tell(_progress(options, epoch, number, len(batches), loss, None, metric_name))
            loss = _mean_loss(losses, batches, epoch)
            validation_loss, metric = trainer.validate()
            history.append(
                EpochResult(
                    epoch=epoch,
                    loss=loss,
                    validation_loss=validation_loss,
                    metric=metric,
                    seconds=time.monotonic() - started,
                )
            )
            if _best(history, regression).epoch == epoch:
                trainer.save_best(out)
            _save_checkpoint(trainer, out, question, history)
            for name, value in (("loss", loss), ("validation_loss", validation_loss), (metric_name, metric)):
                board.add_scalar(name, value, epoch)
            tell(_progress(options, epoch, len(batches), len(batches), loss, metric, metric_name))
    best = _best(history, regression)
    best_path, weights_path = trainer.finish(out)
    return TrainResult(
        best_path=best_path,
        weights_path=weights_path,
        last_epoch=history[-1].epoch,
        best_epoch=best.epoch,
        best_metric=best.metric,
        metric_name=metric_name,
        device=trainer.device,
        precision=trainer.precision,
        resumed_from=resumed_from,
        history=tuple(history),
    )


def _batches(n: int, options: TrainOptions, epoch: int) -> Iterator[np.ndarray[Any, Any]]:
    """Indices of each batch, shuffled by (seed, epoch). A last batch of one sample is left out, for BatchNorm."""
    order = np.random.default_rng((options.seed, epoch)).permutation(n)
    for start in range(0, n, options.batch_size):
        rows = order[start : start + options.batch_size]
        if len(rows) > 1 or start == 0:
            yield rows


def _mean_loss(losses: list[Any], batches: list[np.ndarray[Any, Any]], epoch: int) -> float:
    """The mean over samples; reading the losses waits for a GPU, which is why it is done now and then only."""
    losses[:] = [float(loss) for loss in losses]
    sizes = [len(rows) for rows in batches[: len(losses)]]
    mean = float(np.average(losses, weights=sizes))
    if not math.isfinite(mean):
        raise StageError(f"training diverged: the loss is {mean} in epoch {epoch}; try a lower --learning-rate")
    return mean


def _best(history: list[EpochResult], regression: bool) -> EpochResult:
    """The epoch with the best validation metric; of equal ones the lower validation loss, then the earlier."""
    return min(history, key=lambda each: (each.metric if regression else -each.metric, each.validation_loss))


def _progress(
    options: TrainOptions, epoch: int, batch: int, batches: int, loss: float, metric: float | None, name: str
) -> Progress:
    return Progress(
        epoch=epoch,
        epochs=options.epochs,
        batch=batch,
        batches=batches,
        loss=loss,
        metric=metric,
        metric_name=name,
    )


class _Progress:
    """Writes each step of progress as a JSON line and hands it on; lines of an epoch that is done again are dropped."""

    def __init__(self, out: Path, resumed_from: int, on_progress: Callable[[Progress], None]) -> None:
        self._path = out / PROGRESS_FILE
        self._on_progress = on_progress
        lines = self._path.read_text().splitlines(keepends=True) if self._path.exists() else []
        self._path.write_text("".join(line for line in lines if _epoch_of(line) <= resumed_from))

    def __call__(self, progress: Progress) -> None:
        with self._path.open("a") as stream:
            stream.write(json.dumps(asdict(progress)) + "\n")
        self._on_progress(progress)


def _epoch_of(line: str) -> float:
    """The epoch of a progress line; infinite for one that a kill cut short."""
    try:
        return int(json.loads(line)["epoch"]) if line.endswith("\n") else math.inf
    except (ValueError, KeyError, TypeError):
        return math.inf


def _question(source: Source, weights: Path | None, options: TrainOptions, data: TrainingData) -> str:
    """A hash of all that the result depends on, but for the number of epochs: more of them continue a training."""
    digest = hashlib.sha256()
    asked = {key: value for key, value in asdict(options).items() if key != "epochs"}
    files = [hash_files([path]) if path and path.is_file() else str(path) for path in (source.path, weights)]
    digest.update(json.dumps([source.text, files, asked], sort_keys=True).encode())
    for part in (data.inputs, data.validation_inputs):
        for name, array in part.items():
            digest.update(f"{name}{array.shape}{array.dtype}".encode())
            digest.update(np.ascontiguousarray(array).data)
    digest.update(np.ascontiguousarray(data.labels).data)
    digest.update(np.ascontiguousarray(data.validation_labels).data)
    return digest.hexdigest()


def _save_checkpoint(trainer: Trainer, out: Path, question: str, history: list[EpochResult]) -> None:
    about = json.dumps({"question": question, "history": [asdict(each) for each in history]})
    with replacing(out / CHECKPOINT_FILE) as temporary, temporary.open("wb") as stream:
        np.savez(stream, about=np.array(about), **trainer.state())


def _resume(trainer: Trainer, out: Path, question: str) -> list[EpochResult]:
    """The epochs that are done, with the trainer put back to the end of the last one."""
    path = out / CHECKPOINT_FILE
    if not path.exists():
        return []
    with np.load(path, allow_pickle=False) as stored:
        about = json.loads(str(stored["about"]))
        if about["question"] != question:
            raise ConfigError(
                f"{out} holds a training of another model, data or options; name another --out, or delete {path}"
            )
        trainer.restore({name: stored[name] for name in stored.files if name != "about"})
    return [EpochResult(**each) for each in about["history"]]
