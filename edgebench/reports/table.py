"""The terminal view. A table too wide for the terminal continues below itself, so that no figure is ever cut."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from edgebench.reports import grid
from edgebench.reports.notation import one_line
from edgebench.reports.summary import Row
from edgebench.store import RunInfo
from edgebench.types import Caution

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
        for part in _parts(grid.columns(rows), width):
            console.print()
            console.print(_rich_table(part, width))
        console.print()
    for line in grid.legend(rows):
        console.print(Text(line))
    _print_cautions(console, run, rows)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _parts(columns: Sequence[grid.Column], width: int) -> list[list[grid.Column]]:
    """The columns in as many tables as the width needs, each beginning with the recipe; several number their lines."""
    if sum(_needs(column) for column in columns) <= width:
        return [list(columns)]
    recipe, *others = columns
    name = grid.Column(recipe.title, tuple(f"{i}. {cell}" for i, cell in enumerate(recipe.cells, 1)), is_number=False)
    room = width - min(_needs(name), max(width // 3, 8))
    parts = [[name]]
    left = room
    for column in others:
        if _needs(column) > left and len(parts[-1]) > 1:
            parts.append([name])
            left = room
        parts[-1].append(column)
        left -= _needs(column)
    return parts


def _needs(column: grid.Column) -> int:
    widest = max(cell_len(text) for text in (column.title, *column.cells))
    if not column.is_number:
        widest = min(widest, _OUTCOME_WIDTH if column.title == "trust" else _NAME_WIDTH)
    return widest + _GAP


def _rich_table(columns: Sequence[grid.Column], width: int) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for column in columns:
        if column.is_number:
            fits = min(_needs(column), width // 2)
            table.add_column(Text(column.title), justify="right", overflow="fold", min_width=fits - _GAP)
        else:
            table.add_column(Text(column.title), overflow="fold")
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _print_cautions(console: Console, run: RunInfo | None, rows: Sequence[Row]) -> None:
    """Each kind of caution once, by its first; a noisy machine gives one of each kind to every row."""
    doubts = grid.doubts(run, rows)
    if doubts:
        console.print(Text("\nCautions"))
    by_code: dict[str, list[Caution]] = {}
    for caution in doubts:
        by_code.setdefault(caution.code, []).append(caution)
    for code, (first, *others) in by_code.items():
        about = ", ".join(dict.fromkeys(label for caution in (first, *others) for label in doubts[caution]))
        more = f" [{doubts[first][0]}; the figures of the others: --format markdown]" if others else ""
        text = Text(f"{one_line(code)} ({about}): {one_line(first.message)}{more}", overflow="fold")
        console.print(Padding(text, (0, 0, 0, 2)))
