"""What a row of the terminal table is called, so that each part of a split table tells the rows apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from edgebench.reports.grid import Column
from edgebench.reports.notation import MISSING

# In the order in which they follow the recipe's name.
_SAID: dict[str, Callable[[str], str]] = {
    "model": lambda text: f" of {text}",
    "device": lambda text: f" on {text}",
    "threads": lambda text: f", {text} thread{'' if text == '1' else 's'}",
    "batch": lambda text: ", open batch" if text == "open" else f", batch {text}",
    "runtime": lambda text: f", {text}",
    "delegate": lambda text: f", {text}",
}
# These follow from the recipe in most runs; they are in a name only where rows of one recipe differ in them.
_MOSTLY_OF_THE_RECIPE = ("model", "runtime", "delegate")


def named(columns: Sequence[Column], baselines: int) -> list[Column]:
    """The columns of a grid with its rows numbered and what tells them apart in their names, not in columns.

    A column that a row's name has taken in is left out; the first `baselines` lines have no number.
    """
    recipe, *others = columns
    names = list(recipe.cells)
    for part, said in _SAID.items():
        column = next((one for one in others if one.is_name and one.title == part), None)
        if column is None or (part in _MOSTLY_OF_THE_RECIPE and not _differs(recipe, column, baselines)):
            continue
        others.remove(column)
        names = [name if text == MISSING else name + said(text) for name, text in zip(names, column.cells, strict=True)]
    digits = len(str(len(names) - baselines))
    floats = [f"{'':{digits}}  {name}" for name in names[:baselines]]
    rows = [f"{i:{digits}}. {name}" for i, name in enumerate(names[baselines:], 1)]
    return [replace(recipe, cells=(*floats, *rows)), *others]


def _differs(recipe: Column, column: Column, baselines: int) -> bool:
    pairs = set(zip(recipe.cells[baselines:], column.cells[baselines:], strict=True))
    return len(pairs) > len(set(recipe.cells[baselines:]))
