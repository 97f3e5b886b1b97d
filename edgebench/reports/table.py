"""The terminal view. A table too wide for the terminal becomes several by subject, so that no figure is ever cut."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from edgebench.reports import grid, notes
from edgebench.reports.grid import About, Column
from edgebench.reports.notation import MISSING
from edgebench.reports.summary import Row, baselines
from edgebench.store import RunInfo

_GAP = 2
# Names and verdicts wrap past these widths, and are given what is left of the line; figures never wrap.
_NAME_WIDTH = 32
_OUTCOME_WIDTH = 28


def to_table(run: RunInfo | None, rows: Sequence[Row], width: int) -> str:
    """The rows as text of at most `width` columns, followed by what the marks and the cautions mean."""
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, force_terminal=False, markup=False, emoji=False)
    for line in grid.heading(run, rows):
        console.print(Text(line))
    if not rows:
        console.print(Text("no records"))
    else:
        for title, part in _parts(_numbered(grid.columns(rows), len(baselines(rows))), width):
            console.print()
            if title:
                console.print(Text(title))
            console.print(_rich_table(part, width))
        console.print()
    for line in notes.legend(rows):
        console.print(Text(line))
    _print_cautions(console, run, rows)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _numbered(columns: Sequence[Column], baselines: int) -> list[Column]:
    """The columns with the rows numbered, for the parts of a split table and the cautions to name them by.

    Where the devices differ, a row's name has its device, so that each part of a split table tells it.
    """
    recipe, *others = columns
    names, rows = recipe.cells[:baselines], recipe.cells[baselines:]
    device = next((column for column in others if column.title == "device"), None)
    if device is not None:
        rows = tuple(f"{name} on {where}" for name, where in zip(rows, device.cells[baselines:], strict=True))
        others.remove(device)
    digits = len(str(len(rows)))
    numbered = [f"{i:{digits}}. {name}" for i, name in enumerate(rows, 1)]
    return [replace(recipe, cells=(*(f"{'':{digits}}  {name}" for name in names), *numbered)), *others]


def _parts(columns: Sequence[Column], width: int) -> Iterator[tuple[str, list[Column]]]:
    """The columns in as many titled tables as the width needs, each beginning with the recipe.

    First a table a subject; then, where one is still too wide, it goes on below itself.
    """
    if _width(columns) <= width:
        yield "", list(columns)
        return
    name, *others = columns
    where = [column for column in others if column.about is About.NAME]
    for about in (About.SPEED, About.ACCURACY):
        told = [column for column in others if column.about is about]
        if about is About.SPEED:  # where a file ran goes with its speed, and comes last where that must be split
            told = [*where, *told] if _width([name, *where, *told]) <= width else [*_verdict_early(told), *where]
        for place, part in enumerate(_fitted(name, told, width)):
            yield f"{about.value.capitalize()}{', continued' if place else ''}", part


def _verdict_early(columns: Sequence[Column]) -> list[Column]:
    """The verdict right after the latencies that it is about."""
    *others, verdict = columns
    after = max((i for i, column in enumerate(others, 1) if column.title in ("p50 ms", "p90 ms")), default=len(others))
    return [*others[:after], verdict, *others[after:]]


def _fitted(name: Column, columns: Sequence[Column], width: int) -> Iterator[list[Column]]:
    room = width + _GAP - min(_needs(name), max(width // 3, 8))
    part, left = [name], room
    for column in columns:
        if _needs(column) > left and len(part) > 1:
            yield part
            part, left = [name], room
        part.append(column)
        left -= _needs(column)
    if len(part) > 1:
        yield part


def _width(columns: Sequence[Column]) -> int:
    return sum(map(_needs, columns)) - _GAP


def _needs(column: Column) -> int:
    widest = max(cell_len(text) for text in (column.title, *column.cells))
    if not column.is_number:
        widest = min(widest, _OUTCOME_WIDTH if column.title == "trust" else _NAME_WIDTH)
    return widest + _GAP


def _rich_table(columns: Sequence[Column], width: int) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for column in columns:
        if column.is_number:
            fits = _needs(column) <= width // 2  # what is wider than half of the line folds
            table.add_column(Text(column.title), justify="right", overflow="fold", no_wrap=fits)
        else:
            table.add_column(Text(column.title), overflow="fold")
    for cells in zip(*(column.cells for column in columns), strict=True):
        if cells[0].strip() == grid.BASELINE and set(cells[1:]) == {MISSING}:
            continue  # it has no speed
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _print_cautions(console: Console, run: RunInfo | None, rows: Sequence[Row]) -> None:
    """One line for each kind of caution; a noisy machine gives one of each kind to every row."""
    doubts = notes.doubts(run, rows)
    if doubts:
        console.print(Text("\nCautions, each with what to do (what was found: --format html)"))
    for doubt in doubts:
        text = Text(f"{doubt.code} ({_rows(doubt, len(rows))}): {doubt.told}", overflow="fold")
        console.print(Padding(text, (0, 0, 0, 2)))


def _rows(doubt: notes.Doubt, count: int) -> str:
    if not doubt.rows:
        return notes.WHOLE_RUN
    if len(doubt.rows) == count > 1:
        return "all rows"
    return f"row{'s' if len(doubt.rows) > 1 else ''} {', '.join(str(place + 1) for place in doubt.rows)}"
