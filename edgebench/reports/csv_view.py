"""The CSV view: one line a cell, one plain figure a column, for spreadsheets and data frames. Missing is empty."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

from edgebench.reports.notation import one_line
from edgebench.reports.summary import Latency, Row
from edgebench.types import Artifact, Estimate, Evaluation

Cell = str | int | float | None
Figure = Callable[[Row], Cell]


def to_csv(rows: Sequence[Row]) -> str:
    """The rows with a header; units are in the names, `_low` and `_high` are 95 % intervals, `inf` is infinite.

    Figures have nine significant digits; the JSON document has them all.
    """
    columns = _COLUMNS | _tool_columns(rows) | _edgetpu_columns(rows) | _metric_columns(rows)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_written(name) for name in columns)
    writer.writerows([_written(figure(row)) for figure in columns.values()] for row in rows)
    return out.getvalue()


def _estimate(name: str, estimate: Callable[[Row], Estimate | None]) -> dict[str, Figure]:
    """The columns of an estimate: its value under its name, and the ends of its interval."""

    def part(end: str) -> Figure:
        return lambda row: getattr(estimate(row), end, None)

    return {name: part("value"), f"{name}_low": part("low"), f"{name}_high": part("high")}


def _latency(name: str) -> Figure:
    return lambda row: getattr(row.latency, name, None)


def _percentile(of: Callable[[Latency], Estimate]) -> Callable[[Row], Estimate | None]:
    return lambda row: of(row.latency) if row.latency else None


def _converted(of: Callable[[Artifact], Cell]) -> Figure:
    return lambda row: of(row.record.artifact) if row.record.artifact else None


def _evaluated(of: Callable[[Evaluation], Cell]) -> Figure:
    return lambda row: of(row.record.evaluation) if row.record.evaluation else None


_COLUMNS: dict[str, Figure] = {
    "cell": lambda row: row.record.cell,
    "status": lambda row: row.record.status.value,
    "stage": lambda row: row.record.stage,
    "reason": lambda row: row.record.reason,
    "model": lambda row: row.record.model,
    "recipe": lambda row: row.record.recipe,
    "format": lambda row: row.format,
    "precision": lambda row: row.precision,
    "size_bytes": lambda row: row.size_bytes,
    "conversion_s": _converted(lambda artifact: artifact.conversion_s),
    "conversion_peak_rss_bytes": _converted(lambda artifact: artifact.conversion_peak_rss_bytes),
    "device": lambda row: row.record.device,
    "runtime": lambda row: row.record.runtime,
    "delegate": lambda row: row.record.delegate,
    "threads": lambda row: row.record.threads,
    "batch": lambda row: row.record.batch,
    "origin": lambda row: row.origin,
    "runner": lambda row: row.record.measurement.runner if row.record.measurement else None,
    "at": lambda row: row.record.at,
    **_estimate("p50_ms", _percentile(lambda latency: latency.p50_ms)),
    **_estimate("p90_ms", _percentile(lambda latency: latency.p90_ms)),
    **_estimate("p99_ms", _percentile(lambda latency: latency.p99_ms)),
    "enough_for": lambda row: " ".join(row.latency.enough_for) if row.latency else None,
    "first_ms": _latency("first_ms"),
    "load_ms": _latency("load_ms"),
    "runs": _latency("n"),
    "rounds": _latency("rounds"),
    "peak_rss_bytes": lambda row: row.peak_rss_bytes,
    "verdict": lambda row: row.trust.verdict if row.trust else None,
    "cautions": lambda row: " ".join(dict.fromkeys(caution.code for caution in row.cautions)),
    **_estimate("speed_up", lambda row: row.speed_up),
    "task": _evaluated(lambda evaluation: evaluation.task),
    "samples": _evaluated(lambda evaluation: evaluation.n),
    **_estimate("drop_pp", lambda row: row.drop_pp),
    "drop_p_value": _evaluated(lambda evaluation: evaluation.drop_p_value),
    **_estimate("agreement", lambda row: row.agreement),
    "sqnr_db": lambda row: row.sqnr_db,
}


def _tool_columns(rows: Sequence[Row]) -> dict[str, Figure]:
    """The means that official programs printed, where some row has one."""
    if not any(row.tool_mean_ms for row in rows):
        return {}
    return _estimate("tool_mean_ms", lambda row: row.tool_mean_ms) | {
        "tool_runs": lambda row: row.tool_mean_ms.n if row.tool_mean_ms else None
    }


def _edgetpu_columns(rows: Sequence[Row]) -> dict[str, Figure]:
    """What edgetpu_compiler said, where some row's file was compiled for the Edge TPU."""
    names = ("share", "mapped_ops", "total_ops", "subgraphs", "cached_bytes", "streamed_bytes")
    if not any(row.record.artifact and row.record.artifact.edgetpu for row in rows):
        return {}
    return {f"edgetpu_{name}": _on_edgetpu(name) for name in names}


def _on_edgetpu(name: str) -> Figure:
    return _converted(lambda artifact: getattr(artifact.edgetpu, name, None))


def _metric_columns(rows: Sequence[Row]) -> dict[str, Figure]:
    """The columns of each task metric that some row has, as `metric:NAME`, with the baseline's value beside it."""
    evaluations = [row.record.evaluation for row in rows if row.record.evaluation]
    columns: dict[str, Figure] = {}
    for name in dict.fromkeys(name for evaluation in evaluations for name in evaluation.metrics):
        columns |= _estimate(f"metric:{name}", _metric(name))
        columns[f"metric:{name}_baseline"] = _baseline(name)
    return columns


def _metric(name: str) -> Callable[[Row], Estimate | None]:
    return lambda row: row.record.evaluation.metrics.get(name) if row.record.evaluation else None


def _baseline(name: str) -> Figure:
    return _evaluated(lambda evaluation: getattr(evaluation.baseline_metrics.get(name), "value", None))


def _written(cell: Cell) -> Cell:
    """A text in one line; what a spreadsheet would take for a formula gets a quote before it (OWASP, CSV injection)."""
    if isinstance(cell, float):
        return float(f"{cell:.9g}")
    if isinstance(cell, str):
        cell = one_line(cell)
    if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@")):
        return f"'{cell}"
    return cell
