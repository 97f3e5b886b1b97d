"""Views of records: each is a function from records to text, and can be made again at any time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgebench.errors import ConfigError
from edgebench.store import RunInfo
from edgebench.types import Record

if TYPE_CHECKING:
    from edgebench.reports.budget import Judgement

FORMATS = ("table", "markdown", "csv", "json", "html")


def render(
    run: RunInfo | None,
    records: Sequence[Record],
    format: str,
    width: int = 120,
    judgement: Judgement | None = None,
) -> str:
    """The records as one text in a format of `FORMATS`; `width` counts the columns that `table` may use.

    Of records that no column tells apart, all but the latest are left out, except of `json`. `judgement` is what a
    command found of its budget, for `json`; None judges the run's.

    Raises:
        ConfigError: there is no such format.
    """
    if format not in FORMATS:
        raise ConfigError(f"there is no report format '{format}'; possible: {', '.join(FORMATS)}")
    if format == "json":
        from edgebench.reports.document import to_document

        return to_document(run, records, judgement)
    from edgebench.reports.shown import shown

    view = shown(run, records)
    if format == "table":
        from edgebench.reports.table import to_table

        return to_table(view, width)
    if format == "markdown":
        from edgebench.reports.markdown import to_markdown

        return to_markdown(view)
    if format == "csv":
        from edgebench.reports.csv_view import to_csv

        return to_csv(view.rows)
    from edgebench.reports.html import to_html

    return to_html(view)
