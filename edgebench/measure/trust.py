"""Whether a measured latency can be believed: a verdict, and a caution for each doubt.

A caution says what was seen, with its numbers, and the likely cause; its advice is what to type next.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgebench.types import MOST_RUNS, Caution, Measurement, Origin, Plan, Round, Verdict

# Below this many processes, the spread between processes (memory layout, neighbours, clocks) is not known.
MIN_ROUNDS = 5
# The median of fewer runs is the luck of single ones.
MIN_RUNS_IN_A_ROUND = 5
MIN_RUNS = 30
# A quiet machine gave medians of processes within 1-3 % of each other; differences of formats are sought from 5 % up.
MAX_SPREAD = 0.05
# Quartile distance over the median within a round. Normal noise of the 3 % of a quiet machine makes 4 %.
MAX_WITHIN = 0.15
# How much slower the last third of a round may be than its first third.
MAX_DRIFT = 0.05
# Clocks that fall, or degrees that rise, from the first rounds to the last: a sensor's own noise stays below.
MIN_CLOCK_FALL = 0.05
MIN_RISE_C = 5.0
# Android's PowerManager: 0 none, 1 light, 2 moderate, 3 severe ... From 1 on, clocks are limited.
THROTTLING_STATUS = 1
# CPU time over wall time: one busy thread makes 1. Below this, the process was kept waiting by its neighbours ...
MIN_CPU_SHARE = 0.9
# ... which counts by the share of runs that were interrupted: from a tenth on the p90 is theirs, from half on the p50.
# (A few interruptions of ten thousand short runs take much time and touch neither.)
MAX_INTERRUPTED_FOR_P90 = 0.1
MAX_INTERRUPTED_FOR_P50 = 0.5
# A warm-up has settled when so many windows agree, each of at least `Plan.warmup_min_runs` runs: runner.warm_up.
SETTLING_WINDOWS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The verdict on a latency. `cautions` give every doubt, those recorded while measuring first."""

    verdict: Verdict
    cautions: tuple[Caution, ...]


def judge(measurement: Measurement, plan: Plan) -> Trust:
    """The gravest verdict that the raw rounds give cause for: invalid, too-few, throttled, noisy, or stable.

    A pure function of its arguments. `invalid`: the numbers are not the speed of this model there. `too-few`: nothing
    is known about their spread. `throttled`: the device slowed down. `noisy`: they vary more than what one looks for.
    Rounds of a program that keeps no single latencies are compared with each other only.
    """
    doubts = list(_doubts(measurement, plan))
    gravest = next(
        (verdict for verdict in _GRAVEST_FIRST if any(found is verdict for found, _ in doubts)), Verdict.STABLE
    )
    return Trust(verdict=gravest, cautions=measurement.cautions + tuple(caution for _, caution in doubts))


_GRAVEST_FIRST = (Verdict.INVALID, Verdict.TOO_FEW, Verdict.THROTTLED, Verdict.NOISY)


def _doubts(measurement: Measurement, plan: Plan) -> Iterator[tuple[Verdict, Caution]]:
    rounds = measurement.rounds
    if not rounds:
        yield _doubt(Verdict.INVALID, "no-rounds", "no round was measured", "run the same command again")
        return
    if measurement.origin is Origin.EMULATED:
        text = "the device's processor is emulated, so its times say nothing about speed"
        yield _doubt(Verdict.INVALID, "emulated", text, "measure on a real device")
    yield from _unlike(rounds)
    yield from _starved(rounds)
    yield from _too_few(rounds, plan)
    yield from _throttled(rounds)
    yield from _noisy(rounds)
    yield from _unsteady_warm_up(rounds, plan)
    yield from _non_finite(rounds)


def _doubt(verdict: Verdict, code: str, message: str, advice: str) -> tuple[Verdict, Caution]:
    return verdict, Caution(code=code, message=message, advice=advice)


def _unlike(rounds: Sequence[Round]) -> Iterator[tuple[Verdict, Caution]]:
    seen: dict[str, set[object]] = {
        "runtime version": {round.runtime_version for round in rounds},
        "delegate": {round.delegate for round in rounds},
        "share of operators on the delegate": {round.delegated_fraction for round in rounds},
        "CPUs allowed": {round.affinity for round in rounds},
    }
    for what, values in seen.items():
        if len(values) > 1:
            found = ", ".join(sorted(map(str, values)))
            text = (
                f"the rounds do not belong together: {what} was {found}; likely cause: something was installed or "
                "changed between them"
            )
            yield _doubt(Verdict.INVALID, "unlike-rounds", text, "measure again into a new folder: --out NEW")


def _starved(rounds: Sequence[Round]) -> Iterator[tuple[Verdict, Caution]]:
    starved = [round for round in rounds if _cpu_share(round) < MIN_CPU_SHARE]
    touched = [round for round in starved if _interrupted(round) >= MAX_INTERRUPTED_FOR_P90]
    if not touched:
        return
    spoiled = [round for round in starved if _interrupted(round) >= MAX_INTERRUPTED_FOR_P50]
    verdict = Verdict.INVALID if 2 * len(spoiled) >= len(rounds) else Verdict.NOISY
    text = (
        f"in {len(touched)} of {len(rounds)} rounds other work kept the process waiting: it had the CPU for "
        f"{min(map(_cpu_share, touched)):.0%} of the time, and up to {max(map(_interrupted, touched)):.0%} of the runs "
        f"were interrupted; likely cause: {_neighbours(rounds)}"
    )
    yield _doubt(verdict, "starved", text, "see what runs with: top, end it, and run again with --out NEW")


def _cpu_share(round: Round) -> float:
    """CPU time over wall time; 1 where it is unknown, or where an accelerator works while the CPU sleeps."""
    if round.cpu_time_ns is None or round.delegate not in ("cpu", "xnnpack"):
        return 1.0
    return round.cpu_time_ns / sum(round.latencies_ns)


def _interrupted(round: Round) -> float:
    """The share of runs that another process can have interrupted; all where the kernel does not count."""
    if round.involuntary_switches is None:
        return 1.0
    return min(1.0, round.involuntary_switches / len(round.latencies_ns))


def _too_few(rounds: Sequence[Round], plan: Plan) -> Iterator[tuple[Verdict, Caution]]:
    if len(rounds) < MIN_ROUNDS:
        text = (
            f"{len(rounds)} round{'' if len(rounds) == 1 else 's'}: how much one process differs from the next takes "
            f"{MIN_ROUNDS} to see"
        )
        yield _doubt(Verdict.TOO_FEW, "few-rounds", text, f"run again with {_more_rounds(rounds)}")
    runs = [round.summary.runs if round.summary else len(round.latencies_ns) for round in rounds]
    if min(runs) < MIN_RUNS_IN_A_ROUND or sum(runs) < MIN_RUNS:
        wanted = max(MIN_RUNS_IN_A_ROUND, -(-MIN_RUNS // len(rounds)))
        run_s = statistics.median(_median(round) for round in rounds) / 1e9
        if plan.max_runs < wanted or plan.min_runs < wanted <= plan.max_seconds / run_s:
            cause, remedy = f"the plan asks for {plan.min_runs} to {plan.max_runs} a round", _option("min_runs", wanted)
        else:
            cause = f"a run takes {run_s:.3g} s, and a round ends after {plan.max_seconds:g} s"
            remedy = _option("max_seconds", f"{1.2 * wanted * run_s:.3g}")
        text = (
            f"{sum(runs)} runs, {min(runs)} in the shortest round, where {MIN_RUNS} and {MIN_RUNS_IN_A_ROUND} are "
            f"needed; likely cause: {cause}"
        )
        yield _doubt(Verdict.TOO_FEW, "few-runs", text, f"run again with {remedy}")


def _more_rounds(rounds: Sequence[Round]) -> str:
    """What every doubt that asks for rounds names, so that a reader sees one number: a verdict's 5, then twice."""
    return _option("rounds", MIN_ROUNDS if len(rounds) < MIN_ROUNDS else 2 * len(rounds))


def _option(name: str, value: object) -> str:
    """How the plan's `name` is asked for: by an option of the command line, or in a matrix, whose `run` has none."""
    return f"--{name.replace('_', '-')} {value} (in a matrix: plan.{name})"


def _throttled(rounds: Sequence[Round]) -> Iterator[tuple[Verdict, Caution]]:
    remedy = "let the device cool, give it air or a lower room temperature, and run again with --out NEW"
    status = max((moment.thermal_status or 0 for round in rounds for moment in (round.before, round.after)), default=0)
    if status >= THROTTLING_STATUS:
        text = f"the device said that it throttles (thermal status {status}; 0 is none)"
        yield _doubt(Verdict.THROTTLED, "thermal-status", text, remedy)
    drift = statistics.median(_drift(round.latencies_ns) for round in rounds)
    if drift > MAX_DRIFT:
        text = (
            f"within a round, runs became {drift:.0%} slower from its first third to its last; likely cause: the clock "
            "falls under load"
        )
        yield _doubt(Verdict.THROTTLED, "slows-within-rounds", text, remedy)
    slower = _change([_median(round) for round in rounds])
    if slower <= MAX_DRIFT:
        return
    signs = []
    clocks = [clock for round in rounds if (clock := _clock_mhz(round)) is not None]
    if len(clocks) == len(rounds) and _change(clocks) <= -MIN_CLOCK_FALL:
        signs.append(f"the clock of the CPUs used fell by {-_change(clocks):.0%}")
    heat = [round.after.temperature_c for round in rounds if round.after.temperature_c is not None]
    if len(heat) == len(rounds) and _rise(heat) >= MIN_RISE_C:
        signs.append(f"the temperature rose by {_rise(heat):.0f} °C to {heat[-1]:.0f} °C")
    if signs:
        text = f"later rounds were {slower:.0%} slower while {' and '.join(signs)}"
        yield _doubt(Verdict.THROTTLED, "slows-between-rounds", text, remedy)


def _noisy(rounds: Sequence[Round]) -> Iterator[tuple[Verdict, Caution]]:
    medians = [_median(round) for round in rounds]
    middle = statistics.median(medians)
    spread = (max(medians) - min(medians)) / middle
    cause = f"likely cause: {_neighbours(rounds)}"
    remedy = f"make the machine quiet and run again with {_more_rounds(rounds)}"
    if spread > MAX_SPREAD:
        text = (
            f"the medians of {len(rounds)} rounds lie {spread:.0%} apart ({min(medians) / 1e6:.4g} to "
            f"{max(medians) / 1e6:.4g} ms; up to {MAX_SPREAD:.0%} is quiet); {cause}"
        )
        yield _doubt(Verdict.NOISY, "rounds-differ", text, remedy)
    within = statistics.median(_quartile_distance(round.latencies_ns) for round in rounds)
    if within > MAX_WITHIN:
        text = (
            f"within a round, the middle half of the runs lies {within:.0%} of the median apart "
            f"(up to {MAX_WITHIN:.0%} is quiet); {cause}"
        )
        yield _doubt(Verdict.NOISY, "runs-differ", text, remedy)


def _unsteady_warm_up(rounds: Sequence[Round], plan: Plan) -> Iterator[tuple[Verdict, Caution]]:
    """No verdict of its own: what it does to the latencies, if anything, `_noisy` and `_throttled` measure."""
    unsteady = [round for round in rounds if round.is_steady is False]
    if not unsteady or 2 * len(unsteady) < len(rounds):
        return
    needed = SETTLING_WINDOWS * plan.warmup_min_runs
    run_s = statistics.median(_median(round) for round in unsteady) / 1e9
    limit, cause = f"{plan.warmup_max_seconds:g} s", f"slowly rising clocks, or {_neighbours(rounds)}"
    remedy = f"warmup_max_seconds: {2 * plan.warmup_max_seconds:g}"
    if needed * run_s > plan.warmup_max_seconds:
        cause = f"a run takes {run_s:.3g} s, and {needed} runs are needed to tell"
        remedy = f"warmup_max_seconds: {1.2 * needed * run_s:.3g}"
    elif max(len(round.warmup_ns) for round in unsteady) >= plan.max_runs:
        limit, cause = f"{plan.max_runs} runs", f"a run takes {1e6 * run_s:.3g} µs only"
        remedy = f"max_runs: {min(10 * plan.max_runs, MOST_RUNS)}"
    text = (
        f"in {len(unsteady)} of {len(rounds)} rounds the warm-up came to its limit of {limit} before its runs had "
        f"settled; likely cause: {cause}"
    )
    advice = f"warm up longer, by a matrix file's `plan: {{{remedy}}}`"
    yield _doubt(Verdict.STABLE, "unsteady-warm-up", text, advice)


def _non_finite(rounds: Sequence[Round]) -> Iterator[tuple[Verdict, Caution]]:
    """No verdict of its own: the times are those of the runs, whatever they computed."""
    most: dict[str, int] = {}
    for round in rounds:
        for name, count in round.non_finite.items():
            most[name] = max(count, most.get(name, 0))
    bad = ", ".join(f"{count} of '{name}'" for name, count in most.items() if count)
    if bad:
        text = f"outputs had NaN or infinite values while measuring: {bad} in one run"
        advice = "look at the inputs, or for an overflow (fp16) or a division by zero in the model"
        yield _doubt(Verdict.STABLE, "non-finite", text, advice)


def _neighbours(rounds: Sequence[Round]) -> str:
    """Who else may have used the machine, with what the conditions say about it."""
    loads = [round.before.load_1min for round in rounds if round.before.load_1min is not None]
    governors = {round.before.governor for round in rounds if round.before.governor not in (None, "performance")}
    causes = ["other programs on its CPUs" + (f" (load {max(loads):.1f} before a round)" if loads else "")]
    if governors:
        causes.append(f"changing clocks (governor {'+'.join(sorted(map(str, governors)))})")
    return " or ".join(causes)


def _median(round: Round) -> float:
    """Of its latencies; where a program keeps none, its own median, or its mean where it says no median."""
    if round.summary is not None:
        return round.summary.mean_ns if round.summary.median_ns is None else round.summary.median_ns
    return statistics.median(round.latencies_ns)


def _drift(latencies_ns: Sequence[int]) -> float:
    """How much slower the median of the last third is than that of the first; 0 for too few runs to split."""
    third = len(latencies_ns) // 3
    if third < MIN_RUNS_IN_A_ROUND:
        return 0.0
    return statistics.median(latencies_ns[-third:]) / statistics.median(latencies_ns[:third]) - 1


def _quartile_distance(latencies_ns: Sequence[int]) -> float:
    if len(latencies_ns) < MIN_RUNS_IN_A_ROUND:
        return 0.0
    low, middle, high = statistics.quantiles(latencies_ns, n=4)
    return (high - low) / middle


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """The medians of the first and of the last third."""
    third = max(1, len(values) // 3)
    return statistics.median(values[:third]), statistics.median(values[-third:])


def _change(values: Sequence[float]) -> float:
    first, last = _ends(values)
    return last / first - 1


def _rise(values: Sequence[float]) -> float:
    first, last = _ends(values)
    return last - first


def _clock_mhz(round: Round) -> float | None:
    """The mean clock after a round of the CPUs that it used."""
    clocks = round.after.cpu_clocks_mhz
    if clocks is None:
        return None
    used = [clocks[cpu] for cpu in round.affinity or range(len(clocks)) if cpu < len(clocks)]
    return statistics.fmean(used) if used else None
