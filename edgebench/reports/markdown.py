"""The Markdown view (GitHub's dialect), for issues, pull requests and read-mes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from edgebench.reports import grid, notes
from edgebench.reports.notation import one_line
from edgebench.reports.shown import NO_RECORDS, Shown, earlier_line


def to_markdown(shown: Shown) -> str:
    """One table, what its marks mean, the budget, the cautions, and the command that made it."""
    run, rows = shown.run, shown.rows
    parts = [_escaped(line) for line in grid.heading(run, rows)]
    parts.append(_table(grid.columns(rows)) if rows else NO_RECORDS)
    parts += _bullets([line for line in (*notes.legend(rows), earlier_line(shown.earlier)) if line])
    if shown.budget:
        parts += ["### Budget", *_bullets(shown.budget)]
    doubts = [
        f"**{_escaped(doubt.code)}** ({_escaped(notes.where(doubt, rows))}): {_escaped(doubt.told)}"
        for doubt in notes.doubts(run, rows)
    ]
    if doubts:
        parts += ["### Cautions and what to do", "\n".join(f"- {line}" for line in doubts)]
    if run and run.command:
        parts += ["### Reproduce", _code(one_line(shlex.join(run.command)))]
        if asked := notes.asked(run, rows):
            parts.append(f"The file asks: {_escaped(asked)}")
    return "\n\n".join(parts) + "\n"


def _table(columns: Sequence[grid.Column]) -> str:
    rule = ["---:" if column.is_number else "---" for column in columns]
    body = zip(*(column.cells for column in columns), strict=True)
    lines = [[_escaped(column.title) for column in columns], rule, *([_escaped(cell) for cell in row] for row in body)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _bullets(lines: Sequence[str]) -> list[str]:
    return ["\n".join(f"- {_escaped(line)}" for line in lines)] if lines else []


def _escaped(text: str) -> str:
    """The text as itself: nothing in it begins a cell, a link, HTML or emphasis."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_~|\[#])", r"\\\1", text)


def _code(line: str) -> str:
    """A code block whose fence is longer than any run of backticks inside it."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", line)), default=0))
    return f"{fence}sh\n{line}\n{fence}"
