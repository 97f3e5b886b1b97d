"""The HTML view: one page that needs no other file, no script and no network, and is the same at each rendering."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from edgebench.reports import charts, grid, notes, page, pareto
from edgebench.reports.notation import number, one_line
from edgebench.reports.summary import Row
from edgebench.store import RunInfo
from edgebench.types import Origin, Round, Verdict

_VERDICTS = {
    Verdict.STABLE: "the rounds agree; the latency may be compared",
    Verdict.NOISY: "the rounds vary more than the differences one looks for; not compared",
    Verdict.THROTTLED: "the device slowed down while it was measured; not compared",
    Verdict.TOO_FEW: "too few rounds or runs to know the spread; not compared",
    Verdict.INVALID: "the figures are not the speed of this model there; not compared",
}


@dataclass(frozen=True, slots=True)
class _Chart:
    title: str
    svg: Markup
    note: str


def to_html(run: RunInfo | None, rows: Sequence[Row]) -> str:
    """The run's page: headline, table, doubts, charts, error split, files, environment and how to make it again."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("edgebench.reports", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["line"] = one_line
    environment.filters["short"] = charts.shortened
    columns = grid.columns(rows) if rows else ()
    return environment.get_template("page.html.j2").render(
        name=one_line(run.name) if run else "edgebench results",
        facts=page.facts(run, rows),
        tiles=tuple(page.tiles(rows)),
        constants=grid.constants(rows),
        columns=columns,
        lines=tuple(page.lines(rows, columns)) if rows else (),
        legend=notes.legend(rows),
        verdicts={
            v: text for v, text in _VERDICTS.items() if any(row.trust and row.trust.verdict is v for row in rows)
        },
        fronts=tuple(_fronts(rows)),
        rounds=tuple(_rounds(rows)),
        splits=tuple(page.splits(rows)),
        outputs=tuple(page.outputs(rows)),
        files=tuple(page.files(rows)),
        doubts=tuple((doubt, notes.where(doubt, rows)) for doubt in notes.doubts(run, rows)),
        environments=tuple(page.environments(run, rows)),
        command=one_line(shlex.join(run.command)) if run else "",
    )


def _fronts(rows: Sequence[Row]) -> Iterator[_Chart]:
    """Size against quality for each model; latency against quality where model, device and batch are equal."""
    label = page.labels_by_cell(rows)
    models = _grouped(rows, lambda row: (row.record.model,))
    places = _grouped(rows, lambda row: (row.record.model, row.record.device, str(row.record.batch)))
    todo = [(alike, pareto.SIZE, "") for alike in models]
    todo += [(alike, pareto.P50, f" on {one_line(alike[0].record.device)}") for alike in places]
    for place, (alike, cost, where) in enumerate(todo):
        quality = pareto.quality_axis(alike)
        if quality is None:
            continue
        front = pareto.front(alike, cost, quality)
        if not front.points:
            continue
        names = [label[point.row.record.cell] for point in front.points]
        model = f" of {one_line(alike[0].record.model)}" if len(models) > 1 else ""
        left_out = "; ".join(f"{label[row.record.cell]} ({reason})" for row, reason in front.excluded)
        yield _Chart(
            title=f"{cost.title} against {quality.title}{model}{where}",
            svg=Markup(charts.pareto_chart(f"front{place}", front, names, cost, quality)),
            note=f"Not shown: {left_out}." if left_out else "",
        )


def _rounds(rows: Sequence[Row]) -> Iterator[_Chart]:
    for place, (row, label) in enumerate(zip(rows, grid.labels(rows), strict=True)):
        if row.record.measurement and row.latency:  # an official program's rounds have no single runs to draw
            rounds = row.record.measurement.rounds
            svg = Markup(charts.rounds_chart(f"rounds{place}", label, rounds))
            told = [] if row.origin is Origin.MEASURED else [f"{row.origin}, not measured"]
            yield _Chart(title=label, svg=svg, note=". ".join([*told, *_above(rounds)]))


def _above(rounds: Sequence[Round]) -> Iterator[str]:
    """What a chart of rounds leaves above its axis."""
    limit_ms = charts.axis_limit_ms(rounds)
    ms = [latency / 1e6 for round_ in rounds for latency in round_.latencies_ns]
    above = [one for one in ms if one > limit_ms]
    if above:
        slowest = number(max(above))
        yield f"▲ above the axis: {len(above)} of {len(ms)} runs, the slowest at {slowest} ms"


def _grouped(rows: Sequence[Row], key: Callable[[Row], tuple[str, ...]]) -> list[list[Row]]:
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.values())
