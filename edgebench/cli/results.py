"""What a command leaves: the table or the JSON document on stdout, the pages in the run folder, the exit status."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from edgebench.errors import ConfigError

if TYPE_CHECKING:
    from edgebench.store import Store
    from edgebench.types import Budget


def open_store(folder: Path) -> Store:
    """The store of a run folder, for reading.

    Raises:
        ConfigError: the folder is not there, or is no run folder.
    """
    from edgebench.store import Store

    database = folder / "records.sqlite"
    if not database.is_file():
        what = "is not there" if not folder.exists() else "holds no records.sqlite, so it is no run folder"
        raise ConfigError(f"{folder} {what}; name the folder that --out named (default: runs/MODEL)")
    return Store.open(database, read_only=True)


def show(
    folder: Path, cells: Sequence[str], budget: Budget | None = None, *, as_json: bool = False, quiet: bool = False
) -> None:
    """Print the run, write report.html and report.md beside its records, and leave with the status of `cells`.

    Raises:
        typer.Exit: with status 1 when one of `cells` is not ok or misses the budget.
    """
    from edgebench import reports
    from edgebench.reports import budget as budgets
    from edgebench.reports.summary import summarize_all
    from edgebench.types import Status

    with open_store(folder) as store:
        run, records = store.run(), store.records()
    for format, name in (("html", "report.html"), ("markdown", "report.md")):
        (folder / name).write_text(reports.render(run, records, format), encoding="utf-8")
    asked = [row for row in summarize_all(records) if row.record.cell in set(cells)]
    judgement = budgets.judge(asked, budget)
    misses = judgement.misses if judgement else ()
    print_text(reports.render(run, records, "json" if as_json else "table", terminal_width(), judgement))
    if not quiet:
        print(f"Report: {folder / 'report.html'}   Records: {folder / 'records.sqlite'}", file=sys.stderr)
    for miss in misses:
        print(f"budget missed: {miss}", file=sys.stderr)
    if misses or any(row.record.status is not Status.OK for row in asked):
        raise typer.Exit(1)


def terminal_width() -> int:
    """Columns as the variable COLUMNS says, else those of the terminal; 120 where stdout is none."""
    import shutil

    return shutil.get_terminal_size(fallback=(120, 24)).columns


def print_text(text: str) -> None:
    """Print a rendered view as it is."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()
