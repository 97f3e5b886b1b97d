"""A budget checked against rows: each limit that a cell misses, or of which it can't be judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgebench.reports.grid import labels
from edgebench.reports.notation import number, one_line
from edgebench.reports.summary import Row
from edgebench.types import Budget, Estimate, Origin, Precision, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A limit that is not met. `found` is None where it can't be judged; `message` says which cell, what and why.

    `label` is the row's name in tables, `why` the end of `message`: the figure found, or what stands in the way of one.
    """

    cell: str
    limit: str
    allowed: float
    found: float | None
    message: str
    label: str
    why: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What became of a budget. `judged` counts the rows that took part, `not_measured` those left out as simulated."""

    budget: Budget
    misses: tuple[Miss, ...]
    judged: int
    not_measured: int


def judge(rows: Sequence[Row], budget: Budget | None) -> Judgement | None:
    """What stands between these rows and the budget; None where no limit is set.

    A figure that is missing, of too few samples or of an unstable latency can't be judged, and that is a miss. The
    value decides, not the end of its interval. Skipped cells were not asked for, simulated and emulated ones take no
    part; fp32 files are what the others are compared with, and are candidates only where nothing else was made.
    """
    if budget is None or not budget.limits:
        return None
    asked = [
        (row, label) for row, label in zip(rows, labels(rows), strict=True) if row.record.status is not Status.SKIPPED
    ]
    candidates = [(row, label) for row, label in asked if row.precision is not Precision.FP32] or asked
    judged = [(row, label) for row, label in candidates if row.origin in (None, Origin.MEASURED)]
    return Judgement(
        budget=budget,
        misses=tuple(
            miss
            for row, label in judged
            for name, limit in budget.limits.items()
            for miss in _miss(row, label, name, limit)
        ),
        judged=len(judged),
        not_measured=len(candidates) - len(judged),
    )


def misses(rows: Sequence[Row], budget: Budget) -> tuple[Miss, ...]:
    """The misses of `judge`; empty when every candidate meets every limit."""
    judgement = judge(rows, budget)
    return judgement.misses if judgement else ()


def told(judgement: Judgement) -> tuple[str, ...]:
    """A line for each limit, met or by which rows it is missed, then one for rows that took no part."""
    lines = [_limit(judgement, name, allowed) for name, allowed in judgement.budget.limits.items()]
    if judgement.not_measured:
        rows = "row takes" if judgement.not_measured == 1 else "rows take"
        lines.append(f"{judgement.not_measured} simulated or emulated {rows} no part: such figures are not a device's.")
    return tuple(lines)


def _limit(judgement: Judgement, name: str, allowed: float) -> str:
    what, unit = _WORDS[name]
    limit = f"{what.removeprefix('the ')} at most {number(allowed)} {unit}"
    if not judgement.judged:
        return f"{limit}: no row to judge"
    missed: dict[str, list[str]] = {}
    for miss in judgement.misses:
        if miss.limit == name:
            missed.setdefault(miss.why, []).append(miss.label)
    told = "; ".join(f"{', '.join(names)} ({why})" for why, names in missed.items())
    return f"{limit}: missed by {told}" if told else f"{limit}: met"


def _miss(row: Row, label: str, name: str, allowed: float) -> Iterator[Miss]:
    found, doubt = _figure(row, name)
    what, unit = _WORDS[name]
    if doubt is not None or found is None:
        why = one_line(doubt or "not measured")
        text = f"{label}: {what} can't be judged against {number(allowed)} {unit}: {why}"
        yield _missed(row, label, name, allowed, None, text, f"can't be judged: {why}")
    elif not found <= allowed:
        text = f"{label}: {what} is {number(found)} {unit}, over the limit of {number(allowed)} {unit}"
        yield _missed(row, label, name, allowed, found, text, f"{number(found)} {unit}")


def _missed(row: Row, label: str, name: str, allowed: float, found: float | None, text: str, why: str) -> Miss:
    return Miss(
        cell=row.record.cell, limit=name, allowed=allowed, found=found, message=one_line(text), label=label, why=why
    )


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
    if percentile not in row.latency.enough_for:
        return None, f"{row.latency.n} samples are too few; measure more runs or rounds"
    if not row.is_stable:
        return None, f"the latency is {row.trust.verdict}; its cautions say what to do"
    estimate: Estimate = row.latency.p50_ms if percentile == "p50" else row.latency.p90_ms
    return estimate.value, None
