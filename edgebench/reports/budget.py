"""A budget checked against rows: each limit that a cell misses, or of which it can't be judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgebench.matrix import Budget
from edgebench.reports.grid import labels
from edgebench.reports.notation import number, one_line
from edgebench.reports.summary import Row
from edgebench.types import Estimate, Origin, Precision, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A limit that is not met. `found` is None where it can't be judged; `message` says which cell, what and why."""

    cell: str
    limit: str
    allowed: float
    found: float | None
    message: str

    def __str__(self) -> str:
        return self.message


def misses(rows: Sequence[Row], budget: Budget) -> tuple[Miss, ...]:
    """What stands between these rows and the budget; empty when every candidate meets every limit.

    A figure that is missing, of too few samples, of an unstable latency or not measured on hardware can't be judged,
    and that is a miss. The value decides, not the end of its interval. Skipped cells were not asked for; fp32 files are
    what the others are compared with, and are candidates only where nothing else was made.
    """
    limits = [(name, limit) for name in Budget.__dataclass_fields__ if (limit := getattr(budget, name)) is not None]
    asked = [
        (row, label) for row, label in zip(rows, labels(rows), strict=True) if row.record.status is not Status.SKIPPED
    ]
    candidates = [(row, label) for row, label in asked if row.precision is not Precision.FP32] or asked
    return tuple(miss for row, label in candidates for name, limit in limits for miss in _miss(row, label, name, limit))


def _miss(row: Row, label: str, name: str, allowed: float) -> Iterator[Miss]:
    found, doubt = _figure(row, name)
    what, unit = _WORDS[name]
    if doubt is not None or found is None:
        text = f"{label}: {what} can't be judged against {number(allowed)} {unit}: {doubt or 'not measured'}"
        yield Miss(cell=row.record.cell, limit=name, allowed=allowed, found=None, message=one_line(text))
    elif not found <= allowed:
        text = f"{label}: {what} is {number(found)} {unit}, over the limit of {number(allowed)} {unit}"
        yield Miss(cell=row.record.cell, limit=name, allowed=allowed, found=found, message=one_line(text))


_WORDS = {
    "max_accuracy_drop_pp": ("the accuracy drop", "pp"),
    "max_p50_ms": ("p50", "ms"),
    "max_p90_ms": ("p90", "ms"),
    "max_size_mb": ("the size", "MB"),
}


def _figure(row: Row, name: str) -> tuple[float | None, str | None]:
    """The row's figure for a limit, or why it can't be judged."""
    if not row.is_ok:
        return None, f"{row.record.status} at {row.record.stage}: {row.record.reason}"
    if name == "max_size_mb":
        return (None if row.size_bytes is None else row.size_bytes / 1e6), None
    if name == "max_accuracy_drop_pp":
        if row.drop_pp:
            return row.drop_pp.value, None
        if row.metric:
            return None, f"{row.metric[0]} has no percentage points"
        return None, "the data has no labels to measure accuracy with"
    return _latency(row, name.removeprefix("max_").removesuffix("_ms"))


def _latency(row: Row, percentile: str) -> tuple[float | None, str | None]:
    if row.tool_mean_ms is not None:
        return None, f"{row.record.runtime} tells a mean and no {percentile}; measure it with another runtime"
    if row.latency is None or row.trust is None:
        return None, None
    if row.origin is not Origin.MEASURED:
        return None, f"it is {row.origin}, not measured on a device"
    if percentile not in row.latency.enough_for:
        return None, f"{row.latency.n} samples are too few; measure more runs or rounds"
    if not row.is_stable:
        return None, f"the latency is {row.trust.verdict}; its cautions say what to do"
    estimate: Estimate = row.latency.p50_ms if percentile == "p50" else row.latency.p90_ms
    return estimate.value, None
