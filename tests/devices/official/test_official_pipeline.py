"""Official programs as runtimes of a whole run: from a device's file to records and views."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import official_stand_ins as stand_ins
import pytest

from edgebench.devices.official import commands, perf_test
from edgebench.matrix import DELEGATES, Axes, Budget, DataSource
from edgebench.measure import tool_process
from edgebench.measure.trust import judge
from edgebench.pipeline import Silent, measure_files
from edgebench.reports import FORMATS, render
from edgebench.reports.budget import misses
from edgebench.reports.csv_view import to_csv
from edgebench.reports.grid import columns
from edgebench.reports.summary import summarize, summarize_all
from edgebench.store import Store
from edgebench.types import (
    Conditions,
    Format,
    LatencySummary,
    Measurement,
    Origin,
    Plan,
    Round,
    Status,
    Target,
    Verdict,
)

FILES = Path(__file__).parent.parent.parent / "files"
QUICK = Plan(rounds=2, min_runs=20, min_seconds=0, warmup_max_seconds=0.0, timeout_s=60)
XNNPACK = "Explicitly applied XNNPACK delegate, and the model graph will be completely executed by the delegate."
NO_GPU = "Though GPU delegate is explicitly applied, the model graph will not be executed by the delegate."


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """A folder with the device `bench`: this machine with official programs, which stand in its folder `programs`."""
    monkeypatch.setenv("EDGEBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "devices" / "programs").mkdir(parents=True)
    stand_ins.benchmark_model(tmp_path / "devices" / "programs", (XNNPACK, NO_GPU))
    stand_ins.perf_test(tmp_path / "devices" / "programs")
    (tmp_path / "devices" / "bench.yaml").write_text(
        "driver: host\n"
        "tools:\n"
        "  benchmark_model: {path: programs/benchmark_model}\n"
        "  onnxruntime_perf_test: {path: programs/onnxruntime_perf_test}\n"
    )
    return tmp_path


def records(file, *runtimes, shape=(8, 8, 3)):
    random = np.random.default_rng(0)
    np.savez("data.npz", image=random.random((6, *shape), dtype=np.float32), labels=random.integers(0, 3, 6))
    axes = Axes(devices=("bench",), runtimes=runtimes, plan=QUICK)
    measure_files([FILES / file], DataSource(source="data.npz"), axes, Path("run"), [], Silent())
    with Store.open(Path("run") / "records.sqlite", read_only=True) as store:
        return {record.target.delegate: record for record in store.records()}


def test_a_run_with_benchmark_model_has_accuracy_a_mean_and_a_failed_cell_for_the_delegate_that_did_not_run(
    bench, monkeypatch
):
    monkeypatch.setattr(tool_process, "MOST_SAMPLES", 4)
    found = records("tiny-float.tflite", "benchmark_model", "benchmark_model:gpu")
    good, bad = found["cpu"], found["gpu"]
    assert (good.status, good.runtime, good.delegate) == (Status.OK, "benchmark_model", "xnnpack")
    assert good.measurement.runner == "benchmark_model"
    assert [round_.summary.runs for round_ in good.measurement.rounds] == [20, 20]
    assert good.evaluation.n == 4
    assert "some-samples" in [caution.code for caution in good.evaluation.cautions]
    assert (bad.status, bad.stage) == (Status.FAILED, "evaluate")
    assert "ran on the CPU, not on gpu" in bad.reason

    row = summarize(good)
    assert row.latency is None
    assert row.tool_mean_ms.n == 40
    means_ms = [round_.summary.mean_ns / 1e6 for round_ in good.measurement.rounds]
    assert min(means_ms) <= row.tool_mean_ms.value <= max(means_ms)
    assert [caution.code for caution in row.trust.cautions] != []
    table = {column.title: column.cells for column in columns(summarize_all(list(found.values())))}
    assert any(cell.endswith("of 40 runs") for cell in table["mean ms, tool's own"])
    assert "p50 ms" not in table
    assert "tool_mean_ms,tool_mean_ms_low,tool_mean_ms_high,tool_runs" in to_csv([row]).splitlines()[0]
    for format in FORMATS:
        shown = "tool_mean_ms" if format in ("csv", "json") else "of 40 runs"
        assert shown in render(None, list(found.values()), format)
    (miss,) = misses([row], Budget(max_p50_ms=1e9))
    assert "benchmark_model tells a mean and no p50; measure it with another runtime" in miss.message


def test_a_run_with_perf_test_has_latencies_and_no_accuracy(bench):
    record = records("tiny.onnx", "onnxruntime_perf_test", shape=(3, 8, 8))["cpu"]
    assert (record.status, record.evaluation) == (Status.OK, None)
    assert [len(round_.latencies_ns) for round_ in record.measurement.rounds] == [20, 20]
    row = summarize(record)
    assert row.latency.n == 40
    assert row.tool_mean_ms is None
    assert "random-inputs" in [caution.code for caution in row.cautions]


def summed(index, mean_ns, median_ns=None, runs=100):
    """A round as benchmark_model tells it."""
    quiet = Conditions(at="2026-01-01T00:00:00+00:00")
    return Round(
        index=index,
        latencies_ns=(),
        warmup_ns=(),
        load_ns=None,
        first_ns=None,
        peak_rss_bytes=None,
        runtime_version="sha256 0123456789ab",
        delegate="gpu",
        delegated_fraction=1.0,
        affinity=None,
        before=quiet,
        after=quiet,
        summary=LatencySummary(runs=runs, mean_ns=mean_ns, min_ns=1, max_ns=10**9, median_ns=median_ns),
    )


@pytest.mark.parametrize(
    ("rounds", "verdict", "codes"),
    [
        ([summed(i, 5_000_000 + i) for i in range(5)], Verdict.STABLE, []),
        # Their medians agree: single slow runs move a mean, not a median.
        ([summed(i, 5_000_000 * (1 + i), median_ns=5_000_000) for i in range(5)], Verdict.STABLE, []),
        ([summed(i, 5_000_000 * (2 + i % 2)) for i in range(5)], Verdict.NOISY, ["rounds-differ"]),
        ([summed(i, 5_000_000, runs=2) for i in range(5)], Verdict.TOO_FEW, ["few-runs"]),
        ([summed(0, 5_000_000)], Verdict.TOO_FEW, ["few-rounds"]),
    ],
)
def test_rounds_without_single_latencies_are_judged_by_what_they_say(rounds, verdict, codes):
    trust = judge(Measurement(rounds=tuple(rounds), origin=Origin.MEASURED), Plan())
    assert (trust.verdict, [caution.code for caution in trust.cautions]) == (verdict, codes)


def test_a_round_has_latencies_or_a_summary_and_not_both_or_none():
    good = summed(0, 5)
    with pytest.raises(ValueError, match="not both"):
        dataclasses.replace(good, latencies_ns=(1,))
    with pytest.raises(ValueError, match="at least one latency"):
        dataclasses.replace(good, summary=None)


def test_delegates_are_asked_for_after_a_colon():
    axes = Axes(runtimes=("benchmark_model:gpu", "litert"), threads=(2,))
    assert list(axes.targets(Format.TFLITE)) == [
        Target(device="host", runtime="benchmark_model", delegate="gpu", threads=2),
        Target(device="host", runtime="litert", threads=2),
    ]
    assert list(axes.targets(Format.ONNX)) == []


@pytest.mark.parametrize(
    ("runtime", "possible"),
    [
        ("benchmark_model:npu", "benchmark_model:cpu, benchmark_model:gpu, benchmark_model:nnapi"),
        ("benchmark_model:", "benchmark_model:external"),
        ("litert:gpu", "litert"),
        ("bench:gpu", "litert, tflite-runtime"),
    ],
)
def test_a_delegate_that_a_runtime_does_not_have_is_told_with_the_possible_ones(runtime, possible):
    with pytest.raises(ValueError, match=f"is unknown; possible: .*{possible}"):
        Axes(runtimes=(runtime,))


def test_the_delegates_that_may_be_asked_for_are_those_of_the_command_lines():
    assert {**commands.DELEGATES, perf_test.NAME: tuple(perf_test.DELEGATES)} == DELEGATES
