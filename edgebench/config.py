"""YAML files made into our frozen values. An unknown key is an error that suggests the nearest known one."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from edgebench.errors import ConfigError
from edgebench.matrix import DEFAULT_RUNTIMES, Axes, Budget, DataSource, Matrix, ModelSource
from edgebench.types import Plan, Preprocess, Task

T = TypeVar("T")


def load(path: Path, shape: type[T]) -> T:
    """The YAML file at `path` as a `shape`: a pydantic model, or one of our dataclasses.

    Raises:
        ConfigError: the file can't be read, is no YAML mapping, or holds a wrong or unknown key; says which and where.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a text file (UTF-8)") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(f"{path}{where}: not YAML: {getattr(error, 'problem', error)}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deeply") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected keys and values, found {type(content).__name__}")
    return parse(content, shape, str(path))


def parse(content: dict[str, Any], shape: type[T], where: str) -> T:
    """`content` as a `shape`; `where` names it in errors."""
    _refuse_unknown_keys(content, shape, where, "")
    try:
        result: T = TypeAdapter(shape).validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        text = first["msg"].removeprefix("Value error, ")
        found = f" (found {first['input']!r:.60})" if first["type"] not in ("value_error", "missing") else ""
        raise ConfigError(f"{where}: {key + ': ' if key else ''}{text}{found}") from error
    return result


def _refuse_unknown_keys(content: dict[str, Any], shape: Any, where: str, prefix: str) -> None:
    fields = _fields(shape)
    for key, value in content.items():
        if key not in fields:
            near = difflib.get_close_matches(str(key), fields, n=1, cutoff=0.5)
            hint = f"did you mean '{near[0]}'?" if near else f"possible: {', '.join(fields)}"
            raise ConfigError(f"{where}: unknown key '{prefix}{key}'; {hint}")
        if isinstance(value, dict):
            inner = next((kind for kind in (fields[key], *get_args(fields[key])) if _fields(kind)), None)
            if inner is not None:
                _refuse_unknown_keys(value, inner, where, f"{prefix}{key}.")


def _fields(shape: Any) -> dict[str, Any]:
    """Field names and types of a pydantic model or a dataclass; {} for anything else."""
    if isinstance(shape, type) and issubclass(shape, BaseModel):
        return {name: field.annotation for name, field in shape.model_fields.items()}
    if isinstance(shape, type) and hasattr(shape, "__dataclass_fields__"):
        from typing import get_type_hints

        return get_type_hints(shape)
    return {}


def _as_list(value: object) -> object:
    return value if isinstance(value, list) else [value]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")

    source: str
    weights: Path | None = None
    trust: bool = False


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid")

    source: str | None = None
    task: Task | None = None
    calibration: int | str = 100
    calibration_samples: int | None = None
    evaluation: int | None = None
    seed: int = 0
    preprocess: Preprocess | None = None


class _MatrixFile(BaseModel):
    """A matrix file as a person writes it: paths relative to the file, recipes by name, one value or a list."""

    model_config = ConfigDict(extra="forbid")

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
    from edgebench.converters.recipes import load_recipes

    said = load(path, _MatrixFile)
    home = path.parent
    calibration = said.data.calibration
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
                calibration=calibration if isinstance(calibration, int) else said.data.calibration_samples or 100,
                evaluation=said.data.evaluation,
                seed=said.data.seed,
                task=said.data.task,
                preprocess=said.data.preprocess,
            ),
            recipes=tuple(load_recipes(said.recipes)),
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
