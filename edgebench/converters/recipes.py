"""Recipes: the YAML files that say what to turn a baseline into, read into `Recipe` values."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from edgebench import catalogue_files, yaml_files
from edgebench.errors import ConfigError
from edgebench.types import Format, Recipe, Scheme


def catalogue() -> dict[str, Recipe]:
    """Every recipe by name: the user's `./converters/*.yaml`, then the shipped ones that it does not replace.

    Raises:
        ConfigError: a file is wrong; the message names it.
    """
    return {name: _read(path) for name, path in sorted(_files().items())}


def default_recipes() -> list[Recipe]:
    """Those that are taken when the user names none: TFLite before ONNX, float first, then by name."""
    chosen = [recipe for recipe in catalogue().values() if recipe.default]
    return sorted(
        chosen, key=lambda recipe: (recipe.format is Format.ONNX, list(Scheme).index(recipe.scheme), recipe.name)
    )


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
    document = yaml_files.read(path)
    if "name" in document.content:
        raise ConfigError(f"{document.place(('name',))}: a recipe is named by its file; drop the key 'name'")
    return yaml_files.parse(replace(document, content={**document.content, "name": path.stem}), Recipe)


def _did_you_mean(word: str, known: Collection[str]) -> str:
    """The recipe of this name for each format where the format was left out, else the nearest name."""
    near = [f"{format}-{word}" for format in Format if f"{format}-{word}" in known]
    near = near or difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f", did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
