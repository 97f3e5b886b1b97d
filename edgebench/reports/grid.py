"""The columns that the terminal, Markdown and HTML tables share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from edgebench.reports import notation
from edgebench.reports.summary import Baseline, Latency, Row, baselines
from edgebench.store import RunInfo
from edgebench.types import Estimate, Origin, Status

BASELINE = "baseline"


class About(StrEnum):
    """What a column tells: which row it is, how fast, or how good."""

    NAME = "name"
    SPEED = "size and speed"
    ACCURACY = "accuracy"


@dataclass(frozen=True, slots=True)
class Column:
    """A title and a text for each line; numbers are aligned to the right.

    The lines are those of `baselines` and then one for each row. `about` groups columns where a table must be split.
    """

    title: str
    cells: tuple[str, ...]
    about: About
    is_number: bool = True

    @property
    def is_name(self) -> bool:
        return self.about is About.NAME


_IDENTITY: dict[str, Callable[[Row], str]] = {
    "model": lambda row: notation.one_line(row.record.model),
    "device": lambda row: notation.one_line(row.record.device),
    "runtime": lambda row: notation.one_line(row.record.runtime),
    "delegate": lambda row: notation.one_line(row.record.delegate),
    "threads": lambda row: str(row.record.threads),
    "batch": lambda row: "open" if row.record.batch is None else str(row.record.batch),
}


def columns(rows: Sequence[Row]) -> tuple[Column, ...]:
    """The table's columns: what tells the rows apart, then their figures. A column without a figure is left out.

    The first is the recipe, the last the verdict.
    """
    floats = baselines(rows)
    dashes = (notation.MISSING,) * len(floats)
    varying = _varying(rows)
    names = {"recipe": _recipe} | {name: text for name, text in _IDENTITY.items() if name in varying}
    identity = [
        Column(
            name,
            (*(_baseline_name(name, one) for one in floats), *(text(row) for row in rows)),
            About.NAME,
            is_number=False,
        )
        for name, text in names.items()
    ]
    figures = [
        _figure("precision", About.ACCURACY, dashes, [row.precision or notation.MISSING for row in rows], False),
        _figure("size MB", About.SPEED, dashes, [notation.megabytes(row.size_bytes) for row in rows]),
        _figure("ops on Edge TPU", About.SPEED, dashes, [_on_edgetpu(row) for row in rows]),
        _figure("p50 ms", About.SPEED, dashes, [latency(row, "p50") for row in rows]),
        _figure("p90 ms", About.SPEED, dashes, [latency(row, "p90") for row in rows]),
        _figure("mean ms, tool's own", About.SPEED, dashes, [_tool_mean(row) for row in rows]),
        _figure("speed-up", About.SPEED, dashes, [_times(row.speed_up) for row in rows]),
        _accuracy(rows, floats),
        _figure("drop pp", About.ACCURACY, dashes, [notation.with_interval(row.drop_pp, places=2) for row in rows]),
        _figure("agreement", About.ACCURACY, dashes, [notation.with_interval(row.agreement) for row in rows]),
        _figure("SQNR dB", About.ACCURACY, dashes, [notation.decibels(row.sqnr_db) for row in rows]),
        _figure("peak MB", About.SPEED, dashes, [notation.megabytes(row.peak_rss_bytes) for row in rows]),
    ]
    filled = [column for column in figures if any(cell != notation.MISSING for cell in column.cells)]
    return (*identity, *filled, _figure("trust", About.SPEED, dashes, [outcome(row) for row in rows], False))


def _on_edgetpu(row: Row) -> str:
    """The headline of a compiled file; what the CPU ran of it is not the Edge TPU's."""
    facts = row.record.artifact.edgetpu if row.record.artifact else None
    if facts is None:
        return notation.MISSING
    if facts.mapped_ops == 0:
        return f"0 of {facts.total_ops}: a CPU run"
    if row.latency and row.record.target and row.record.target.delegate == "cpu":
        return "a CPU run"
    return f"{facts.share:.0%} ({facts.mapped_ops} of {facts.total_ops})"


def _figure(
    title: str, about: About, baseline: tuple[str, ...], cells: Sequence[str], is_number: bool = True
) -> Column:
    return Column(title, (*baseline, *cells), about, is_number)


def _baseline_name(part: str, baseline: Baseline) -> str:
    if part == "recipe":
        return BASELINE
    return notation.one_line(baseline.model) if part == "model" else notation.MISSING


def constants(rows: Sequence[Row]) -> dict[str, str]:
    """What all rows share, by name, which is said once and needs no column."""
    varying = _varying(rows)
    return {name: text(rows[0]) for name, text in _IDENTITY.items() if rows and name not in varying}


def labels(rows: Sequence[Row]) -> tuple[str, ...]:
    """The shortest name of each row that tells it from the others."""
    names = [_recipe(row) for row in rows]
    for part, text in _IDENTITY.items():
        texts = [text(row) for row in rows]
        alike: dict[str, set[str]] = {}
        for name, found in zip(names, texts, strict=True):
            alike.setdefault(name, set()).add(found)
        names = [
            f"{name} · {_named(part, found)}" if len(alike[name]) > 1 else name
            for name, found in zip(names, texts, strict=True)
        ]
    return tuple(names)


def latency(row: Row, percentile: str) -> str:
    """A percentile in ms with its interval; marked where samples are too few or it is not measured on hardware."""
    if row.latency is None:
        return notation.MISSING
    text = notation.with_margin(_percentile(row.latency, percentile))
    if percentile not in row.latency.enough_for:
        text = notation.TOO_FEW + text
    return text if row.origin is Origin.MEASURED else f"{text} ({row.origin})"


def _tool_mean(row: Row) -> str:
    """An official program's own mean, with the runs that it is of; not a percentile, so in a column of its own."""
    if row.tool_mean_ms is None:
        return notation.MISSING
    text = f"{notation.with_margin(row.tool_mean_ms)} of {row.tool_mean_ms.n} runs"
    return text if row.origin is Origin.MEASURED else f"{text} ({row.origin})"


def outcome(row: Row) -> str:
    """The verdict on a row's latency, or the stage and the reason why there is none. Doubts stand under the table."""
    record = row.record
    if record.status is not Status.OK:
        return notation.one_line(f"{record.status} at {record.stage}: {record.reason}")
    verdict = row.trust.verdict.value if row.trust else "not measured"
    if row.origin not in (None, Origin.MEASURED):
        verdict = f"{str(row.origin).upper()}, {verdict}"
    return verdict


def heading(run: RunInfo | None, rows: Sequence[Row]) -> tuple[str, ...]:
    """What was measured, in a line or two: the run, and what all rows share."""
    lines = []
    if run:
        on = f" on {run.data}" if run.data else ""
        lines.append(notation.one_line(f"{run.name}: {run.model}{on}, {run.created_at}"))
    lines.append(" · ".join(f"{name} {text}" for name, text in constants(rows).items()))
    return tuple(line for line in lines if line)


def _varying(rows: Sequence[Row]) -> set[str]:
    return {name for name, text in _IDENTITY.items() if len({text(row) for row in rows}) > 1}


def _recipe(row: Row) -> str:
    """The recipe's name; for a file that the user brought, the file's."""
    record = row.record
    file = record.artifact.files[0].rpartition("/")[2] if record.artifact else record.model
    return notation.one_line(record.recipe or file)


def _named(name: str, text: str) -> str:
    return f"{name} {text}" if name in ("threads", "batch") else text


def _percentile(latency: Latency, name: str) -> Estimate:
    return {"p50": latency.p50_ms, "p90": latency.p90_ms, "p99": latency.p99_ms}[name]


def _times(ratio: Estimate | None) -> str:
    if ratio is None:
        return notation.MISSING
    value, _, margin = notation.with_margin(ratio).partition(" ")
    is_reference = ratio.low == ratio.high
    return f"{value}×" if is_reference else f"{value}× {margin}"


def _accuracy(rows: Sequence[Row], floats: Sequence[Baseline]) -> Column:
    """The first metric of each line; its name is the title, or stands in the cell where lines have unlike metrics."""
    metrics: list[tuple[str, Estimate | None]] = [(notation.one_line(one.metric), one.estimate) for one in floats]
    metrics += [(notation.one_line(row.metric[0]), row.metric[1]) if row.metric else ("", None) for row in rows]
    names = {name for name, estimate in metrics if estimate}
    is_one = len(names) == 1
    cells = tuple(
        f"{'' if is_one else f'{name} '}{notation.with_interval(estimate)}" if estimate else notation.MISSING
        for name, estimate in metrics
    )
    return Column(names.pop() if is_one else "accuracy", cells, About.ACCURACY)
