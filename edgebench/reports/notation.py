"""How figures are written for people. A missing one is a dash; `~` marks a percentile of too few samples."""

from __future__ import annotations

import math

from edgebench.naming import printable
from edgebench.types import Estimate

MISSING = "–"
TOO_FEW = "~"
_SMALL = 1e-4  # from here down a figure has more zeros than people count
# The wider side of an interval over its narrower one, up to which one ± speaks for both. A latency's interval is
# value / f to value * f, so this is also f: at ±20 % of the value.
_NEARLY_EQUAL = 1.2


def number(value: float | None) -> str:
    """Three significant digits, and whole numbers from 100 up: 1.00e-06, 0.0421, 4.21, 42.1, 12345."""
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if 0 < abs(value) < _SMALL:
        return f"{value:.2e}"
    return f"{value:.{decimals(value)}f}"


def decimals(value: float) -> int:
    """The decimal places that `number` gives a value; what stands beside it takes as many."""
    size = abs(value)
    if size == 0 or not math.isfinite(size):
        return 0
    return max(0, 2 - math.floor(math.log10(float(f"{size:.3g}"))))


def with_margin(estimate: Estimate | None) -> str:
    """`4.21 ±0.05`, the wider side of the 95 % interval; `9.33 [7.1, 12.3]` where one side is much the wider."""
    if estimate is None:
        return MISSING
    sides = (estimate.value - estimate.low, estimate.high - estimate.value)
    half = max(sides)
    if not half <= _NEARLY_EQUAL * min(sides):
        # Two digits of the interval's width: more of a wide interval's ends would say nothing.
        places = min(decimals(estimate.value), max(0, decimals(estimate.high - estimate.low) - 1))
        return f"{number(estimate.value)} [{_fixed(estimate.low, places)}, {_fixed(estimate.high, places)}]"
    if abs(estimate.value) < _SMALL:
        return f"{number(estimate.value)} ±{number(half)}"
    return f"{number(estimate.value)} ±{half:.{decimals(estimate.value)}f}"


def with_interval(estimate: Estimate | None, places: int = 3) -> str:
    """`0.963 [0.941, 0.977]`: the value and its 95 % interval."""
    if estimate is None or math.isnan(estimate.value):
        return MISSING
    value, low, high = (_fixed(part, places) for part in (estimate.value, estimate.low, estimate.high))
    return f"{value} [{low}, {high}]"


def _fixed(value: float, places: int) -> str:
    return f"{value:.{places}f}" if math.isfinite(value) else number(value)


def megabytes(size_bytes: int | None) -> str:
    """MB are 10^6 bytes."""
    return MISSING if size_bytes is None else number(size_bytes / 1e6)


def decibels(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return number(value)
    return f"{value:.1f}"


def one_line(text: str) -> str:
    """A text that someone else wrote, safe to print: no line breaks, and control and direction marks made visible."""
    return printable(" ".join(text.split()))
