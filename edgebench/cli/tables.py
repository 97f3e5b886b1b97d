"""Plain tables on stdout, of cells that are shown as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgebench.cli import results

if TYPE_CHECKING:
    from rich.table import Table


def table(*columns: str) -> Table:
    """A table with these headings; one whose headings are all empty has no line for them."""
    from rich import box
    from rich.table import Table

    has_heading = any(columns)
    made = Table(box=box.SIMPLE_HEAD if has_heading else None, show_header=has_heading)
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def row(table: Table, *cells: str) -> None:
    """A row of cells as they are: names from files are not markup, and move no cursor."""
    from rich.text import Text

    from edgebench.naming import printable

    table.add_row(*(Text(printable(cell)) for cell in cells))


def print_table(table: Table) -> None:
    from rich.console import Console

    Console(width=results.terminal_width()).print(table)
