"""What stands under a table: what its words and marks mean, and each doubt about its rows once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.reports.grid import labels
from edgebench.reports.notation import one_line
from edgebench.reports.summary import Row, baselines
from edgebench.store import RunInfo
from edgebench.types import Caution, Origin, Plan

WHOLE_RUN = "whole run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """All cautions of one code and advice. `rows` are places of rows, none for a doubt about the whole run.

    `told` is the advice; the message of a caution that has none, which then stands alone. `found` holds each distinct
    message with the labels of its rows.
    """

    code: str
    rows: tuple[int, ...]
    told: str
    found: tuple[tuple[str, tuple[str, ...]], ...]


def doubts(run: RunInfo | None, rows: Sequence[Row]) -> tuple[Doubt, ...]:
    """Each kind of doubt once, the run's own first."""
    of_run = _alike([(caution, None, WHOLE_RUN) for caution in run.cautions] if run else [])
    named = enumerate(zip(rows, labels(rows), strict=True))
    of_rows = _alike([(caution, place, label) for place, (row, label) in named for caution in row.cautions])
    return of_run + of_rows


def _alike(cautions: Sequence[tuple[Caution, int | None, str]]) -> tuple[Doubt, ...]:
    groups: dict[tuple[str, str], list[tuple[Caution, int | None, str]]] = {}
    for one in cautions:
        groups.setdefault((one_line(one[0].code), one_line(one[0].advice or one[0].message)), []).append(one)
    return tuple(_doubt(code, told, alike) for (code, told), alike in groups.items())


def _doubt(code: str, told: str, alike: Sequence[tuple[Caution, int | None, str]]) -> Doubt:
    about: dict[str, list[str]] = {}
    for caution, _, label in alike:
        about.setdefault(one_line(caution.message), []).append(label)
    return Doubt(
        code=code,
        rows=tuple(dict.fromkeys(place for _, place, _ in alike if place is not None)),
        told=told,
        found=tuple((message, tuple(dict.fromkeys(names))) for message, names in about.items()),
    )


def where(doubt: Doubt, rows: Sequence[Row]) -> str:
    """The rows of a doubt by name."""
    if not doubt.rows:
        return WHOLE_RUN
    if len(doubt.rows) == len(rows) > 1:
        return "all rows"
    names = labels(rows)
    return ", ".join(names[place] for place in doubt.rows)


def legend(rows: Sequence[Row]) -> tuple[str, ...]:
    """What the words and marks of these rows mean: one line of definitions, then a line for each rarer mark."""
    terms = {
        "agreement: same decision as the baseline": any(row.agreement for row in rows),
        "drop pp: accuracy lost, percentage points": any(row.drop_pp for row in rows),
        "±, [low, high]: 95 % interval": any(
            row.latency or row.tool_mean_ms or row.metric or row.agreement for row in rows
        ),
    }
    lines = [" · ".join(text for text, is_shown in terms.items() if is_shown)]
    marks = {
        "baseline: the model before conversion, on the same samples.": bool(baselines(rows)),
        "speed-up: against the fp32 file of the same format, runtime and conditions, paired by round.": any(
            row.speed_up for row in rows
        ),
        "SQNR: against the baseline's outputs, of the worst output; more dB is less error.": any(
            row.sqnr_db is not None for row in rows
        ),
        "~: too few samples to tell this percentile; measure longer (more rounds or runs).": any(
            row.latency and not {"p50", "p90"} <= set(row.latency.enough_for) for row in rows
        ),
        "batch: p50, p90 and mean are of one run of the whole batch, not of one sample.": any(
            row.record.batch is not None and row.record.batch > 1 and (row.latency or row.tool_mean_ms) for row in rows
        ),
        "mean ms, tool's own: as the official program printed it, the middle of the rounds'; no single runs.": any(
            row.tool_mean_ms for row in rows
        ),
        "simulated, emulated: these latencies are not a device's.": any(
            row.origin not in (None, Origin.MEASURED) for row in rows
        ),
    }
    lines += [text for text, is_shown in marks.items() if is_shown]
    return tuple(line for line in lines if line)


def asked(run: RunInfo | None, rows: Sequence[Row]) -> str:
    """What a matrix file asked, in a line, from what the records hold; empty for a command that says it itself."""
    if run is None or run.command[1:2] != ("run",) or not rows:
        return ""
    records = [row.record for row in rows]
    parts: dict[str, list[object]] = {
        "model": [run.model],
        "data": [run.data or "seeded synthetic inputs"],
        "recipes": [record.recipe for record in records if record.recipe],
        "devices": [record.device for record in records],
        "runtimes": [
            target.runtime if target.delegate == "cpu" else f"{target.runtime}:{target.delegate}"
            for record in records
            if (target := record.target)
        ],
        "threads": [record.threads for record in records],
        "batches": ["open" if record.batch is None else record.batch for record in records],
        "plan": [_plan(record.plan) for record in records if record.plan],
    }
    told = [f"{name} {', '.join(dict.fromkeys(map(str, values)))}" for name, values in parts.items() if values]
    return one_line(" · ".join(told))


def _plan(plan: Plan) -> str:
    return (
        f"{plan.rounds} rounds of at least {plan.min_runs} runs and {plan.min_seconds:g} s, "
        f"at most {plan.max_runs} runs or {plan.max_seconds:g} s"
    )
