"""From a matrix to records: load, prepare, convert, prove, evaluate, measure. The same call resumes an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from edgebench.devices import inventory
from edgebench.errors import ConfigError, StageError
from edgebench.isolation import Worker
from edgebench.matrix import Matrix
from edgebench.pipeline.answers import Answers
from edgebench.pipeline.build import Builder
from edgebench.pipeline.cells import Cell, expand, group_by_file, now
from edgebench.pipeline.environment import fingerprint
from edgebench.pipeline.evaluation_set import EvaluationSet
from edgebench.pipeline.measure_stage import MeasureStage, Ready
from edgebench.pipeline.progress import Reporter
from edgebench.pipeline.run_folder import RunFolder
from edgebench.pipeline.subject import prepare
from edgebench.store import RunInfo
from edgebench.types import Artifact


def convert_and_measure(
    matrix: Matrix, out: Path, command: Sequence[str], reporter: Reporter, *, measure: bool = True
) -> tuple[str, ...]:
    """The cells of the matrix, each with a record in the run folder `out`; those with a good one are not done again.

    With `measure` off, a cell is converted and proven on the host, and has no latency.

    Raises:
        InputError, MissingError: the model, the data or a device is wrong as a whole; a cell's failure is its record.
    """
    for name in matrix.axes.devices:
        inventory.check(name)
    with (
        RunFolder.open(out) as run,
        Worker(run.logs / "conversion.log") as worker,
        closing(inventory.open_device("host")) as host,
    ):
        _refuse_another_question(matrix, run)
        subject = prepare(matrix, run, worker, reporter)
        environment = fingerprint(host)
        run.store.set_run(
            RunInfo(
                name=matrix.name,
                command=tuple(command),
                created_at=now(),
                model=matrix.model.source,
                data=matrix.data.source,
                cautions=subject.baseline.cautions + subject.data.cautions,
                environment=environment,
                budget=matrix.budget if matrix.budget.limits else None,
            )
        )
        evaluation_set = EvaluationSet.of(subject.data, run.path, subject.outputs())
        timeout_s = matrix.axes.plan.stage_timeout_s
        answers = Answers(run, host, timeout_s)
        cells = expand(matrix, subject.baseline, subject.data, with_plan=measure)
        todo = [cell for cell in cells if not run.store.has_ok(cell.id)]
        builder = Builder(subject, run, worker, timeout_s)
        ready = _build_all(todo, builder, answers, evaluation_set, run, environment, reporter)
        worker.close()  # its memory and threads must not share the machine with a measurement
        MeasureStage(run, answers, reporter).measure_all(ready)
        return tuple(cell.id for cell in cells)


def _refuse_another_question(matrix: Matrix, run: RunFolder) -> None:
    """A folder answers for one model and its data: rows of two models in one table could not be told apart."""
    earlier = run.store.run()
    if earlier and (earlier.model, earlier.data) != (matrix.model.source, matrix.data.source):
        raise ConfigError(
            f"{run.path} holds a run of {earlier.model} on {earlier.data or 'synthetic inputs'}; "
            "give another folder with --out"
        )


def _build_all(
    todo: Sequence[Cell],
    builder: Builder,
    answers: Answers,
    evaluation_set: EvaluationSet,
    run: RunFolder,
    environment: dict[str, str],
    reporter: Reporter,
) -> list[Ready]:
    """Convert and prove each file that a cell needs; a file that can't be had becomes a record of each of its cells."""
    groups = group_by_file(todo)
    if groups:
        reporter.phase("Converting", len(groups))
    ready = []
    stopped: dict[str, list[str]] = {}  # the recipes by what stopped them
    for (recipe, batch), cells in groups.items():
        reporter.detail(recipe.name)
        artifact: Artifact | None = None
        step = "export"
        try:
            float_artifact = builder.float_artifact(recipe.format, batch)
            step = "convert"
            artifact = builder.artifact(recipe, float_artifact)
            step = "prove"
            answers.proof(float_artifact, evaluation_set)
            answers.proof(artifact, evaluation_set)
        except StageError as error:
            for cell in cells:
                run.store.add(cell.ended(step, error, environment, artifact))
            names = stopped.setdefault(str(error), [])
            reporter.step("" if names else f"{recipe.name} ({step}): {error}")
            names.append(recipe.name)
            continue
        ready += [
            Ready(cell=cell, artifact=artifact, evaluation_set=evaluation_set, float_artifact=float_artifact)
            for cell in cells
        ]
        took = f", {artifact.conversion_s:.1f} s" if artifact.conversion_s else ""
        reporter.step(f"{recipe.name}: {artifact.census.precision}, {artifact.size_bytes / 1e6:.3g} MB{took}")
    for first, *others in (tuple(dict.fromkeys(names)) for names in stopped.values()):
        if others:
            reporter.notice(
                f"  the same for {len(others)} more recipe{'s' * (len(others) > 1)} as for {first}: {', '.join(others)}"
            )
    return ready
