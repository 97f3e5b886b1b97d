"""Labels of dots lie on no dot and on no other label, at the same places each time."""

from __future__ import annotations

import itertools
import random

import pytest

from edgebench.reports.chart_labels import Place, place_labels

FRAME = (0.0, 0.0, 420.0, 240.0)
SIZE = 8.5
SHIFT = {"left": 0.0, "center": 0.5, "right": 1.0}


def box(dot: tuple[float, float], text: str, place: Place) -> tuple[float, float, float, float]:
    width = 0.6 * SIZE * len(text)
    left, level = dot[0] + place.at[0] - SHIFT[place.side] * width, dot[1] + place.at[1]
    return left, level - 0.57 * SIZE, left + width, level + 0.57 * SIZE


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def cluster(seed: int) -> list[tuple[float, float]]:
    chance = random.Random(seed)
    return [(100 + chance.uniform(-8, 8), 120 + chance.uniform(-4, 4)) for _ in range(8)]


@pytest.mark.parametrize("seed", range(5))
def test_a_cluster_of_dots_is_labelled_without_a_collision(seed: int) -> None:
    dots = cluster(seed)
    texts = [f"tflite-recipe-{i}" for i in range(len(dots))]
    boxes = [box(*one) for one in zip(dots, texts, place_labels(dots, texts, FRAME, SIZE), strict=True)]
    assert not [pair for pair in itertools.combinations(boxes, 2) if overlap(*pair)]
    for found, (x, y) in itertools.product(boxes, dots):
        assert not overlap(found, (x - 3.5, y - 3.5, x + 3.5, y + 3.5))


def test_a_label_stays_inside_the_frame() -> None:
    (place,) = place_labels([(415.0, 120.0)], ["a-long-label"], FRAME, SIZE)
    assert place.side == "right"
    assert not place.is_far


def test_a_label_off_its_dot_gets_a_line_to_it() -> None:
    places = place_labels([(200.0, 120.0)] * 6, ["some-label"] * 6, FRAME, SIZE)
    assert [place.is_far for place in places] == [False, False, False, False, True, True]
