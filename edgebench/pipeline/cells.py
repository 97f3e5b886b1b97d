"""The cells of a matrix, and the content hash that names each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from edgebench.codec import to_plain
from edgebench.devices import inventory
from edgebench.errors import RefusedError, StageError
from edgebench.matrix import Matrix
from edgebench.types import (
    Artifact,
    Baseline,
    Evaluation,
    Measurement,
    Plan,
    PreparedData,
    Recipe,
    Record,
    Status,
    Target,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One question: this subject, on this target, by this plan. A plan of None asks for a proof only, no latency."""

    id: str
    model: str
    recipe: Recipe | None
    batch: int | None
    target: Target
    plan: Plan | None

    def done(
        self,
        artifact: Artifact,
        measurement: Measurement | None,
        evaluation: Evaluation | None,
        environment: dict[str, str],
    ) -> Record:
        """The record of a cell that went well; its delegate is the one that ran, not the one asked for."""
        record = self._record(Status.OK, environment, artifact=artifact, measurement=measurement, evaluation=evaluation)
        return replace(record, delegate=measurement.rounds[0].delegate) if measurement else record

    def ended(
        self, stage: str, error: StageError, environment: dict[str, str], artifact: Artifact | None = None
    ) -> Record:
        """The record of a cell that failed at `stage`, or was refused there."""
        status = Status.REFUSED if isinstance(error, RefusedError) else Status.FAILED
        return self._record(status, environment, stage=stage, reason=str(error), artifact=artifact)

    def _record(self, status: Status, environment: dict[str, str], **found: Any) -> Record:
        return Record(
            cell=self.id,
            status=status,
            model=self.model,
            recipe=self.recipe.name if self.recipe else None,
            device=self.target.device,
            runtime=self.target.runtime,
            threads=self.target.threads,
            delegate=self.target.delegate,
            batch=self.batch,
            at=now(),
            target=self.target,
            plan=self.plan,
            environment=environment,
            **found,
        )


def expand(matrix: Matrix, baseline: Baseline, data: PreparedData, *, with_plan: bool) -> tuple[Cell, ...]:
    """Every cell of the matrix in the order recipe, batch, device, runtime, threads."""
    axes = matrix.axes
    plan = axes.plan if with_plan else None
    cells = []
    for recipe in matrix.recipes:
        for batch in axes.batches:
            for asked in axes.targets(recipe.format):
                target = inventory.completed(asked)
                id = cell_id(baseline.sha256, recipe, batch, target, plan, data)
                cells.append(Cell(id=id, model=baseline.name, recipe=recipe, batch=batch, target=target, plan=plan))
    return tuple(cells)


def cell_id(
    subject_sha256: str,
    recipe: Recipe | None,
    batch: int | None,
    target: Target,
    plan: Plan | None,
    data: PreparedData | None,
) -> str:
    """16 hex digits of the hash of everything that decides the answer; descriptions and time limits do not."""
    samples = []
    if data is not None:
        samples.append(data.evaluation.sha256)
        if recipe is not None and recipe.calibration is not None and data.calibration is not None:
            samples.append(data.calibration.sha256)
    said = replace(recipe, description="", default=False) if recipe else None
    question = [
        subject_sha256,
        to_plain(said) if said else None,
        batch,
        to_plain(target),
        _deciding(plan) if plan else None,
        samples,
        data.task if data else None,
    ]
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:16]


def _deciding(plan: Plan) -> dict[str, object]:
    return {key: value for key, value in to_plain(plan).items() if not key.endswith("timeout_s")}


def group_by_file(cells: Sequence[Cell]) -> dict[tuple[Recipe, int | None], list[Cell]]:
    """The cells of each converted file, by its recipe and batch."""
    groups: dict[tuple[Recipe, int | None], list[Cell]] = {}
    for cell in cells:
        if cell.recipe is not None:
            groups.setdefault((cell.recipe, cell.batch), []).append(cell)
    return groups


def now() -> str:
    """The time as records write it: UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
