"""The HTML view: one page that needs no other file, no script and no network, and is the same at each rendering."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from edgebench.reports import charts, grid, notes, page, pareto
from edgebench.reports.notation import number, one_line
from edgebench.reports.shown import NO_RECORDS, Shown, earlier_line
from edgebench.reports.summary import Row
from edgebench.types import Origin, Round, Verdict

_MOST_ROUND_CHARTS = 24  # of a lab with many devices: each takes 0.1 s to draw, and JSON has all
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


def to_html(shown: Shown) -> str:
    """The run's page: headline, table, budget, doubts, charts, error split, files, environment, command."""
    run, rows = shown.run, shown.rows
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
    fronts, no_fronts = _fronts(rows)
    return environment.get_template("page.html.j2").render(
        name=one_line(run.name) if run else "edgebench results",
        facts=page.facts(run, rows),
        tiles=tuple(page.tiles(rows)),
        constants=grid.constants(rows),
        columns=columns,
        lines=tuple(page.lines(rows, columns)) if rows else (),
        legend=(*notes.legend(rows), *filter(None, [earlier_line(shown.earlier)])),
        budget=shown.budget,
        no_records=NO_RECORDS,
        verdicts={
            v: text for v, text in _VERDICTS.items() if any(row.trust and row.trust.verdict is v for row in rows)
        },
        fronts=fronts,
        no_fronts=no_fronts,
        rounds=tuple(_rounds(rows)),
        undrawn=max(0, sum(row.latency is not None for row in rows) - _MOST_ROUND_CHARTS),
        splits=tuple(page.splits(rows)),
        outputs=tuple(page.outputs(rows)),
        files=tuple(page.files(rows)),
        doubts=tuple((doubt, notes.where(doubt, rows)) for doubt in notes.doubts(run, rows)),
        environments=tuple(page.environments(run, rows)),
        command=one_line(shlex.join(run.command)) if run else "",
        asked=notes.asked(run, rows),
    )


def _fronts(rows: Sequence[Row]) -> tuple[tuple[_Chart, ...], tuple[str, ...]]:
    """Size against quality for each model; latency against quality where model, device and batch are equal.

    Second, for each picture that can't be drawn, why.
    """
    models = _grouped(rows, lambda row: (row.record.model,))
    places = _grouped(rows, lambda row: (row.record.model, row.record.device, str(row.record.batch)))
    todo = [(_files(alike), pareto.SIZE, "") for alike in models]
    todo += [(alike, pareto.P50, f" on {one_line(alike[0].record.device)}") for alike in places]
    drawn, missing = [], []
    for place, (alike, cost, where) in enumerate(todo):
        model = f" of {one_line(alike[0].record.model)}" if len(models) > 1 else ""
        quality = pareto.quality_axis(alike)
        front = pareto.front(alike, cost, quality) if quality else None
        if quality is None or front is None:
            missing.append(f"No chart of {cost.title}{model}{where}: nothing says how good the files are.")
            continue
        if not front.points:
            reasons = "; ".join(dict.fromkeys(reason for _, reason in front.excluded))
            missing.append(f"No chart of {cost.title}{model}{where}: {reasons}.")
            continue
        label = dict(zip((row.record.cell for row in alike), grid.labels(alike), strict=True))
        left_out = "; ".join(dict.fromkeys(f"{label[row.record.cell]} ({reason})" for row, reason in front.excluded))
        names = [label[point.row.record.cell] for point in front.points]
        chart = _Chart(
            title=f"{cost.title} against {quality.title}{model}{where}",
            svg=Markup(charts.pareto_chart(f"front{place}", front, names, cost, quality)),
            note=f"Not shown: {left_out}." if left_out else "",
        )
        drawn.append(chart)
    return tuple(drawn), tuple(dict.fromkeys(missing))


def _files(rows: Sequence[Row]) -> list[Row]:
    """Each file once, and once more for each accuracy that it has elsewhere: its size does not depend on the place."""
    found: dict[tuple[object, ...], Row] = {}
    # What a device measured speaks for a file before what one only simulated.
    for row in sorted(rows, key=lambda row: row.origin not in (None, Origin.MEASURED)):
        artifact = row.record.artifact
        made = (artifact.sha256,) if artifact and row.is_ok else (row.record.status, row.record.stage)
        found.setdefault((row.record.recipe, *made, row.metric, row.agreement, row.sqnr_db), row)
    kept = {row.record.cell for row in found.values()}
    return [row for row in rows if row.record.cell in kept]


def _rounds(rows: Sequence[Row]) -> Iterator[_Chart]:
    """A chart for each of the first measured rows; an official program's rounds have no single runs to draw."""
    drawable = [(row, label) for row, label in zip(rows, grid.labels(rows), strict=True) if row.latency]
    for place, (row, label) in enumerate(drawable[:_MOST_ROUND_CHARTS]):
        if row.record.measurement:
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
