"""The first stages of a run: the model's snapshot, its samples, and the model's own answers to them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgebench import data, models
from edgebench.arrays import Array, load_arrays
from edgebench.data import DataRequest
from edgebench.isolation import Worker
from edgebench.matrix import DataSource, Matrix
from edgebench.pipeline.progress import Reporter
from edgebench.pipeline.run_folder import RunFolder
from edgebench.types import Baseline, PreparedData

# Zoo networks train here when they are first used; a user's own code may take its time.
LOAD_TIMEOUT_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A baseline with its prepared samples, and the file of its answers to the evaluation samples."""

    baseline: Baseline
    data: PreparedData
    answers: Path

    def outputs(self) -> dict[str, Array]:
        """The baseline's outputs by name, float32, shape (n, ...)."""
        return load_arrays(self.answers)


def prepare(matrix: Matrix, run: RunFolder, worker: Worker, reporter: Reporter) -> Subject:
    """Load the model, prepare the data for it and run the model on them, each in the worker.

    Raises:
        InputError, MissingError: the model or the data is wrong, or needs something that is not installed.
    """
    source, weights, trust = matrix.model.source, matrix.model.weights, matrix.model.trust
    info = models.describe(source, weights=weights, trust=trust)
    for named in (matrix.data.source, matrix.data.calibration_source):
        if named is not None:
            data.check_source(named)  # loading a model may take minutes: a mistyped path is told before
    reporter.phase(f"Loading {source}", None)
    example = None
    if info.needs_example and matrix.data.source is not None:
        example = worker.call(
            "reading one sample",
            LOAD_TIMEOUT_S,
            data.peek,
            matrix.data.source,
            preprocess=matrix.data.preprocess or info.preprocess,
            layout=info.layout,
        ).value
    baseline = worker.call(
        f"loading {source}",
        LOAD_TIMEOUT_S,
        models.snapshot,
        source,
        run.path,
        weights=weights,
        trust=trust,
        example=example,
    ).value
    reporter.phase(f"Preparing {matrix.data.source or 'synthetic inputs'}", None)
    prepared = worker.call(
        f"preparing {matrix.data.source or 'synthetic inputs'}",
        LOAD_TIMEOUT_S,
        data.prepare,
        matrix.data.source,
        baseline,
        run.path,
        data_request(matrix.data),
    ).value
    answers = run.path / "outputs" / f"baseline-{baseline.sha256[:16]}-{prepared.evaluation.sha256[:16]}.npz"
    if not answers.exists():
        reporter.phase(f"Running the model itself on {prepared.evaluation.n} samples", None)
        worker.call(
            "running the baseline",
            LOAD_TIMEOUT_S,
            models.baseline_outputs,
            baseline,
            run.path,
            prepared.evaluation,
            answers,
        )
    return Subject(baseline=baseline, data=prepared, answers=answers)


def data_request(source: DataSource) -> DataRequest:
    """What `data.prepare` is asked for."""
    return DataRequest(
        calibration_source=source.calibration_source,
        calibration_samples=source.calibration,
        evaluation_samples=source.evaluation,
        seed=source.seed,
        preprocess=source.preprocess,
        task=source.task,
    )
