"""What the views for people show: of equal rows the latest, how many earlier ones there are, and the budget's part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.reports import budget
from edgebench.reports.summary import Row, summarize_all
from edgebench.store import RunInfo
from edgebench.types import Record

NO_RECORDS = (
    "This run has no record yet: its command failed or was stopped before the first one. "
    "Mend what it said and give it again; it goes on where it was."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A run as tables show it. `earlier` counts records that are left out because a later one has all of their names.

    `budget` says for each limit what became of it; empty where none is set.
    """

    run: RunInfo | None
    rows: tuple[Row, ...]
    earlier: int
    budget: tuple[str, ...]


def shown(run: RunInfo | None, records: Sequence[Record]) -> Shown:
    """The latest records as rows, with what stands under the table about those left out."""
    current = latest(records)
    rows = summarize_all(current)
    judgement = budget.judge(rows, run.budget) if run and rows else None
    return Shown(
        run=run,
        rows=rows,
        earlier=len(records) - len(current),
        budget=budget.told(judgement) if judgement else (),
    )


def latest(records: Sequence[Record]) -> tuple[Record, ...]:
    """Of records that no column of a table tells apart, the latest; one without a latency yields to one that asked.

    Such records differ in their plan, or in settings of their recipe or data. They keep the place of the first.
    """
    found: dict[tuple[object, ...], Record] = {}
    for record in records:
        known = found.setdefault(_names(record), record)
        if (record.plan is not None, record.at) >= (known.plan is not None, known.at):
            found[_names(record)] = record
    return tuple(found.values())


def earlier_line(count: int) -> str:
    """How many records a view leaves out and where they are; empty for none."""
    if not count:
        return ""
    what = "1 earlier measurement" if count == 1 else f"{count} earlier measurements"
    return f"{what} of these rows by another plan or other settings: --format json"


def _names(record: Record) -> tuple[object, ...]:
    file = record.artifact.sha256 if record.recipe is None and record.artifact else None
    return (
        record.model,
        record.recipe,
        file,
        record.device,
        record.runtime,
        record.target.delegate if record.target else record.delegate,
        record.threads,
        record.batch,
    )
