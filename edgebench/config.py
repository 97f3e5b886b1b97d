"""A matrix file, as a person writes it, made into a `Matrix`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from edgebench.errors import ConfigError
from edgebench.matrix import DEFAULT_CALIBRATION, DEFAULT_RUNTIMES, Axes, DataSource, Matrix, ModelSource
from edgebench.types import Budget, Plan, Preprocess, Task
from edgebench.yaml_files import load


def _as_list(value: object) -> object:
    return value if isinstance(value, list) else [value]


class _Model(BaseModel):
    source: str
    weights: Path | None = None
    trust: bool = False


class _Data(BaseModel):
    source: str | None = None
    task: Task | None = None
    calibration: int | str | None = None
    calibration_samples: int | None = None
    evaluation: int | None = None
    seed: int = 0
    preprocess: Preprocess | None = None


class _MatrixFile(BaseModel):
    """A matrix file as a person writes it: paths relative to the file, recipes by name, one value or a list."""

    name: str | None = None
    model: _Model
    data: _Data = _Data()
    recipes: Annotated[list[str], BeforeValidator(_as_list)] = []
    devices: Annotated[list[str], BeforeValidator(_as_list)] = ["host"]
    runtimes: Annotated[list[str], BeforeValidator(_as_list)] = list(DEFAULT_RUNTIMES)
    threads: Annotated[list[int], BeforeValidator(_as_list)] = [1]
    batches: Annotated[list[int | Literal["open"]], BeforeValidator(_as_list)] = [1]
    plan: Plan = Field(default_factory=Plan)
    budget: Budget = Field(default_factory=Budget)


def load_matrix(path: Path) -> Matrix:
    """The matrix in a YAML file; a relative path in it is relative to the file's folder.

    Raises:
        ConfigError: as `load` does, or a recipe of it is unknown.
    """
    from edgebench.converters.recipes import default_recipes, load_recipes

    said = load(path, _MatrixFile)
    home = path.parent
    calibration = said.data.calibration
    if isinstance(calibration, int) and said.data.calibration_samples is not None:
        raise ConfigError(
            f"{path}: data.calibration: {calibration} and data.calibration_samples: {said.data.calibration_samples} "
            "both count samples; keep one (calibration_samples is for a calibration that names data)"
        )
    counts = [count for count in (said.data.calibration_samples, calibration) if isinstance(count, int)]
    try:
        return Matrix(
            name=said.name or path.stem,
            model=ModelSource(
                source=_beside(said.model.source, home),
                weights=None if said.model.weights is None else home / said.model.weights,
                trust=said.model.trust,
            ),
            data=DataSource(
                source=None if said.data.source is None else _beside(said.data.source, home),
                calibration_source=_beside(calibration, home) if isinstance(calibration, str) else None,
                calibration=counts[0] if counts else DEFAULT_CALIBRATION,
                evaluation=said.data.evaluation,
                seed=said.data.seed,
                task=said.data.task,
                preprocess=said.data.preprocess,
            ),
            recipes=tuple(load_recipes(said.recipes) if said.recipes else default_recipes()),
            axes=Axes(
                devices=tuple(said.devices),
                runtimes=tuple(said.runtimes),
                threads=tuple(said.threads),
                batches=tuple(None if batch == "open" else batch for batch in said.batches),
                plan=said.plan,
            ),
            budget=said.budget,
        )
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


def _beside(source: str, home: Path) -> str:
    """A path in a matrix file made relative to where edgebench runs; names such as zoo:NAME stay."""
    path, colon, function = source.rpartition(":")
    file = path if colon and path.endswith(".py") else source
    if (home / file).exists():
        return str(home / file) + (f":{function}" if file is path and colon else "")
    return source
