"""The log of TFLite's and LiteRT's `benchmark_model`, read: times, memory, and nothing that it does not say."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from edgebench.errors import StageError
from edgebench.types import LatencySummary

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
# Times of a phase in microseconds, the warm-up's and then the result's. A line of the profiler ("Timings
# (microseconds): count=") is none of them.
_COUNT_LINE = re.compile(r"^(?:INFO: *)?count=(\d+)(?!\d)(.*)$", re.MULTILINE)
_FIELD = re.compile(rf"\b(\w+)=({_NUMBER})")
_LOADED = re.compile(rf"Initialized session in ({_NUMBER})ms")
# The last thing that each program says about times; without it the log was cut.
_END = re.compile(r"Inference timings in us: |\bInference \(avg\): ")
_GROWTH = re.compile(rf"Memory footprint delta .*?overall=({_NUMBER})|Overall footprint: +({_NUMBER}) MB")
_PEAK = re.compile(rf"Overall peak memory footprint \(MB\) .*?: ({_NUMBER})|\bPeak memory: +({_NUMBER}) MB")
_NS_A_US = 1000
_NS_A_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkLog:
    """What a log says. `first_ns` is the warm-up's first run; None is what it does not say.

    `growth_bytes` is how much the program's memory grew from its start, by its own approximation; `peak_bytes` its
    highest memory.
    """

    result: LatencySummary
    load_ns: int | None
    first_ns: int | None
    growth_bytes: int | None
    peak_bytes: int | None


def read(log: str) -> BenchmarkLog:
    """The figures in a log, of which stdout and stderr are one text.

    Raises:
        StageError: it ends before the result, or holds something else than one warm-up and one result.
    """
    log = log.replace("\r\n", "\n")  # what adb makes of a line's end
    lines = _COUNT_LINE.findall(log)
    if len(lines) < 2 or not _END.search(log):
        raise StageError("the program's log ends before its result; see its last words in logs/runners.jsonl")
    if len(lines) > 2:
        raise StageError(f"the program's log has {len(lines)} lines of times, not one of a warm-up and one of a result")
    (warm_up_runs, warm_up), (runs, result) = lines
    loaded = _LOADED.search(log)
    return BenchmarkLog(
        result=_summary(int(runs), _fields(result)),
        load_ns=round(float(loaded[1]) * _NS_A_MS) if loaded else None,
        first_ns=_first_ns(_fields(warm_up)) if int(warm_up_runs) else None,
        growth_bytes=_bytes(_GROWTH, log),
        peak_bytes=_bytes(_PEAK, log),
    )


def _fields(line: str) -> dict[str, float]:
    return {name: float(value) for name, value in _FIELD.findall(line)}


def _summary(runs: int, us: dict[str, float]) -> LatencySummary:
    """Where all runs took the same time, or there was one, the line has `curr` alone."""
    are_same = "avg" not in us
    wanted = {"curr"} if are_same else {"avg", "min", "max"}
    if runs < 1 or not wanted <= us.keys() or not all(math.isfinite(us[name]) and us[name] > 0 for name in wanted):
        raise StageError(f"the program's line of results can't be used: count={runs} {us}")
    name = dict.fromkeys(("mean", "min", "max"), "curr") if are_same else {"mean": "avg", "min": "min", "max": "max"}
    return LatencySummary(
        runs=runs,
        mean_ns=round(us[name["mean"]] * _NS_A_US),
        min_ns=round(us[name["min"]] * _NS_A_US),
        max_ns=round(us[name["max"]] * _NS_A_US),
        std_ns=_optional_ns(us, "std"),
        median_ns=_optional_ns(us, "median"),
        p5_ns=_optional_ns(us, "p5"),
        p95_ns=_optional_ns(us, "p95"),
    )


def _optional_ns(us: dict[str, float], name: str) -> int | None:
    return round(us[name] * _NS_A_US) if name in us else None


def _first_ns(us: dict[str, float]) -> int | None:
    first = us.get("first", us.get("curr"))
    return None if first is None else round(first * _NS_A_US)


def _bytes(pattern: re.Pattern[str], log: str) -> int | None:
    """MB are MiB in these programs: they divide KiB by 1024."""
    found = pattern.search(log)
    return round(float(found[1] or found[2]) * 2**20) if found else None
