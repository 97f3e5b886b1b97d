"""The CSV view: one line a cell, one plain figure a column, for spreadsheets and data frames. Missing is empty."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from edgebench.reports.summary import Row
from edgebench.types import Estimate

Cell = str | int | float | None


def to_csv(rows: Sequence[Row]) -> str:
    """The rows with a header; units are in the names, `_low` and `_high` are 95 % intervals, `inf` is infinite."""
    metrics = list(
        dict.fromkeys(name for row in rows if row.record.evaluation for name in row.record.evaluation.metrics)
    )
    lines = [_cells(row, metrics) for row in rows]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_neutral(name) for name in (lines[0] if lines else ()))
    writer.writerows([_neutral(cell) for cell in line.values()] for line in lines)
    return out.getvalue()


def _cells(row: Row, metrics: Sequence[str]) -> dict[str, Cell]:
    record, evaluation, latency = row.record, row.record.evaluation, row.latency
    cells: dict[str, Cell] = {
        "cell": record.cell,
        "status": record.status.value,
        "stage": record.stage,
        "reason": record.reason,
        "model": record.model,
        "recipe": record.recipe,
        "format": row.format,
        "precision": row.precision,
        "size_bytes": row.size_bytes,
        "device": record.device,
        "runtime": record.runtime,
        "delegate": record.delegate,
        "threads": record.threads,
        "batch": record.batch,
        "origin": row.origin,
        "at": record.at,
    }
    cells |= _estimate("p50_ms", latency.p50_ms if latency else None)
    cells |= _estimate("p90_ms", latency.p90_ms if latency else None)
    cells |= _estimate("p99_ms", latency.p99_ms if latency else None)
    cells |= {
        "enough_for": " ".join(latency.enough_for) if latency else None,
        "first_ms": latency.first_ms if latency else None,
        "load_ms": latency.load_ms if latency else None,
        "runs": latency.n if latency else None,
        "rounds": latency.rounds if latency else None,
        "peak_rss_bytes": row.peak_rss_bytes,
        "verdict": row.trust.verdict if row.trust else None,
        "cautions": " ".join(dict.fromkeys(caution.code for caution in row.cautions)),
    }
    cells |= _estimate("speed_up", row.speed_up)
    cells |= {"task": evaluation.task if evaluation else None, "samples": evaluation.n if evaluation else None}
    for name in metrics:
        cells |= _estimate(name, evaluation.metrics.get(name) if evaluation else None)
        cells[f"{name}_baseline"] = _value(evaluation.baseline_metrics.get(name) if evaluation else None)
    cells |= _estimate("drop_pp", row.drop_pp)
    cells |= {"drop_p_value": evaluation.drop_p_value if evaluation else None}
    cells |= _estimate("agreement", row.agreement)
    cells |= {"sqnr_db": row.sqnr_db}
    return cells


def _estimate(name: str, estimate: Estimate | None) -> dict[str, Cell]:
    low, high = (estimate.low, estimate.high) if estimate else (None, None)
    return {name: _value(estimate), f"{name}_low": low, f"{name}_high": high}


def _value(estimate: Estimate | None) -> float | None:
    return estimate.value if estimate else None


def _neutral(cell: Cell) -> Cell:
    """A text that a spreadsheet would take for a formula, with a quote before it (OWASP, CSV injection)."""
    if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return f"'{cell}"
    return cell
