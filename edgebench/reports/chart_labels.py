"""Where labels of dots go, so that none lies on a dot or on another label. Units are points (1/72 inch), up is more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Side = Literal["left", "right", "center"]
Box = tuple[float, float, float, float]  # left, bottom, right, top

_BESIDE = 7.0  # from a dot's centre to its label
_DOT = 4.5  # half a dot's width, with a little air
_LETTER = 0.6  # of the font size: the mean letter of DejaVu Sans and its like
_BEFORE: dict[Side, float] = {"left": 0.0, "center": 0.5, "right": 1.0}  # the part of a label before its anchor
_LINES = 12  # so far above and below its dot a label may go


@dataclass(frozen=True, slots=True)
class Place:
    """Where a label's edge named by `side` (or its middle) is, from its dot's centre; far ones need a line to it."""

    at: tuple[float, float]
    side: Side
    is_far: bool


def place_labels(
    dots: Sequence[tuple[float, float]], texts: Sequence[str], frame: Box, font_size: float, lines: Sequence[Box] = ()
) -> tuple[Place, ...]:
    """A place for each label, in the dots' order: the nearest free one beside, above or below its dot.

    `lines` are what else is drawn and should stay readable.

    Greedy, from the uppermost dot down, so that it is the same each time. Where nothing is free, the place that
    overlaps least.
    """
    obstacles = [*lines, *((x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in dots)]
    places: dict[int, Place] = {}
    for i in sorted(range(len(dots)), key=lambda i: (-dots[i][1], dots[i][0], i)):
        x, y = dots[i]
        width, height = _LETTER * font_size * len(texts[i]), 1.15 * font_size
        best: tuple[float, Place, Box] | None = None
        for place in _candidates(height):
            left = x + place.at[0] - _BEFORE[place.side] * width
            level = y + place.at[1]
            box = (left, level - height / 2, left + width, level + height / 2)
            overlap = sum(_shared(box, other) for other in obstacles) + _outside(box, frame)
            if best is None or overlap < best[0] - 1e-9:
                best = (overlap, place, box)
            if overlap == 0:
                break
        if best is not None:
            places[i] = best[1]
            obstacles.append(best[2])
    return tuple(places[i] for i in range(len(dots)))


def _candidates(height: float) -> Iterator[Place]:
    """Nearest first, and half a line up before half a line down, as a front's line runs level from its dot."""
    for step in range(_LINES):
        for up in (1, -1):
            dy = up * (step + 0.5) * height
            yield Place((_BESIDE, dy), "left", step > 0)
            yield Place((-_BESIDE, dy), "right", step > 0)
            if step > 0:  # above or below its own dot
                yield Place((0.0, dy), "center", step > 1)


def _shared(one: Box, other: Box) -> float:
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, wide) * max(0.0, high)


def _outside(box: Box, frame: Box) -> float:
    """The part of the box that lies outside of the frame."""
    return (box[2] - box[0]) * (box[3] - box[1]) - _shared(box, frame)
