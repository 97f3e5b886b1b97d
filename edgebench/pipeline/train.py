"""Training as a stage: read the data and train in a child process, its progress told from the log that it writes."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from edgebench import data, models
from edgebench.isolation import Worker
from edgebench.matrix import ModelSource
from edgebench.models import Progress, TrainOptions, TrainResult
from edgebench.pipeline.progress import Reporter
from edgebench.types import Preprocess

_TIMEOUT_S = 30 * 24 * 3600.0
_LOOK_EVERY_S = 0.5


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
    done = threading.Event()
    watcher = threading.Thread(target=_tell, args=(out / "progress.jsonl", reporter, done), daemon=True)
    with Worker(out / "training.log") as worker:
        watcher.start()
        try:
            return worker.call(
                f"training {model.source}", _TIMEOUT_S, load_and_train, model, source, preprocess, options, out
            ).value
        finally:
            done.set()
            watcher.join()


def load_and_train(
    model: ModelSource, source: str, preprocess: Preprocess | None, options: TrainOptions, out: Path
) -> TrainResult:
    """What the child does: a user's data and a user's model may both be code."""
    info = models.describe(model.source, weights=model.weights, trust=model.trust)
    training_data = data.load_training(
        source, preprocess=preprocess or info.preprocess, layout=info.layout, seed=options.seed
    )
    return models.train(model.source, training_data, options, out, _ignore, weights=model.weights, trust=model.trust)


def _ignore(progress: Progress) -> None:
    """The parent reads the progress file instead."""


def _tell(log: Path, reporter: Reporter, done: threading.Event) -> None:
    """Tell each new line of the progress file until training is done."""
    read = log.stat().st_size if log.exists() else 0
    is_last_look = False
    while not is_last_look:
        is_last_look = done.wait(_LOOK_EVERY_S)
        if not log.exists():
            continue
        with log.open("rb") as stream:
            stream.seek(read)
            for line in stream:
                if line.endswith(b"\n"):
                    read += len(line)
                    _tell_one(json.loads(line), reporter)


def _tell_one(seen: dict[str, object], reporter: Reporter) -> None:
    text = f"epoch {seen['epoch']}, batch {seen['batch']}/{seen['batches']}, loss {seen['loss']:.4g}"
    metric = seen.get("metric")
    if metric is None:
        reporter.detail(text)
    else:
        reporter.step(f"{text}, validation {seen.get('metric_name', 'metric')} {metric:.4g}")
