"""train: a baseline from the user's data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from edgebench.cli import options, results
from edgebench.cli.progress import reporter
from edgebench.errors import ConfigError


def add_to(app: typer.Typer) -> None:
    app.command(
        "train",
        short_help="Train a baseline on your data.",
        epilog="Example:  edgebench train zoo:digits-cnn-torch --data digits --epochs 5",
    )(train)


def train(
    model: options.Model,
    data: Annotated[str, typer.Option("--data", help="DATA with labels; see convert+measure.")],
    epochs: Annotated[int, typer.Option(help="Passes over the data.")] = 10,
    batch_size: Annotated[int, typer.Option(help="Samples a step.")] = 32,
    learning_rate: Annotated[float, typer.Option(help="Of AdamW.")] = 1e-3,
    device: Annotated[
        Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="auto takes the fastest there is.")
    ] = "auto",
    mixed_precision: Annotated[
        bool | None,
        typer.Option("--mixed-precision/--full-precision", help="Default: mixed where it is usual (torch on CUDA)."),
    ] = None,
    deterministic: Annotated[bool, typer.Option("--deterministic", help="The same seed gives the same bits.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of order, dropout and split.")] = 0,
    weights: options.Weights = None,
    trust: options.Trust = False,
    preprocess: options.PreprocessFile = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Default: runs/train-MODEL.")] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Train a model on labelled data, with checkpoints; the same command resumes after a kill.

    zoo:digits-cnn-* start from random weights; every other MODEL from its own. A tenth of the data validates. Of
    `digits` the 500 test images stay apart; other data is learned whole, so evaluate on data that is not in it.

    Leaves the best checkpoint by the validation metric (best.keras, or best.pt2 and best.pt), a TensorBoard log and
    progress.jsonl in the folder.
    """
    from edgebench import models
    from edgebench.codec import to_plain
    from edgebench.matrix import ModelSource
    from edgebench.naming import file_name
    from edgebench.pipeline.train import train as train_stage
    from edgebench.types import Preprocess
    from edgebench.yaml_files import load

    name = models.describe(model, weights=weights, trust=trust).name
    folder = out or Path("runs") / f"train-{file_name(name)}"
    try:
        chosen = models.TrainOptions(
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            seed=seed,
            deterministic=deterministic,
            mixed_precision=mixed_precision,
            device=device,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error
    source = ModelSource(source=model, weights=weights, trust=trust)
    with reporter(quiet=quiet, verbose=verbose) as progress:
        result = train_stage(
            source, data, load(preprocess, Preprocess) if preprocess else None, chosen, folder, progress
        )
    if as_json:
        results.print_text(json.dumps(to_plain(result), indent=2))
        return
    resumed = f", resumed from epoch {result.resumed_from}" if result.resumed_from else ""
    print(
        f"{result.best_path}: validation {result.metric_name} {result.best_metric:.4f} "
        f"at epoch {result.best_epoch} of {result.last_epoch}, on {result.device} in {result.precision}{resumed}"
    )
