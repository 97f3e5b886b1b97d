"""Views of records: each is a function from records to text, and can be made again at any time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgebench.errors import ConfigError
from edgebench.store import RunInfo
from edgebench.types import Record

if TYPE_CHECKING:
    from edgebench.reports.budget import Miss

FORMATS = ("table", "markdown", "csv", "json", "html")


def render(
    run: RunInfo | None,
    records: Sequence[Record],
    format: str,
    width: int = 120,
    misses: Sequence[Miss] | None = None,
) -> str:
    """The records as one text in a format of `FORMATS`; `width` counts the columns that `table` may use.

    `misses` are what a budget's check found, for `json`; None where there is no budget.

    Raises:
        ConfigError: there is no such format.
    """
    if format not in FORMATS:
        raise ConfigError(f"there is no report format '{format}'; possible: {', '.join(FORMATS)}")
    from edgebench.reports.summary import summarize_all

    rows = summarize_all(records)
    if format == "table":
        from edgebench.reports.table import to_table

        return to_table(run, rows, width)
    if format == "markdown":
        from edgebench.reports.markdown import to_markdown

        return to_markdown(run, rows)
    if format == "csv":
        from edgebench.reports.csv_view import to_csv

        return to_csv(rows)
    if format == "json":
        from edgebench.reports.document import to_document

        return to_document(run, rows, misses)
    from edgebench.reports.html import to_html

    return to_html(run, rows)
