"""The pictures of the HTML page: SVG text that takes its ink from the page and is the same at each rendering."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from edgebench.reports.chart_labels import Place, place_labels
from edgebench.reports.notation import number
from edgebench.reports.pareto import Axis, Front, Point
from edgebench.stats import percentile
from edgebench.types import Round

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
# Drawn in these and then replaced, so that the page's light or dark colours apply.
_INK, _ACCENT, _FAINT = "#010203", "#040506", "#070809"
_PAGE_COLOURS = {_INK: "var(--ink)", _ACCENT: "var(--accent)", _FAINT: "var(--faint)"}
_LABEL_LENGTH = 30
_LABEL_PT = 8.5
# So many dots of a round are drawn; the box beside them is made of all of its samples.
_DOTS_PER_ROUND = 50


def pareto_chart(name: str, front: Front, labels: Sequence[str], cost: Axis, quality: Axis) -> str:
    """The points with their labels, in the points' order, and the front as a line; `name` is unique on the page."""
    on_front = sorted(
        (point for point in front.points if point.is_on_front), key=lambda point: (point.cost, point.quality)
    )
    heights = _finite_heights(front.points)
    with _figure(6.4, 3.9) as figure:
        axes = _axes(figure, cost.title, quality.title)
        steps = [(point.cost, heights[point.quality]) for point in on_front]
        if len(steps) > 1:
            axes.step(*zip(*steps, strict=True), where="post", color=_ACCENT, linewidth=1.5, zorder=1)
        for is_on_front in (False, True):
            chosen = [point for point in front.points if point.is_on_front is is_on_front]
            axes.plot(
                [point.cost for point in chosen],
                [heights[point.quality] for point in chosen],
                linestyle="",
                marker="o",
                markersize=7 if is_on_front else 5.5,
                color=_ACCENT if is_on_front else _FAINT,
                zorder=2,
            )
        axes.margins(x=0.12, y=0.16)
        axes.set_xlim(left=0)
        if quality.is_smaller_better:
            axes.invert_yaxis()  # up is better on every chart
        _place_labels(axes, front.points, labels, heights)
        title = f"{cost.title} against {quality.title}"
        told = "; ".join(
            f"{label}: {number(point.cost)}, {number(point.quality)}{', on the front' if point.is_on_front else ''}"
            for point, label in zip(front.points, labels, strict=True)
        )
        return _svg(figure, name, title, told)


def rounds_chart(name: str, label: str, rounds: Sequence[Round]) -> str:
    """Latencies in ms of each round, in the order taken, beside a box of quartiles with 1 % and 99 % whiskers."""
    with _figure(3.1, 2.1) as figure:
        axes = _axes(figure, "round", "ms")
        limit_ms = axis_limit_ms(rounds)
        lowest_ms = min(min(round_.latencies_ns) for round_ in rounds) / 1e6
        axes.set_ylim(lowest_ms - 0.05 * (limit_ms - lowest_ms or lowest_ms), limit_ms)
        for place, round_ in enumerate(rounds):
            ms = [latency / 1e6 for latency in round_.latencies_ns]
            shown = [i for i in range(0, len(ms), math.ceil(len(ms) / _DOTS_PER_ROUND)) if ms[i] <= limit_ms]
            axes.plot(
                [place - 0.1 + 0.5 * i / max(1, len(ms) - 1) for i in shown],
                [ms[i] for i in shown],
                linestyle="",
                marker="o",
                markersize=1.8,
                color=_FAINT,
            )
            low, first, middle, third, high = (percentile(ms, q) for q in (0.01, 0.25, 0.5, 0.75, 0.99))
            axes.vlines(place - 0.28, low, high, color=_ACCENT, linewidth=1)
            axes.vlines(place - 0.28, first, third, color=_ACCENT, linewidth=6, alpha=0.45)
            if above := sum(one > limit_ms for one in ms):
                _mark_above(axes, place, above)
            axes.hlines(middle, place - 0.36, place - 0.2, color=_INK, linewidth=1.4)
        axes.set_xticks(range(len(rounds)), [str(round_.index + 1) for round_ in rounds])
        axes.set_xlim(-0.6, len(rounds) - 0.4)
        medians = ", ".join(number(percentile(round_.latencies_ns, 0.5) / 1e6) for round_ in rounds)
        return _svg(figure, name, f"Latency by round of {label}", f"medians in ms: {medians}")


def axis_limit_ms(rounds: Sequence[Round]) -> float:
    """Where the axis of a chart of rounds ends: at the slowest run, or sooner where outliers would flatten the rest.

    The rest reach three times the height of its box above a round's box, Tukey's outer fence (Exploratory Data
    Analysis, 1977).
    """
    limit = 0.0
    for round_ in rounds:
        first, third = percentile(round_.latencies_ns, 0.25), percentile(round_.latencies_ns, 0.75)
        inside = [latency for latency in round_.latencies_ns if latency <= third + 3 * (third - first)]
        limit = max(limit, max(inside) / 1e6)
    return limit * 1.03


def _mark_above(axes: Axes, place: int, count: int) -> None:
    axes.annotate(
        f"▲{count}",
        (place + 0.15, 1.0),
        xycoords=("data", "axes fraction"),
        ha="center",
        va="bottom",
        fontsize=6.5,
        color=_INK,
        annotation_clip=False,
    )


def shortened(text: str, length: int = _LABEL_LENGTH) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _finite_heights(points: Sequence[Point]) -> dict[float, float]:
    """Where each quality is drawn: an infinite one (bit-equal outputs) a little above the best finite one."""
    finite = [point.quality for point in points if math.isfinite(point.quality)]
    top, bottom = max(finite, default=1.0), min(finite, default=0.0)
    above = top + max(0.15 * (top - bottom), 0.05 * abs(top), 1e-9)
    return {point.quality: point.quality if math.isfinite(point.quality) else above for point in points}


def _place_labels(axes: Axes, points: Sequence[Point], labels: Sequence[str], heights: dict[float, float]) -> None:
    figure = axes.figure
    figure.draw_without_rendering()  # type: ignore[union-attr]  # sizes are final only now
    per_px = 72 / figure.dpi
    box = axes.get_window_extent()
    spots = axes.transData.transform([(point.cost, heights[point.quality]) for point in points]) * per_px
    dots = [(float(x), float(y)) for x, y in spots]
    texts = [
        shortened(label) + (" (∞)" if math.isinf(point.quality) else "")
        for point, label in zip(points, labels, strict=True)
    ]
    frame = (box.x0 * per_px, box.y0 * per_px, box.x1 * per_px, box.y1 * per_px)
    ends = sorted(dot for point, dot in zip(points, dots, strict=True) if point.is_on_front)
    lines = [box for pair in pairwise(ends) for box in _step(*pair)]
    for point, text, offset in zip(points, texts, place_labels(dots, texts, frame, _LABEL_PT, lines), strict=True):
        axes.annotate(
            text,
            (point.cost, heights[point.quality]),
            xytext=offset.at,
            textcoords="offset points",
            ha=offset.side,
            va="center",
            fontsize=_LABEL_PT,
            fontweight="bold" if point.is_on_front else "normal",
            color=_INK,
            arrowprops=_leader(offset) if offset.is_far else None,
            zorder=3,
        )


def _leader(place: Place) -> dict[str, object]:
    """A thin line from the dot to the nearest edge of its label."""
    edge = {"left": (0.0, 0.5), "right": (1.0, 0.5), "center": (0.5, 0.0 if place.at[1] > 0 else 1.0)}[place.side]
    return {"arrowstyle": "-", "color": _FAINT, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3, "relpos": edge}


def _step(start: tuple[float, float], end: tuple[float, float]) -> Iterator[tuple[float, float, float, float]]:
    """The level and the upright part of a front's line from one of its points to the next, as thin boxes."""
    (x, y), (next_x, next_y) = start, end
    yield x, y - 1, next_x, y + 1
    yield next_x - 1, min(y, next_y), next_x + 1, max(y, next_y)


@contextmanager
def _figure(width_in: float, height_in: float) -> Iterator[Figure]:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    # From the library's defaults, so that a user's matplotlibrc changes nothing; names are not TeX.
    style = {key: value for key, value in matplotlib.rcParamsDefault.items() if not key.startswith("backend")}
    style |= {"svg.hashsalt": "edgebench", "svg.fonttype": "none", "text.parse_math": False}
    style |= {"font.size": 9, "font.sans-serif": ["DejaVu Sans"]}
    with matplotlib.rc_context(style), warnings.catch_warnings():
        # The browser has the glyphs that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        FigureCanvasSVG(figure)
        yield figure


def _axes(figure: Figure, x_title: str, y_title: str) -> Axes:
    axes = figure.add_subplot()
    axes.set_xlabel(shortened(x_title, 60), color=_INK)
    axes.set_ylabel(shortened(y_title), color=_INK)
    axes.tick_params(colors=_INK, length=3)
    axes.ticklabel_format(useOffset=False, style="plain")
    axes.grid(color=_FAINT, alpha=0.3, linewidth=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_FAINT)
    return axes


def _svg(figure: Figure, name: str, title: str, description: str) -> str:
    """The figure as an inline SVG element with a title and a description for those who can't see it."""
    out = io.BytesIO()
    figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    root = ElementTree.fromstring(out.getvalue())
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    for defs in root.findall(f"{{{_SVG}}}defs"):
        for style in defs.findall(f"{{{_SVG}}}style"):
            defs.remove(style)  # it would apply to the whole page
    for element in root.iter():
        _say_style_once(element)
        for key, value in element.attrib.items():
            element.set(key, _on_page(key, value, name))
    root.attrib.pop("height")
    root.set("width", "100%")
    root.set("style", "stroke-linejoin: round; stroke-linecap: butt")
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-description")
    for place, (tag, text) in enumerate((("title", title), ("desc", description))):
        told = ElementTree.Element(f"{{{_SVG}}}{tag}", {"id": f"{name}-{'title' if tag == 'title' else 'description'}"})
        told.text = text
        root.insert(place, told)
    return ElementTree.tostring(root, encoding="unicode")


def _say_style_once(group: ElementTree.Element) -> None:
    """Move the style that all dots of a group share to the group, which makes a page of many dots half as long."""
    styles = {child.get("style") for child in group}
    if (
        len(group) > 1
        and {child.tag for child in group} == {f"{{{_SVG}}}use"}
        and len(styles) == 1
        and None not in styles
    ):
        group.set("style", str(styles.pop()))
        for child in group:
            child.attrib.pop("style")


def _on_page(key: str, value: str, name: str) -> str:
    """An attribute's value with ids that are unique on the page and the page's colours."""
    if key == "id":
        return f"{name}-{value}"
    if key in ("href", f"{{{_XLINK}}}href") and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    value = value.replace("url(#", f"url(#{name}-")
    for drawn, shown in _PAGE_COLOURS.items():
        value = value.replace(drawn, shown)
    return value
