"""From a named data set to two disjoint sample sets on disk, in the model's terms, with every doubt named."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgebench.data.audit import audit
from edgebench.data.evaluation_checks import embedding_cautions, refuse_not_finite
from edgebench.data.fit_arrays import fit_arrays
from edgebench.data.fit_images import fit_images
from edgebench.data.fitted import Fitted
from edgebench.data.samples import open_samples, remove_samples, write_samples
from edgebench.data.sources import EVALUATION_CAP, Dataset, ImageData, Wanted, open_source
from edgebench.data.synthetic import DEFAULT_SAMPLES, synthetic
from edgebench.data.wording import listed, shown
from edgebench.errors import DataError
from edgebench.types import Baseline, Caution, PreparedData, Preprocess, Task

# Where one data set must serve both and is too small for it, calibration gets a quarter.
_SHARED_POOL_DIVISOR = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRequest:
    """What a run asks of its data. `evaluation_samples` None is all, up to 1000; `calibration_samples` 0 is none."""

    calibration_source: str | None = None
    calibration_samples: int = 100
    evaluation_samples: int | None = None
    seed: int = 0
    preprocess: Preprocess | None = None
    task: Task | None = None

    def __post_init__(self) -> None:
        if self.calibration_samples < 0:
            raise DataError(f"calibration samples: {self.calibration_samples}; at least 1 is needed, or 0 for none")
        if self.evaluation_samples is not None and self.evaluation_samples < 1:
            raise DataError(f"evaluation samples: {self.evaluation_samples}; at least 1 is needed")
        if self.seed < 0:
            raise DataError(f"seed: {self.seed}; it must be 0 or more")


def prepare(source: str | None, baseline: Baseline, run_folder: Path, request: DataRequest) -> PreparedData:
    """Write the evaluation and calibration sets under `run_folder/data`, and audit the one against the other.

    The same request on the same data gives the same bytes, hence the same hashes. Without `source` the calibration
    source serves both purposes; without either, inputs are synthetic and there is no calibration set.

    Raises:
        DataError: the data can't be read, is empty, or doesn't fit the model.
        MissingError: the data needs an extra that is not installed.
    """
    if source is None and request.calibration_source is not None:
        return prepare(request.calibration_source, baseline, run_folder, replace(request, calibration_source=None))
    if source is None:
        evaluation = synthetic(baseline, request.evaluation_samples or DEFAULT_SAMPLES, request.seed)
        return _write(run_folder, evaluation, range(len(evaluation.names)), None, (), evaluation.cautions)
    data_folder = _clean_data_folder(run_folder)
    with tempfile.TemporaryDirectory(prefix=".scratch-", dir=data_folder) as scratch:
        wanted = Wanted(
            scratch=Path(scratch),
            calibration_samples=request.calibration_samples,
            evaluation_samples=request.evaluation_samples,
            seed=request.seed,
            inputs=baseline.inputs,
        )
        evaluation, calibration = _open(source, baseline, request, wanted)
        evaluation_indices, calibration_indices = _choose(evaluation, calibration, request)
        cautions = [*evaluation.cautions, *_class_cautions(evaluation, baseline)]
        if calibration is not None:
            cautions += [caution for caution in calibration.cautions if caution not in cautions]
        pool = len(evaluation.names) if calibration is None else None
        cautions += _count_cautions(request, len(evaluation_indices), len(calibration_indices), pool)
        return _write(
            run_folder, evaluation, evaluation_indices, calibration or evaluation, calibration_indices, tuple(cautions)
        )


def _fit(data: Dataset, baseline: Baseline, preprocess: Preprocess | None, task: Task | None) -> Fitted:
    if isinstance(data, ImageData):
        return fit_images(data, baseline, preprocess, task)
    fitted = fit_arrays(data, baseline, task)
    if preprocess is None:
        return fitted
    unused = Caution(
        code="preprocess-unused",
        message=f"`preprocess` is for images; {shown(data.source)} gives arrays, which are fed as they are",
        advice="leave `preprocess` out, and prepare the arrays as the model was trained",
    )
    return replace(fitted, cautions=(*fitted.cautions, unused))


def _clean_data_folder(run_folder: Path) -> Path:
    """The folder of sample sets, without what a killed run left half-written."""
    folder = run_folder / "data"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(".*-*"):
            shutil.rmtree(leftover, ignore_errors=True)
    except OSError as error:
        raise DataError(f"the folder {shown(folder)} can't be made: {error.strerror}") from error
    return folder


def _open(source: str, baseline: Baseline, request: DataRequest, wanted: Wanted) -> tuple[Fitted, Fitted | None]:
    """The evaluation pool and, where it is another one, the calibration pool."""
    pools = open_source(source, wanted)
    calibration = pools.calibration
    if request.calibration_source is not None:
        other = open_source(request.calibration_source, wanted)
        calibration = other.calibration or other.evaluation
    evaluation = _fit(pools.evaluation, baseline, request.preprocess, request.task)
    return evaluation, None if calibration is None else _fit(calibration, baseline, request.preprocess, request.task)


def _choose(evaluation: Fitted, calibration: Fitted | None, request: DataRequest) -> tuple[list[int], list[int]]:
    """Sorted indices into the evaluation pool and into the calibration pool, drawn by the seed."""
    n = len(evaluation.names)
    if n == 0:
        raise DataError(f"{shown(evaluation.source)} holds no sample")
    order = np.random.default_rng(request.seed).permutation(n)
    asked = request.evaluation_samples or EVALUATION_CAP
    if calibration is not None:
        chosen = np.random.default_rng(request.seed).permutation(len(calibration.names))[: request.calibration_samples]
        if request.calibration_samples and not len(chosen):
            raise DataError(f"the calibration data {shown(calibration.source)} holds no sample")
        return sorted(order[:asked].tolist()), sorted(chosen.tolist())
    spare = n - asked
    # At least one sample evaluates: a single one leaves none for calibration, which only some recipes need.
    for_calibration = min(request.calibration_samples, max(1, n // _SHARED_POOL_DIVISOR, spare), n - 1)
    return sorted(order[for_calibration:][:asked].tolist()), sorted(order[:for_calibration].tolist())


def _count_cautions(request: DataRequest, evaluation: int, calibration: int, pool: int | None) -> list[Caution]:
    """Doubts about the numbers of samples used; `pool` is how many there were for both, None where each has its own."""
    cautions = []
    asked = request.calibration_samples
    if calibration < asked:
        message, advice = (
            f"{asked} calibration samples were asked for, {calibration} are used",
            "give more calibration data",
        )
        if pool is not None:
            message += f": {pool} samples are too few for both, so that a quarter calibrates, or what evaluation leaves"
            advice = "give more data, or other data by --calibration (in a matrix: data.calibration)"
        if pool is not None and pool > asked:
            advice = f"lower --evaluation-samples to {pool - asked} (in a matrix: data.evaluation), or {advice}"
        cautions.append(Caution(code="few-calibration-samples", message=message, advice=advice))
    if request.evaluation_samples is not None and evaluation < request.evaluation_samples:
        cautions.append(
            Caution(
                code="few-evaluation-samples",
                message=f"{request.evaluation_samples} evaluation samples were asked for, {evaluation} are there",
                advice="give more data for narrower intervals",
            )
        )
    return cautions


def _class_cautions(evaluation: Fitted, baseline: Baseline) -> list[Caution]:
    """Doubts about labels against the model's only output, where its last axis counts classes."""
    if evaluation.task is not Task.CLASSIFICATION or evaluation.labels is None or len(baseline.outputs) != 1:
        return []
    (output,) = baseline.outputs
    model_classes = output.shape[-1] if len(output.shape) > 1 else None
    if model_classes is None or model_classes < 2:
        return []
    highest = int(evaluation.labels.max())
    if highest >= model_classes:
        raise DataError(
            f"{shown(evaluation.source)} has the label {highest}, the model's output '{shown(output.name)}' has "
            f"{model_classes} classes (0 to {model_classes - 1}): give data with the model's own classes"
        )
    if evaluation.classes and len(evaluation.classes) != model_classes:
        return [
            Caution(
                code="class-count",
                message=f"the data has {len(evaluation.classes)} classes ({listed(evaluation.classes)}), the model's "
                f"output '{shown(output.name)}' has {model_classes}; class i of the data is compared with output i",
                advice="if class i is not output i, give labels in the model's numbering by a CSV manifest",
            )
        ]
    return []


def _write(
    run_folder: Path,
    evaluation: Fitted,
    evaluation_indices: range | list[int],
    calibration: Fitted | None,
    calibration_indices: tuple[int, ...] | list[int],
    cautions: tuple[Caution, ...],
) -> PreparedData:
    evaluation_set = write_samples(run_folder, "evaluation", evaluation.stream(evaluation_indices))
    written = open_samples(run_folder, evaluation_set)
    refuse_not_finite(evaluation.source, written)
    if evaluation.task is Task.EMBEDDING:
        cautions += embedding_cautions(written)
    calibration_set = None
    if calibration is not None and calibration_indices:
        calibration_set = write_samples(run_folder, "calibration", calibration.stream(calibration_indices))
        cautions += audit(open_samples(run_folder, calibration_set), written)
    else:
        remove_samples(run_folder, "calibration")
    return PreparedData(
        source=evaluation.source,
        task=evaluation.task,
        evaluation=evaluation_set,
        calibration=calibration_set,
        classes=evaluation.classes,
        preprocess=evaluation.preprocess,
        cautions=cautions,
    )
