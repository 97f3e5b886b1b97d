"""The Pareto front: the cells that no other cell beats on both axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgebench.reports.notation import one_line
from edgebench.reports.summary import Row
from edgebench.types import Origin


@dataclass(frozen=True, slots=True)
class Point:
    """A cell on the plane: `cost` is better when smaller, `quality` as its axis says; it may be infinite."""

    row: Row
    cost: float
    quality: float
    is_on_front: bool


@dataclass(frozen=True, slots=True)
class Axis:
    """A figure of a row with its name and unit; None where the row has none. A latency needs a stable verdict."""

    title: str
    value: Callable[[Row], float | None]
    is_latency: bool = False
    is_smaller_better: bool = True


@dataclass(frozen=True, slots=True)
class Front:
    """The points in the rows' order, and each row that could not take part with the reason."""

    points: tuple[Point, ...]
    excluded: tuple[tuple[Row, str], ...]


SIZE = Axis("size, MB", lambda row: None if row.size_bytes is None else row.size_bytes / 1e6)
P50 = Axis("p50 latency, ms", lambda row: row.latency.p50_ms.value if row.latency else None, is_latency=True)


# Task metrics that are errors; `mae/OUTPUT` where there are several targets. All others are better when larger.
_ERRORS = ("mae", "rmse")


def quality_axis(rows: Sequence[Row]) -> Axis | None:
    """How good a file is, by the best figure that these rows have: the task's metric, else agreement, else SQNR."""
    name = next((row.metric[0] for row in rows if row.metric), None)
    if name is not None:
        is_error = name.partition("/")[0] in _ERRORS
        return Axis(one_line(name), _metric(name), is_smaller_better=is_error)
    if any(row.agreement for row in rows):
        return Axis("agreement with the baseline", _agreement, is_smaller_better=False)
    if any(row.sqnr_db is not None for row in rows):
        return Axis("SQNR, dB", lambda row: row.sqnr_db, is_smaller_better=False)
    return None


def front(rows: Sequence[Row], cost: Axis, quality: Axis) -> Front:
    """The front of rows that may be compared with each other (one model; for latencies one device and batch).

    A point is on the front when no other is at least as good on both axes and better on one. Cells that failed, that
    are simulated or emulated, and for latencies those whose verdict is not stable, take no part.
    """
    measured: list[tuple[Row, float, float]] = []
    excluded: list[tuple[Row, str]] = []
    for row in rows:
        x, y = cost.value(row), quality.value(row)
        if reason := _unfit(row, cost):
            excluded.append((row, reason))
        elif x is None or y is None:
            excluded.append((row, f"no {(cost if x is None else quality).title}"))
        else:
            measured.append((row, x, y))
    places = [(x, y if quality.is_smaller_better else -y) for _, x, y in measured]
    points = tuple(
        Point(row, x, y, not any(_beats(other, place) for other in places))
        for (row, x, y), place in zip(measured, places, strict=True)
    )
    return Front(points, tuple(excluded))


def _beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] <= other[0] and one[1] <= other[1] and one != other


def _metric(name: str) -> Callable[[Row], float | None]:
    return lambda row: row.metric[1].value if row.metric and row.metric[0] == name else None


def _agreement(row: Row) -> float | None:
    return row.agreement.value if row.agreement else None


def _unfit(row: Row, cost: Axis) -> str | None:
    if not row.is_ok:
        return f"{row.record.status} at {row.record.stage}"
    if row.origin not in (None, Origin.MEASURED):
        return f"{row.origin}, not measured"
    if cost.is_latency and not row.is_stable:
        return f"latency is {row.trust.verdict}" if row.trust else "not measured"
    return None
