"""Measure converted files that the user brought: no baseline, so accuracy only by labels."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from edgebench import data
from edgebench.converters import artifact_files
from edgebench.devices import inventory
from edgebench.errors import ConfigError
from edgebench.isolation import Worker
from edgebench.matrix import Axes, DataSource
from edgebench.pipeline.answers import Answers
from edgebench.pipeline.cells import Cell, cell_id, now
from edgebench.pipeline.environment import fingerprint
from edgebench.pipeline.evaluation_set import EvaluationSet
from edgebench.pipeline.measure_stage import MeasureStage, Ready
from edgebench.pipeline.progress import Reporter
from edgebench.pipeline.run_folder import RunFolder
from edgebench.pipeline.subject import LOAD_TIMEOUT_S, data_request
from edgebench.store import RunInfo
from edgebench.types import Artifact, Baseline, Caution, Framework, PreparedData, TensorSpec


def measure_files(
    files: Sequence[Path],
    source: DataSource,
    axes: Axes,
    out: Path,
    command: Sequence[str],
    reporter: Reporter,
) -> tuple[str, ...]:
    """The cells of each file, device, runtime of its format and thread count, each with a record in the folder `out`.

    Raises:
        InputError, MissingError: a file, the data or a device is wrong as a whole; a cell's failure is its record.
    """
    for name in axes.devices:
        inventory.check(name)
    with (
        RunFolder.open(out) as run,
        Worker(run.logs / "data.log") as worker,
        closing(inventory.open_device("host")) as host,
    ):
        ready: list[Ready] = []
        cells: list[str] = []
        cautions: list[Caution] = []
        reporter.phase("Reading files", len(files))
        for file in files:
            artifact = artifact_files.from_file(file, run.path)
            prepared, root = _prepare(file, artifact, source, run, worker)
            cautions += prepared.cautions
            evaluation_set = EvaluationSet.of(prepared, root, None)
            asked = _cells(file, artifact, prepared, axes)
            cells += [cell.id for cell in asked]
            ready += [
                Ready(cell=cell, artifact=artifact, evaluation_set=evaluation_set, float_artifact=None)
                for cell in asked
                if not run.store.has_ok(cell.id)
            ]
            reporter.step(f"{file.name}: {artifact.census.precision}, {artifact.size_bytes / 1e6:.3g} MB")
        worker.close()
        run.store.set_run(
            RunInfo(
                name=files[0].stem,
                command=tuple(command),
                created_at=now(),
                model=", ".join(file.name for file in files),
                data=source.source,
                cautions=tuple(dict.fromkeys(cautions)),
                environment=fingerprint(host),
            )
        )
        answers = Answers(run, host, axes.plan.stage_timeout_s)
        MeasureStage(run, answers, reporter).measure_all(ready)
        return tuple(cells)


def _prepare(
    file: Path, artifact: Artifact, source: DataSource, run: RunFolder, worker: Worker
) -> tuple[PreparedData, Path]:
    """The samples for one file, as floats where the file is quantized, and the folder that they are relative to."""
    root = run.path / "given" / artifact.sha256[:16]
    root.mkdir(parents=True, exist_ok=True)
    stand_in = Baseline(
        name=file.stem,
        framework=Framework(artifact.format.value),
        source=str(file),
        path=artifact.files[0],
        sha256=artifact.sha256,
        inputs=tuple(_real(binding.tensor) for binding in artifact.inputs),
        outputs=tuple(_real(binding.tensor) for binding in artifact.outputs),
        parameters=artifact.census.parameters,
    )
    request = replace(data_request(source), calibration_samples=0)
    what = f"preparing {source.source or 'synthetic inputs'}"
    return worker.call(what, LOAD_TIMEOUT_S, data.prepare, source.source, stand_in, root, request).value, root


def _real(spec: TensorSpec) -> TensorSpec:
    return replace(spec, dtype="float32", quantization=None) if spec.quantization else spec


def _cells(file: Path, artifact: Artifact, prepared: PreparedData, axes: Axes) -> list[Cell]:
    if artifact.batch is not None and axes.batches not in ((1,), (artifact.batch,)):
        raise ConfigError(f"{file} has a fixed batch of {artifact.batch}; leave --batch out, or convert it anew")
    batches = axes.batches if artifact.batch is None else (artifact.batch,)
    cells = []
    for batch in batches:
        for asked in axes.targets(artifact.format):
            target = inventory.completed(asked)
            id = cell_id(artifact.sha256, None, batch, target, axes.plan, prepared)
            cells.append(Cell(id=id, model=file.name, recipe=None, batch=batch, target=target, plan=axes.plan))
    return cells
