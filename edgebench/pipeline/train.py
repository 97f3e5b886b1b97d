"""Training as a stage: read the data and train in a child process, which tells how far it is."""

from __future__ import annotations

from pathlib import Path

from edgebench import data, models
from edgebench.isolation import Worker, tell
from edgebench.matrix import ModelSource
from edgebench.models import Progress, TrainOptions, TrainResult
from edgebench.pipeline.progress import Reporter
from edgebench.types import Preprocess

_TIMEOUT_S = 30 * 24 * 3600.0


def train(
    model: ModelSource,
    source: str,
    preprocess: Preprocess | None,
    options: TrainOptions,
    out: Path,
    reporter: Reporter,
) -> TrainResult:
    """The best checkpoint of `model` trained on DATA `source`, in the folder `out`; the same call resumes.

    Raises:
        InputError, MissingError: the model, the data or an option is wrong, or `out` holds another training.
    """
    models.describe(model.source, weights=model.weights, trust=model.trust)
    reporter.phase(f"Training {model.source} on {source}", options.epochs)
    with Worker(out / "training.log", on_told=_Epochs(reporter)) as worker:
        return worker.call(
            f"training {model.source}", _TIMEOUT_S, load_and_train, model, source, preprocess, options, out
        ).value


def load_and_train(
    model: ModelSource, source: str, preprocess: Preprocess | None, options: TrainOptions, out: Path
) -> TrainResult:
    """What the child does: a user's data and a user's model may both be code."""
    info = models.describe(model.source, weights=model.weights, trust=model.trust)
    training_data = data.load_training(
        source, preprocess=preprocess or info.preprocess, layout=info.layout, seed=options.seed
    )
    return models.train(model.source, training_data, options, out, tell, weights=model.weights, trust=model.trust)


class _Epochs:
    """Shows a training's progress: a step an epoch, a detail now and then within one."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._done = 0

    def __call__(self, progress: Progress) -> None:
        for _ in range(self._done, progress.epoch - 1):  # epochs of an earlier run, which this one goes on from
            self._reporter.step("")
        self._done = max(self._done, progress.epoch - 1)
        if progress.metric is None:
            self._reporter.detail(f"batch {progress.batch}/{progress.batches}, loss {progress.loss:.4g}")
            return
        self._done = progress.epoch
        metric = f"validation {progress.metric_name.replace('_', ' ')} {progress.metric:.4g}"
        self._reporter.step(f"epoch {progress.epoch} of {progress.epochs}: loss {progress.loss:.4g}, {metric}")
