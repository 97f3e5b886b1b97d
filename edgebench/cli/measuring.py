"""convert, measure, convert+measure and run: from a model to the table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgebench.cli import options, results
from edgebench.cli.progress import reporter
from edgebench.errors import ConfigError

if TYPE_CHECKING:
    from edgebench.matrix import Axes, DataSource, Matrix
    from edgebench.types import Plan, Preprocess, Recipe, Task


def add_to(app: typer.Typer) -> None:
    app.command(
        "convert",
        short_help="Convert a model by recipes, each file proven.",
        epilog="Example:  edgebench convert model.keras --data photos/ --recipe tflite-int8",
    )(convert)
    app.command(
        "measure",
        short_help="Measure .tflite and .onnx files.",
        epilog="Example:  edgebench measure model.tflite model.onnx --threads 1 --threads 4",
    )(measure)
    app.command(
        "convert+measure",
        short_help="Both, and the trade-off in one table.",
        epilog="Example:  edgebench convert+measure zoo:digits-cnn-keras --data digits",
    )(convert_and_measure)
    app.command(
        "run",
        short_help="Do what a matrix file asks for.",
        epilog="Example:  edgebench run matrix.yaml",
    )(run)


def convert(
    model: options.Model,
    data: options.Data = None,
    calibration: options.CalibrationData = None,
    recipe: options.Recipes = None,
    batch: options.Batches = None,
    weights: options.Weights = None,
    trust: options.Trust = False,
    calibration_samples: options.CalibrationSamples = options.DEFAULT_CALIBRATION_SAMPLES,
    evaluation_samples: options.EvaluationSamples = None,
    task: options.TaskName = None,
    preprocess: options.PreprocessFile = None,
    seed: options.Seed = 0,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT_S,
    out: options.Out = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Convert a model by recipes; each file is read back, run once and compared with the model."""
    matrix = _matrix(
        model,
        weights,
        trust,
        _data(data, calibration, calibration_samples, evaluation_samples, task, preprocess, seed),
        recipe,
        _axes(None, None, None, batch, _plan(timeout)),
    )
    _fill(matrix, out, quiet=quiet, verbose=verbose, as_json=as_json, with_latency=False)


def measure(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help=".tflite and .onnx files.")],
    data: options.Data = None,
    device: options.Devices = None,
    runtime: options.Runtimes = None,
    threads: options.Threads = None,
    batch: options.Batches = None,
    evaluation_samples: options.EvaluationSamples = None,
    task: options.TaskName = None,
    preprocess: options.PreprocessFile = None,
    rounds: options.Rounds = options.DEFAULT_ROUNDS,
    min_runs: options.MinRuns = options.DEFAULT_MIN_RUNS,
    min_seconds: options.MinSeconds = options.DEFAULT_MIN_SECONDS,
    max_seconds: options.MaxSeconds = options.DEFAULT_MAX_SECONDS,
    until_cool: options.UntilCool = False,
    seed: options.Seed = 0,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT_S,
    out: options.Out = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Measure converted files: latency, memory and, with labelled data, accuracy."""
    from edgebench.pipeline import measure_files

    source = _data(data, None, options.DEFAULT_CALIBRATION_SAMPLES, evaluation_samples, task, preprocess, seed)
    plan = _plan(timeout, rounds, min_runs, min_seconds, max_seconds, until_cool, seed)
    axes = _axes(device, runtime, threads, batch, plan)
    folder = out or _default_out(files[0].stem)
    with reporter(quiet=quiet, verbose=verbose) as progress:
        cells = measure_files(files, source, axes, folder, _typed(), progress)
    results.show(folder, cells, as_json=as_json, quiet=quiet)


def convert_and_measure(
    model: options.Model,
    data: options.Data = None,
    calibration: options.CalibrationData = None,
    recipe: options.Recipes = None,
    device: options.Devices = None,
    runtime: options.Runtimes = None,
    threads: options.Threads = None,
    batch: options.Batches = None,
    weights: options.Weights = None,
    trust: options.Trust = False,
    calibration_samples: options.CalibrationSamples = options.DEFAULT_CALIBRATION_SAMPLES,
    evaluation_samples: options.EvaluationSamples = None,
    task: options.TaskName = None,
    preprocess: options.PreprocessFile = None,
    rounds: options.Rounds = options.DEFAULT_ROUNDS,
    min_runs: options.MinRuns = options.DEFAULT_MIN_RUNS,
    min_seconds: options.MinSeconds = options.DEFAULT_MIN_SECONDS,
    max_seconds: options.MaxSeconds = options.DEFAULT_MAX_SECONDS,
    until_cool: options.UntilCool = False,
    seed: options.Seed = 0,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT_S,
    out: options.Out = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Convert a model by recipes, measure each file on each device, and show the trade-off."""
    matrix = _matrix(
        model,
        weights,
        trust,
        _data(data, calibration, calibration_samples, evaluation_samples, task, preprocess, seed),
        recipe,
        _axes(
            device,
            runtime,
            threads,
            batch,
            _plan(timeout, rounds, min_runs, min_seconds, max_seconds, until_cool, seed),
        ),
    )
    _fill(matrix, out, quiet=quiet, verbose=verbose, as_json=as_json)


def run(
    matrix: Annotated[Path, typer.Argument(metavar="MATRIX.yaml", help="Model, data, recipes, devices, plan, budget.")],
    trust: options.Trust = False,
    out: options.MatrixOut = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Do what a matrix file asks for; the same command goes on where an earlier one stopped."""
    from dataclasses import replace

    from edgebench.config import load_matrix

    asked = load_matrix(matrix)
    if trust:
        asked = replace(asked, model=replace(asked.model, trust=True))
    _fill(asked, out, quiet=quiet, verbose=verbose, as_json=as_json)


def _fill(
    matrix: Matrix, out: Path | None, *, quiet: bool, verbose: bool, as_json: bool, with_latency: bool = True
) -> None:
    from edgebench import pipeline

    folder = out or _default_out(matrix.name)
    with reporter(quiet=quiet, verbose=verbose) as progress:
        cells = pipeline.convert_and_measure(matrix, folder, _typed(), progress, measure=with_latency)
    results.show(folder, cells, matrix.budget, as_json=as_json, quiet=quiet)


def _typed() -> tuple[str, ...]:
    """The command as the user typed it, for the record; the program's path on this machine is nobody's business."""
    return ("edgebench", *sys.argv[1:])


def _matrix(
    model: str, weights: Path | None, trust: bool, data: DataSource, recipes: list[str] | None, axes: Axes
) -> Matrix:
    from edgebench import models
    from edgebench.matrix import Matrix, ModelSource

    name = models.describe(model, weights=weights, trust=trust).name
    source = ModelSource(source=model, weights=weights, trust=trust)
    return Matrix(name=name, model=source, data=data, recipes=_recipes(recipes), axes=axes)


def _recipes(names: list[str] | None) -> tuple[Recipe, ...]:
    from edgebench.converters.recipes import default_recipes, load_recipes

    return tuple(load_recipes(names) if names else default_recipes())


def _data(
    data: str | None,
    calibration: str | None,
    calibration_samples: int,
    evaluation_samples: int | None,
    task: str | None,
    preprocess: Path | None,
    seed: int,
) -> DataSource:
    from edgebench.matrix import DataSource

    return DataSource(
        source=data,
        calibration_source=calibration,
        calibration=calibration_samples,
        evaluation=evaluation_samples,
        seed=seed,
        task=_task(task),
        preprocess=_preprocess(preprocess),
    )


def _task(name: str | None) -> Task | None:
    from edgebench.types import Task

    if name is None:
        return None
    try:
        return Task(name)
    except ValueError as error:
        raise ConfigError(f"--task {name}: unknown; possible: {', '.join(Task)}") from error


def _preprocess(path: Path | None) -> Preprocess | None:
    from edgebench.types import Preprocess
    from edgebench.yaml_files import load

    return load(path, Preprocess) if path else None


def _axes(
    devices: list[str] | None,
    runtimes: list[str] | None,
    threads: list[int] | None,
    batches: list[str] | None,
    plan: Plan,
) -> Axes:
    from edgebench.matrix import DEFAULT_RUNTIMES, Axes

    try:
        return Axes(
            devices=tuple(devices or ("host",)),
            runtimes=tuple(runtimes or DEFAULT_RUNTIMES),
            threads=tuple(threads or (1,)),
            batches=tuple(_batch(text) for text in batches or ("1",)),
            plan=plan,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _plan(
    stage_timeout_s: float,
    rounds: int = options.DEFAULT_ROUNDS,
    min_runs: int = options.DEFAULT_MIN_RUNS,
    min_seconds: float = options.DEFAULT_MIN_SECONDS,
    max_seconds: float = options.DEFAULT_MAX_SECONDS,
    until_cool: bool = False,
    seed: int = 0,
) -> Plan:
    """The plan that the options ask for; its other limits grow with them, so that none of them is cut off."""
    from edgebench.types import Plan

    try:
        return Plan(
            rounds=rounds,
            min_runs=min_runs,
            max_runs=max(min_runs, 10_000),
            min_seconds=min_seconds,
            max_seconds=max_seconds,
            timeout_s=max(300.0, 10 * max_seconds),
            stage_timeout_s=stage_timeout_s,
            cooldown="until-cool" if until_cool else "none",
            seed=seed,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _batch(text: str) -> int | None:
    if text == "open":
        return None
    try:
        return int(text)
    except ValueError as error:
        raise ConfigError(f"--batch {text}: give a number, or `open`") from error


def _default_out(name: str) -> Path:
    from edgebench.naming import file_name

    return Path("runs") / file_name(name)
