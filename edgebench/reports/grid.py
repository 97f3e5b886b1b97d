"""The columns that the terminal, Markdown and HTML tables share, and the notes that go with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgebench.reports import notation
from edgebench.reports.summary import Latency, Row
from edgebench.store import RunInfo
from edgebench.types import Caution, Estimate, Origin, Status


@dataclass(frozen=True, slots=True)
class Column:
    """A title and one text for each row; names tell rows apart, numbers are aligned to the right."""

    title: str
    cells: tuple[str, ...]
    is_number: bool = True
    is_name: bool = False


_IDENTITY: dict[str, Callable[[Row], str]] = {
    "model": lambda row: notation.one_line(row.record.model),
    "device": lambda row: notation.one_line(row.record.device),
    "runtime": lambda row: notation.one_line(row.record.runtime),
    "delegate": lambda row: notation.one_line(row.record.delegate),
    "threads": lambda row: str(row.record.threads),
    "batch": lambda row: "open" if row.record.batch is None else str(row.record.batch),
}


def columns(rows: Sequence[Row]) -> tuple[Column, ...]:
    """The table's columns: what tells the rows apart, then their figures. A column without a figure is left out."""
    identity = [Column("recipe", tuple(_recipe(row) for row in rows), is_number=False, is_name=True)]
    identity += [
        Column(name, tuple(text(row) for row in rows), is_number=False, is_name=True)
        for name, text in _IDENTITY.items()
        if name in _varying(rows)
    ]
    figures = [
        Column("precision", tuple(row.precision or notation.MISSING for row in rows), is_number=False),
        Column("size MB", tuple(notation.megabytes(row.size_bytes) for row in rows)),
        Column("p50 ms", tuple(latency(row, "p50") for row in rows)),
        Column("p90 ms", tuple(latency(row, "p90") for row in rows)),
        Column("speed-up", tuple(_times(row.speed_up) for row in rows)),
        _accuracy(rows),
        Column("drop pp", tuple(notation.with_interval(row.drop_pp, places=2) for row in rows)),
        Column("agreement", tuple(notation.with_interval(row.agreement) for row in rows)),
        Column("SQNR dB", tuple(notation.decibels(row.sqnr_db) for row in rows)),
        Column("peak MB", tuple(notation.megabytes(row.peak_rss_bytes) for row in rows)),
    ]
    filled = [column for column in figures if any(cell != notation.MISSING for cell in column.cells)]
    return (*identity, *filled, Column("trust", tuple(outcome(row) for row in rows), is_number=False))


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
    text = notation.with_half_width(_percentile(row.latency, percentile))
    if percentile not in row.latency.enough_for:
        text = notation.TOO_FEW + text
    return text if row.origin is Origin.MEASURED else f"{text} ({row.origin})"


def outcome(row: Row) -> str:
    """The verdict of a row with the codes of its doubts, or the stage and the reason why there is none."""
    record = row.record
    if record.status is not Status.OK:
        return notation.one_line(f"{record.status} at {record.stage}: {record.reason}")
    verdict = row.trust.verdict.value if row.trust else "not measured"
    if row.origin not in (None, Origin.MEASURED):
        verdict = f"{str(row.origin).upper()}, {verdict}"
    codes = ", ".join(dict.fromkeys(caution.code for caution in row.cautions))
    return f"{verdict}: {codes}" if codes else verdict


def legend(rows: Sequence[Row]) -> tuple[str, ...]:
    """What the marks of these rows mean, one line each."""
    lines = []
    if any(row.latency for row in rows):
        lines.append("±: the wider side of the 95 % interval; latencies of all rounds, warm-up apart.")
    if any(row.latency and not {"p50", "p90"} <= set(row.latency.enough_for) for row in rows):
        lines.append("~: too few samples to tell this percentile; measure longer (more rounds or runs).")
    if any(row.speed_up for row in rows):
        lines.append("speed-up: against the fp32 file of the same format, runtime and conditions, paired by round.")
    if any(row.drop_pp for row in rows):
        lines.append("drop pp: baseline minus this file, in percentage points.")
    if any(row.sqnr_db is not None for row in rows):
        lines.append("SQNR, agreement: against the float baseline on the same samples; SQNR of the worst output.")
    if any(row.origin not in (None, Origin.MEASURED) for row in rows):
        lines.append("simulated, emulated: these latencies are not a device's.")
    return tuple(lines)


def doubts(run: RunInfo | None, rows: Sequence[Row]) -> dict[Caution, tuple[str, ...]]:
    """Each caution once, with the labels of the rows that it is about; the run's own come first."""
    found: dict[Caution, list[str]] = {caution: ["whole run"] for caution in run.cautions} if run else {}
    for row, label in zip(rows, labels(rows), strict=True):
        for caution in row.cautions:
            found.setdefault(caution, []).append(label)
    return {caution: tuple(about) for caution, about in found.items()}


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
    value, _, half_width = notation.with_half_width(ratio).partition(" ")
    is_reference = ratio.low == ratio.high
    return f"{value}×" if is_reference else f"{value}× {half_width}"


def _accuracy(rows: Sequence[Row]) -> Column:
    """The first metric of each row; its name is the title, or stands in the cell where rows have unlike metrics."""
    metrics = [(notation.one_line(row.metric[0]), row.metric[1]) if row.metric else None for row in rows]
    names = {metric[0] for metric in metrics if metric}
    if len(names) == 1:
        return Column(names.pop(), tuple(notation.with_interval(metric[1] if metric else None) for metric in metrics))
    cells = tuple(
        f"{metric[0]} {notation.with_interval(metric[1])}" if metric else notation.MISSING for metric in metrics
    )
    return Column("accuracy", cells)
