"""YAML files read into typed values. An unknown key is an error that suggests the nearest known one."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

from edgebench.errors import ConfigError

T = TypeVar("T")


def load(path: Path, shape: type[T]) -> T:
    """The YAML file at `path` as a `shape`: a pydantic model, or one of our dataclasses.

    Raises:
        ConfigError: the file can't be read, is no YAML mapping, or holds a wrong or unknown key; says which and where.
    """
    return parse(read(path), shape, str(path))


def read(path: Path) -> dict[str, Any]:
    """The keys and values of the YAML file at `path`; raises ConfigError as `load` does."""
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
        raise ConfigError(f"{path}: expected keys and values, found {content!r:.40}")
    return content


def parse(content: dict[str, Any], shape: type[T], where: str) -> T:
    """`content` as a `shape`; `where` names it in errors."""
    _refuse_unknown_keys(content, shape, where, "")
    try:
        result: T = TypeAdapter(shape).validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        text = first["msg"].removeprefix("Value error, ")
        if first["type"] == "missing":
            text = "is missing"
        elif first["type"] in ("model_type", "dataclass_type"):
            text = "needs keys and values, {key: value}"
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
        return get_type_hints(shape)
    return {}
