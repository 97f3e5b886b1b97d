"""The view model: what a record says, computed from its raw samples when it is shown, for every view alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from edgebench import stats
from edgebench.matrix import RUNTIMES
from edgebench.measure.trust import Trust, judge
from edgebench.types import (
    Caution,
    Divergence,
    Estimate,
    Format,
    Measurement,
    Origin,
    Plan,
    Precision,
    Record,
    Status,
    Verdict,
)

_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Latency of a measurement. `n` counts samples over all `rounds`; `first_ms` and `load_ms` are medians of rounds,
    None where the program did not say them.

    `enough_for` names the percentiles that have enough samples to be told at all.
    """

    p50_ms: Estimate
    p90_ms: Estimate
    p99_ms: Estimate
    first_ms: float | None
    load_ms: float | None
    n: int
    rounds: int
    enough_for: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One cell as views show it; None is missing. `cautions` holds all doubts about it, from its file to its verdict.

    `tool_mean_ms` stands for `latency` where an official program kept no single latencies: the mean that it printed,
    the middle one of the rounds, `n` counting its runs.

    `speed_up` is the p50 of the fp32 file of the same format over this p50, paired by round; it needs both to be stable
    and under equal conditions.
    """

    record: Record
    format: Format | None
    precision: Precision | None
    size_bytes: int | None
    origin: Origin | None
    latency: Latency | None
    peak_rss_bytes: int | None
    trust: Trust | None
    cautions: tuple[Caution, ...]
    tool_mean_ms: Estimate | None = None
    speed_up: Estimate | None = None

    @property
    def is_ok(self) -> bool:
        return self.record.status is Status.OK

    @property
    def is_stable(self) -> bool:
        """Whether its latency may be compared."""
        return self.trust is not None and self.trust.verdict is Verdict.STABLE

    @property
    def metric(self) -> tuple[str, Estimate] | None:
        """The task's first metric, which `drop_pp` is about."""
        metrics = self.record.evaluation.metrics if self.record.evaluation else {}
        return next(iter(metrics.items()), None)

    @property
    def drop_pp(self) -> Estimate | None:
        return self.record.evaluation.drop_pp if self.record.evaluation else None

    @property
    def divergence(self) -> Divergence | None:
        """From the baseline; None where there is none to compare with."""
        return self.record.evaluation.divergence if self.record.evaluation else None

    @property
    def agreement(self) -> Estimate | None:
        return self.divergence.agreement if self.divergence else None

    @property
    def sqnr_db(self) -> float | None:
        """Of the worst output; infinite when all outputs equal the baseline's."""
        return worst_sqnr_db(self.divergence) if self.divergence else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """How well a model does before it is converted, by the metric that its rows' `drop_pp` is about."""

    model: str
    metric: str
    estimate: Estimate


def baselines(rows: Sequence[Row]) -> tuple[Baseline, ...]:
    """One for each model and metric, of the rows' largest set of samples; none where no labels were there."""
    found: dict[tuple[str, str], Baseline] = {}
    for row in rows:
        evaluation = row.record.evaluation
        name = next(iter(evaluation.baseline_metrics), None) if evaluation else None
        if evaluation is None or name is None:
            continue
        one = Baseline(model=row.record.model, metric=name, estimate=evaluation.baseline_metrics[name])
        known = found.setdefault((one.model, name), one)
        if one.estimate.n > known.estimate.n:
            found[one.model, name] = one
    return tuple(found.values())


def worst_sqnr_db(divergence: Divergence) -> float | None:
    return min((output.sqnr_db for output in divergence.outputs.values()), default=None)


def summarize(record: Record) -> Row:
    """One record as a row, without `speed_up`, which needs the others."""
    measurement, evaluation, artifact = record.measurement, record.evaluation, record.artifact
    trust = judge(measurement, record.plan or Plan()) if measurement else None
    cautions = (
        *(artifact.cautions if artifact else ()),
        *(measurement.cautions if measurement else ()),
        *(trust.cautions if trust else ()),
        *(evaluation.cautions if evaluation else ()),
    )
    peaks = [round_.peak_rss_bytes for round_ in measurement.rounds if round_.peak_rss_bytes] if measurement else []
    return Row(
        record=record,
        format=artifact.format if artifact else RUNTIMES.get(record.runtime),
        precision=artifact.census.precision if artifact else None,
        size_bytes=artifact.size_bytes if artifact else None,
        origin=measurement.origin if measurement else None,
        latency=_latency(measurement) if measurement and _has_latencies(measurement) else None,
        tool_mean_ms=_tool_mean(measurement) if measurement else None,
        peak_rss_bytes=max(peaks, default=None),
        trust=trust,
        cautions=tuple(dict.fromkeys(cautions)),
    )


def summarize_all(records: Sequence[Record]) -> tuple[Row, ...]:
    """The rows of a run with their speed-ups: like with like, the fp32 file first, then by precision."""
    rows = sorted((summarize(record) for record in records), key=_order)
    references: dict[tuple[object, ...], Row] = {}
    for row in rows:
        if row.precision is Precision.FP32 and row.is_ok and row.is_stable:
            references.setdefault(_conditions(row), row)
    return tuple(replace(row, speed_up=_speed_up(row, references.get(_conditions(row)))) for row in rows)


def _has_latencies(measurement: Measurement) -> bool:
    return any(round_.latencies_ns for round_ in measurement.rounds)


def _tool_mean(measurement: Measurement) -> Estimate | None:
    """The middle of the rounds' own means, with an interval over the rounds; None where rounds have latencies."""
    summaries = [round_.summary for round_ in measurement.rounds if round_.summary]
    if not summaries:
        return None
    middle = _ms(stats.latency_estimate([[summary.mean_ns] for summary in summaries], 0.5))
    return replace(middle, n=sum(summary.runs for summary in summaries))


def _middle_ms(values_ns: Sequence[int | None]) -> float | None:
    known = [value for value in values_ns if value is not None]
    return median(known) / 1e6 if known else None


def _latency(measurement: Measurement) -> Latency:
    rounds = [round_.latencies_ns for round_ in measurement.rounds]
    n = sum(len(samples) for samples in rounds)
    estimates = {name: _ms(stats.latency_estimate(rounds, q)) for name, q in _PERCENTILES.items()}
    return Latency(
        p50_ms=estimates["p50"],
        p90_ms=estimates["p90"],
        p99_ms=estimates["p99"],
        first_ms=_middle_ms([round_.first_ns for round_ in measurement.rounds]),
        load_ms=_middle_ms([round_.load_ns for round_ in measurement.rounds]),
        n=n,
        rounds=len(rounds),
        enough_for=tuple(name for name, q in _PERCENTILES.items() if stats.is_enough_for(q, n)),
    )


def _ms(ns: Estimate) -> Estimate:
    return Estimate(value=ns.value / 1e6, low=ns.low / 1e6, high=ns.high / 1e6, n=ns.n)


def _speed_up(row: Row, reference: Row | None) -> Estimate | None:
    if reference is None or not (row.is_ok and row.is_stable and row.latency and reference.latency):
        return None
    if row.origin is not Origin.MEASURED:  # how two times that no device had relate is nothing of the device's either
        return None
    # Rounds of equal index ran next to each other, so that a drift of the device hits both and leaves their ratio.
    was, is_now = _p50_by_round(reference.record), _p50_by_round(row.record)
    shared = sorted(was.keys() & is_now.keys())
    if len(shared) < 2:
        return None
    return stats.paired_ratio([was[index] for index in shared], [is_now[index] for index in shared])


def _p50_by_round(record: Record) -> dict[int, float]:
    rounds = record.measurement.rounds if record.measurement else ()
    return {round_.index: stats.percentile(round_.latencies_ns, 0.5) for round_ in rounds}


def _conditions(row: Row) -> tuple[object, ...]:
    """What must be equal before two latencies are compared.

    The delegate is the one asked for: that one file runs on it and the other does not is part of the answer.
    """
    record = row.record
    versions = frozenset(round_.runtime_version for round_ in record.measurement.rounds) if record.measurement else None
    return (
        record.model,
        record.device,
        record.runtime,
        record.target.delegate if record.target else record.delegate,
        record.threads,
        record.batch,
        row.format,
        row.origin,
        record.plan,
        versions,
    )


def _order(row: Row) -> tuple[object, ...]:
    record = row.record
    return (
        record.model,
        record.device,
        record.batch or 0,
        record.threads,
        _place(list(Format), row.format),
        record.runtime,
        _place(list(Precision), row.precision),
        record.recipe or "",
        record.cell,
    )


def _place(order: Sequence[object], value: object) -> int:
    return order.index(value) if value in order else len(order)
