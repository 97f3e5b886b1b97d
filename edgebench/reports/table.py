"""The terminal view. A table too wide for the terminal becomes several by subject, so that no figure is ever cut."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from edgebench.reports import grid, notes
from edgebench.reports.grid import About, Column
from edgebench.reports.notation import MISSING
from edgebench.reports.row_names import named
from edgebench.reports.shown import NO_RECORDS, Shown, earlier_line
from edgebench.reports.summary import Row, baselines
from edgebench.store import RunInfo

_GAP = 2
# Names and verdicts wrap past these widths, and are given what is left of the line; figures never wrap.
_NAME_WIDTH = 32
_OUTCOME_WIDTH = 28
_NARROW_OUTCOME_WIDTH = 18
_LATENCIES = ("p50 ms", "mean ms, tool's own")


def to_table(shown: Shown, width: int) -> str:
    """The rows as text of at most `width` columns, then what the marks mean, the budget and the cautions."""
    run, rows = shown.run, shown.rows
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, force_terminal=False, markup=False, emoji=False)
    for line in grid.heading(run, rows):
        console.print(Text(line))
    if not rows:
        console.print(Text(NO_RECORDS))
    else:
        for title, part in _parts(named(grid.columns(rows), len(baselines(rows))), width):
            console.print()
            if title:
                console.print(Text(title))
            console.print(_rich_table(part, width))
        console.print()
    for line in notes.legend(rows):
        console.print(Text(line))
    if earlier := earlier_line(shown.earlier):
        console.print(Text(earlier))
    if shown.budget:
        console.print(Text("\nBudget"))
    for line in shown.budget:
        console.print(Padding(Text(line, overflow="fold"), (0, 0, 0, 2)))
    _print_cautions(console, run, rows)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _parts(columns: Sequence[Column], width: int) -> Iterator[tuple[str, list[Column]]]:
    """The columns in as many titled tables as the width needs, each beginning with the recipe.

    First a table a subject; then, where one is still too wide, it goes on below itself.
    """
    if _width(columns) <= width:
        yield "", list(columns)
        return
    name, *others = columns
    parts = [
        (f"{about.value.capitalize()}{', continued' if place else ''}", part)
        for about in (About.SPEED, About.ACCURACY)
        for place, part in enumerate(_fitted(name, _units([one for one in others if one.about is about]), width))
    ]
    for column in others:
        if column.is_name:
            # Where a file ran goes with its speed, and into another part where there is room for it.
            roomy = (part for _, part in parts if _room(part, width) >= _needs(column))
            part = next(roomy, None)
            if part is None:
                parts.append(("Where", [name, column]))
            else:
                part.append(column)
    for title, part in parts:
        yield title, sorted(part, key=lambda column: column.title == "trust")  # last: its reasons may be long


def _units(columns: Sequence[Column]) -> Iterator[list[Column]]:
    """The columns one by one, but the verdict with the first latency, which it is about."""
    verdict = next((column for column in columns if column.title == "trust"), None)
    others = [column for column in columns if column is not verdict]
    about = next((one for one in others if one.title in _LATENCIES), None)
    for column in others:
        yield [column, verdict] if verdict and column is about else [column]
    if verdict and about is None:
        yield [verdict]


def _fitted(name: Column, units: Iterable[list[Column]], width: int) -> Iterator[list[Column]]:
    part = [name]
    for unit in units:
        if sum(map(_needs_at_least, unit)) > _room(part, width) and len(part) > 1:
            yield part
            part = [name]
        part += unit
    if len(part) > 1:
        yield part


def _room(part: Sequence[Column], width: int) -> int:
    """What is left of the line beside a part whose names and verdicts wrap."""
    name, *others = part
    return width + _GAP - min(_needs(name), max(width // 3, 8)) - sum(map(_needs_at_least, others))


def _width(columns: Sequence[Column]) -> int:
    return sum(map(_needs, columns)) - _GAP


def _needs(column: Column) -> int:
    widest = max(cell_len(text) for text in (column.title, *column.cells))
    if not column.is_number:
        widest = min(widest, _OUTCOME_WIDTH if column.title == "trust" else _NAME_WIDTH)
    return widest + _GAP


def _needs_at_least(column: Column) -> int:
    """As `_needs`, but a verdict that has a reason wraps further."""
    return min(_needs(column), _NARROW_OUTCOME_WIDTH + _GAP) if column.title == "trust" else _needs(column)


def _rich_table(columns: Sequence[Column], width: int) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for column in columns:
        if column.is_number:
            fits = _needs(column) <= width // 2  # what is wider than half of the line folds
            table.add_column(Text(column.title), justify="right", overflow="fold", no_wrap=fits)
        else:
            table.add_column(Text(column.title), overflow="fold")
    for cells in zip(*(column.cells for column in columns), strict=True):
        if cells[0].lstrip().startswith(grid.BASELINE) and set(cells[1:]) == {MISSING}:
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
