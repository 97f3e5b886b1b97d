"""YAML files read into typed values. An unknown key is an error that suggests the nearest known one."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

from edgebench.errors import ConfigError

T = TypeVar("T")

KeyPath = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The keys and values of a YAML file, and the line on which each key stands."""

    path: Path
    content: dict[str, Any]
    lines: dict[KeyPath, int]

    def place(self, key: KeyPath) -> str:
        """The file and the line of a key, or of the nearest one around it that has a line, as errors begin."""
        while key and key not in self.lines:
            key = key[:-1]
        return f"{self.path} line {self.lines[key]}" if key else str(self.path)


def load(path: Path, shape: type[T]) -> T:
    """The YAML file at `path` as a `shape`: a pydantic model, or one of our dataclasses.

    Raises:
        ConfigError: the file can't be read, is no YAML mapping, or holds a wrong, unknown or repeated key; says which
            and where.
    """
    return parse(read(path), shape)


def read(path: Path) -> Document:
    """The keys and values of the YAML file at `path`; raises ConfigError as `load` does."""
    try:
        loader = yaml.SafeLoader(path.read_text(encoding="utf-8"))
        try:
            node = loader.get_single_node()
            lines = _lines(node, path)
            content = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
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
    return Document(path=path, content=content, lines=lines)


def parse(document: Document, shape: type[T]) -> T:
    """The document as a `shape`; raises ConfigError as `load` does."""
    _check_keys(document, document.content, shape, ())
    try:
        result: T = TypeAdapter(shape).validate_python(document.content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = tuple(str(part) for part in first["loc"])
        text = first["msg"].removeprefix("Value error, ")
        if first["type"] == "missing":
            text = "is missing"
        elif first["type"] in ("model_type", "dataclass_type"):
            text = "needs keys and values, {key: value}"
        found = f" (found {first['input']!r:.60})" if first["type"] not in ("value_error", "missing") else ""
        raise ConfigError(f"{document.place(key)}: {'.'.join(key) + ': ' if key else ''}{text}{found}") from error
    return result


def _lines(root: yaml.Node | None, path: Path) -> dict[KeyPath, int]:
    """The line of each key, counted from 1. YAML itself would take the last of two equal keys without a word."""
    found: dict[KeyPath, int] = {}
    seen: set[int] = set()  # an alias leads to a node again, and may lead in circles

    def visit(node: yaml.Node | None, above: KeyPath) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            for item in node.value:
                visit(item, above)
        if not isinstance(node, yaml.MappingNode):
            return
        here: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # refused when it is made a dict's key
            line = key.start_mark.line + 1
            name = (*above, key.value)
            if (key.tag, key.value) in here:
                earlier = here[key.tag, key.value]
                raise ConfigError(
                    f"{path} line {line}: key '{'.'.join(name)}' is there twice, first in line {earlier}; keep one"
                )
            here[key.tag, key.value] = line
            found.setdefault(name, line)
            visit(value, name)

    visit(root, ())
    return found


def _check_keys(document: Document, content: dict[str, Any], shape: Any, above: KeyPath) -> None:
    """Raise ConfigError for a key that `shape` does not have, and for a yes or no where it takes none."""
    fields = _fields(shape)
    for key, value in content.items():
        path = (*above, str(key))
        name = ".".join(path)
        if key not in fields:
            near = difflib.get_close_matches(str(key), fields, n=1, cutoff=0.5)
            hint = f"did you mean '{near[0]}'?" if near else f"possible: {', '.join(fields)}"
            raise ConfigError(f"{document.place(path)}: unknown key '{name}'; {hint}")
        kinds = list(_kinds(fields[key]))
        # Pydantic would take true for 1.
        values = value if isinstance(value, list) else [value]
        if bool not in kinds and any(isinstance(each, bool) for each in values):
            wanted = "give a number" if int in kinds or float in kinds else "put it in quotes if it is a text"
            raise ConfigError(f"{document.place(path)}: {name}: yes and no (true, false) are no value here; {wanted}")
        inner = next((kind for kind in kinds if _fields(kind)), None)
        if isinstance(value, dict) and inner is not None:
            _check_keys(document, value, inner, path)


def _kinds(annotation: Any) -> Iterator[Any]:
    """The types that an annotation is made of, itself first: `tuple[int, ...] | None` has int."""
    yield annotation
    for part in get_args(annotation):
        yield from _kinds(part)


def _fields(shape: Any) -> dict[str, Any]:
    """Field names and types of a pydantic model or a dataclass; {} for anything else."""
    if isinstance(shape, type) and issubclass(shape, BaseModel):
        return {name: field.annotation for name, field in shape.model_fields.items()}
    if isinstance(shape, type) and hasattr(shape, "__dataclass_fields__"):
        return get_type_hints(shape)
    return {}
