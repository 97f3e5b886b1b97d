"""Recipes: the YAML files that say what to turn a baseline into, read into `Recipe` values."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from typing import Any

from edgebench import catalogue_files
from edgebench.errors import ConfigError
from edgebench.types import Calibration, Recipe


def catalogue() -> dict[str, Recipe]:
    """Every recipe by name: the user's `./converters/*.yaml`, then the shipped ones that it does not replace.

    Raises:
        ConfigError: a file is wrong; the message names it.
    """
    return {name: _read(path) for name, path in sorted(_files().items())}


def load_recipes(names: list[str]) -> list[Recipe]:
    """The recipes in the order of `names`; each is a catalogue name or a path to a YAML file.

    Raises:
        ConfigError: there is no such recipe, two have one name, or a file is wrong.
    """
    files = _files()
    recipes = [_read(_find(name, files)) for name in names]
    seen: set[str] = set()
    for recipe in recipes:
        if recipe.name in seen:
            raise ConfigError(f"recipe '{recipe.name}' is asked for twice; name each once")
        seen.add(recipe.name)
    return recipes


def _files() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in catalogue_files.folders("converters"):
        for path in sorted(folder.glob("*.yaml")):
            found.setdefault(path.stem, path)
    return found


def _find(name: str, files: dict[str, Path]) -> Path:
    if name in files:
        return files[name]
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if path.is_file():
            return path
        raise ConfigError(f"recipe file '{name}' does not exist")
    raise ConfigError(f"no recipe '{name}'{_did_you_mean(name, files)}; list them with: edgebench recipes")


def _read(path: Path) -> Recipe:
    """The recipe in a YAML file; its name is the file's, without the suffix."""
    import yaml
    from pydantic import TypeAdapter, ValidationError

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"recipe file {path} can't be read: {_one_line(error)}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"recipe file {path} must hold keys and values (format: ..., scheme: ...), not {content!r}")
    _refuse_unknown_keys(content, [f.name for f in fields(Recipe) if f.name != "name"], path, "")
    if isinstance(content.get("calibration"), dict):
        _refuse_unknown_keys(content["calibration"], [f.name for f in fields(Calibration)], path, "calibration.")
    try:
        return TypeAdapter(Recipe).validate_python({**content, "name": path.stem})
    except ValidationError as error:
        raise ConfigError(f"recipe file {path}: {_first_problem(error.errors()[0])}") from error


def _refuse_unknown_keys(content: dict[Any, Any], known: Collection[str], path: Path, prefix: str) -> None:
    for key in content:
        if key not in known:
            hint = _did_you_mean(str(key), known)
            raise ConfigError(
                f"recipe file {path}: unknown key '{prefix}{key}'{hint}; known keys: {', '.join(sorted(known))}"
            )


def _did_you_mean(word: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f", did you mean '{near[0]}'?" if near else ""


def _first_problem(problem: Any) -> str:
    """One of pydantic's problems as `key: what is wrong`; an impossible combination already says it all."""
    if problem["type"] == "value_error":
        return _one_line(problem["ctx"]["error"])
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"].startswith("missing"):
        return f"key '{key}' is missing"
    return f"{key}: {_one_line(problem['msg'])}, not {problem['input']!r}"


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
