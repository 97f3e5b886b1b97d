"""Plain tables on stdout, of cells that are shown as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgebench.cli import results

if TYPE_CHECKING:
    from rich.table import Table


def table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD)
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def row(table: Table, *cells: str) -> None:
    """A row of cells as they are: names from files are not markup."""
    from rich.text import Text

    table.add_row(*(Text(cell) for cell in cells))


def print_table(table: Table) -> None:
    from rich.console import Console

    Console(width=results.terminal_width()).print(table)
