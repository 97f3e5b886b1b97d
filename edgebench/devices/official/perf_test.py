"""ONNX Runtime's `onnxruntime_perf_test`: its command lines, what it prints, and its file of single latencies.

It warms up with one run, feeds random inputs, and gives no outputs. Wordings are those of onnxruntime/test/perftest
(performance_runner.cc) before and after 2021, and of the session's log (session_state.cc, the providers).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from edgebench.devices.official.delegation import Delegation
from edgebench.errors import InputError, StageError
from edgebench.types import OfficialTool, Plan

NAME = "onnxruntime_perf_test"
PROOF_RUNS = 3
DELEGATES: Mapping[str, str] = {
    "cpu": "CPUExecutionProvider",
    "nnapi": "NnapiExecutionProvider",
    "xnnpack": "XnnpackExecutionProvider",
    "qnn": "QNNExecutionProvider",
}
_NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
_LOADED = re.compile(rf"Session creation time cost: *{_NUMBER} *s")
_FIRST = re.compile(rf"First inference time cost: *{_NUMBER} *ms")
_PLACED = re.compile(r"(?:All nodes|Node\(s\)) placed on \[(\w+)\]")
_SUPPORTED = re.compile(r"number of nodes in the graph: (\d+),? number of nodes supported by (\w+): (\d+)")
_NS_A_S = 1e9
_NS_A_MS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """The single latencies of a process, in order, and what it printed beside them; None is what it did not say."""

    latencies_ns: tuple[int, ...]
    load_ns: int | None
    first_ns: int | None
    peak_bytes: int | None


def arguments(model: str, result: str, threads: int, runs: int, delegate: str, tool: OfficialTool) -> list[str]:
    """The arguments for `runs` runs of seeded random inputs, whose times it appends to the file `result`.

    Raises:
        InputError: there is no such delegate.
    """
    if delegate not in DELEGATES:
        raise InputError(f"{NAME} has no delegate '{delegate}'; possible: {', '.join(DELEGATES)}")
    options = [] if tool.options is None or delegate == "cpu" else ["-i", tool.options]
    flags = ["-I", "-S", "1", "-x", str(threads), "-e", delegate, *options, "-m", "times", "-r", str(runs)]
    return [*flags, model, result]


def runs_for(plan: Plan, proof: Timed) -> int:
    """How many runs a round gets beside its warm-up: enough for both minimums, at the fastest pace of `proof`."""
    run_s = min(proof.latencies_ns) / _NS_A_S
    wanted = max(plan.min_runs, math.ceil(plan.min_seconds / run_s))
    return max(1, min(wanted, plan.max_runs, math.floor(plan.max_seconds / run_s)))


def read(printed: str, result: str, runs: int) -> Timed:
    """What a process of `runs` runs printed and wrote. A line of `result`: model, seconds, peak bytes, CPU use, index.

    Raises:
        StageError: the file has fewer or other lines than these runs make.
    """
    rows = [line.rsplit(",", 4) for line in result.splitlines() if line.count(",") >= 4]
    try:
        latencies_ns = tuple(round(float(row[1]) * _NS_A_S) for row in rows)
        peak_bytes = max((int(row[2]) for row in rows), default=0)
    except (ValueError, OverflowError) as error:
        raise StageError(f"the program's result file can't be read: {error}") from error
    if len(latencies_ns) != runs or min(latencies_ns) <= 0:
        raise StageError(f"the program's result file has {len(latencies_ns)} usable latencies of {runs} runs")
    loaded, first = _LOADED.search(printed), _FIRST.search(printed)
    return Timed(
        latencies_ns=latencies_ns,
        load_ns=round(float(loaded[1]) * _NS_A_S) if loaded else None,
        # Printed in whole milliseconds: 0 says nothing.
        first_ns=(round(float(first[1]) * _NS_A_MS) or None) if first else None,
        peak_bytes=peak_bytes or None,
    )


def delegation(verbose_log: str, delegate: str) -> Delegation:
    """Who runs the operators, by the log of a verbose process.

    The share is a provider's own count of the graph's operators; operators that it fused count as one in placements, so
    those tell a share only where all are on one provider.

    Raises:
        StageError: no operator is on the delegate, or the log does not say.
    """
    placed = set(_PLACED.findall(verbose_log))
    if delegate == "cpu":
        return Delegation(name="cpu", fraction=0.0)
    provider = DELEGATES[delegate]
    if not placed:
        raise StageError(
            f"nothing in the program's log shows that {provider} ran, so that it may have run on the CPU; take a build "
            "that logs node placements (not a minimal build)"
        )
    if provider not in placed:
        raise StageError(
            f"it ran on {', '.join(sorted(placed))}, not on {provider}, which takes no operator of this file; convert "
            "it to what the provider supports, or measure it on cpu"
        )
    counted = [match for match in _SUPPORTED.findall(verbose_log) if match[1].lower() in provider.lower()]
    if counted and int(counted[-1][0]):
        return Delegation(name=delegate, fraction=int(counted[-1][2]) / int(counted[-1][0]))
    return Delegation(name=delegate, fraction=1.0 if placed == {provider} else None)
