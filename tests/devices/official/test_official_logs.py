"""The words of the official programs, read. The texts are made from the formats in their sources."""

from __future__ import annotations

import pytest

from edgebench.devices.official import benchmark_log, delegation, perf_test
from edgebench.devices.official.delegation import Delegation
from edgebench.errors import StageError
from edgebench.types import LatencySummary, Plan

END = "Inference timings in us: Init: 6412, First inference: 12874, Warmup (avg): 8204.36, Inference (avg): 8121.77\n"
NEW = (
    "INFO: STARTING!\n"
    "VERBOSE: Replacing 63 out of 64 node(s) with delegate (TfLiteXNNPackDelegate) node, yielding 2 partitions for the "
    "whole graph.\n"
    "INFO: Explicitly applied XNNPACK delegate, and the model graph will be partially executed by the delegate w/ 2 "
    "delegate kernels.\n"
    "INFO: Initialized session in 6.412ms.\n"
    "INFO: count=61 first=12874 curr=8121 min=7984 max=12874 avg=8204.36 std=612 p5=8011 median=8119 p95=8402\n\n"
    "INFO: count=123 first=8133 curr=8102 min=7951 max=9210 avg=8121.77 std=141 p5=7998 median=8098 p95=8360\n\n"
    f"INFO: {END}"
    "INFO: Memory footprint delta from the start of the tool (MB): init=5.5 overall=9.75\n"
    "INFO: Overall peak memory footprint (MB) via periodic monitoring: 14.3281\n"
)
OLD = (
    "NNAPI delegate created.\n"
    "Though NNAPI delegate is explicitly applied, the model graph will not be executed by the delegate.\n"
    "Initialized session in 34.939ms.\n"
    "count=1 curr=637079\n\n"
    "count=50 first=21256 curr=21087 min=20425 max=24213 avg=21140.3 std=778\n\n"
    f"{END}"
)
LITERT = (
    "VERBOSE: Replacing 64 out of 64 node(s) with delegate (TfLiteXNNPackDelegate) node, yielding 1 partitions for "
    "subgraph 0.\n"
    "INFO: Initialized session in 7.102ms.\n"
    "INFO: count=60 first=12911 curr=8188 min=8002 max=12911 avg=8290.5 std=640 p5=8040 median=8190 p95=8511\n\n"
    "INFO: count=121 first=8201 curr=8170 min=8001 max=9301 avg=8188.1 std=150 p5=8052 median=8171 p95=8420\n\n"
    "INFO: [./litert/tools/benchmark_litert_model.h:88] Inference (avg):      8.19 ms (121 runs)\n"
    "INFO: [./litert/tools/benchmark_litert_model.h:114] Init footprint:       8.94 MB\n"
    "INFO: [./litert/tools/benchmark_litert_model.h:116] Overall footprint:    11.51 MB\n"
)


def test_the_second_line_of_times_is_the_result_and_the_first_the_warm_up():
    told = benchmark_log.read(NEW)
    assert told.result == LatencySummary(
        runs=123,
        mean_ns=8_121_770,
        min_ns=7_951_000,
        max_ns=9_210_000,
        std_ns=141_000,
        median_ns=8_098_000,
        p5_ns=7_998_000,
        p95_ns=8_360_000,
    )
    assert (told.load_ns, told.first_ns) == (6_412_000, 12_874_000)
    assert (told.growth_bytes, told.peak_bytes) == (round(9.75 * 2**20), round(14.3281 * 2**20))


def test_an_old_build_has_no_prefix_and_no_percentiles_and_one_warm_up_run_has_only_curr():
    told = benchmark_log.read(OLD)
    assert (told.result.runs, told.result.mean_ns, told.first_ns) == (50, 21_140_300, 637_079_000)
    assert (told.result.median_ns, told.result.p5_ns, told.growth_bytes, told.peak_bytes) == (None, None, None, None)


def test_litert_s_own_program_is_read_by_the_same_lines():
    told = benchmark_log.read(LITERT)
    assert (told.result.runs, told.result.median_ns, told.load_ns) == (121, 8_171_000, 7_102_000)
    assert told.growth_bytes == round(11.51 * 2**20)


@pytest.mark.parametrize(
    ("line", "runs", "mean_ns"),
    [
        ("count=1 curr=637079", 1, 637_079_000),
        ("count=7 curr=21(all same)", 7, 21_000),
        ("count=5 first=3.51e+06 curr=3510000 min=3.5e+06 max=3.52e+06 avg=3.51e+06 std=12", 5, 3_510_000_000),
    ],
)
def test_one_run_equal_runs_and_large_times_are_read(line, runs, mean_ns):
    result = benchmark_log.read(f"count=1 curr=9\n{line}\n{END}").result
    assert (result.runs, result.mean_ns) == (runs, mean_ns)
    assert result.min_ns <= result.mean_ns <= result.max_ns


def test_lines_of_the_profiler_are_no_result():
    profile = "Timings (microseconds): count=123 first=8131 curr=8100 min=7950 max=9208 avg=8119.6 std=141\n"
    profile += "Memory (bytes): count=0\n64 nodes observed\n"
    assert benchmark_log.read(NEW + profile) == benchmark_log.read(NEW)


def test_line_ends_of_adb_change_nothing():
    assert benchmark_log.read(NEW.replace("\n", "\r\n")) == benchmark_log.read(NEW)


@pytest.mark.parametrize("end", [0, NEW.index("INFO: count=61"), NEW.index("INFO: count=123"), NEW.index(END)])
def test_a_cut_log_has_no_result(end):
    with pytest.raises(StageError, match="ends before its result"):
        benchmark_log.read(NEW[:end])


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("count=0", "can't be used: count=0"),
        ("count=50 first=21256 min=20425", "can't be used: count=50"),
        ("count=50 first=1 curr=0 min=0 max=0 avg=0 std=0", "can't be used"),
        ("count=5 curr=7(all same)\ncount=5 curr=7(all same)", "has 3 lines of times"),
    ],
)
def test_a_line_that_is_no_result_is_refused(second, message):
    with pytest.raises(StageError, match=message):
        benchmark_log.read(f"count=1 curr=9\n{second}\n{END}")


def test_the_share_on_xnnpack_is_told_and_is_the_usual_way_of_the_cpu():
    assert delegation.read(NEW, "cpu") == Delegation(name="xnnpack", fraction=63 / 64)
    assert delegation.read(LITERT, "cpu") == Delegation(name="xnnpack", fraction=1.0)
    assert delegation.read("nothing of it\n", "cpu") == Delegation(name="cpu", fraction=None)
    without = "Though XNNPACK delegate is explicitly applied, the model graph will not be executed by the delegate.\n"
    assert delegation.read(without, "cpu") == Delegation(name="cpu", fraction=0.0)


GPU_WHOLE = "Explicitly applied GPU delegate, and the model graph will be completely executed by the delegate.\n"
GPU_PART = (
    "Explicitly applied GPU delegate, and the model graph will be partially executed by the delegate w/ 2 delegate "
    "kernels.\n"
)
GPU_COUNT = "INFO: Replacing 31 out of 62 node(s) with delegate (TfLiteGpuDelegateV2) node, yielding 3 partitions.\n"
XNNPACK_REST = (
    "INFO: Replacing 31 out of 31 node(s) with delegate (TfLiteXNNPackDelegate) node, yielding 1 partitions.\n"
)


@pytest.mark.parametrize(
    ("log", "fraction"),
    [
        (GPU_WHOLE, 1.0),
        (GPU_PART, None),
        (GPU_PART + GPU_COUNT + XNNPACK_REST, 0.5),
        (GPU_COUNT + XNNPACK_REST, 0.5),
        (GPU_COUNT.replace(" out of 62", ""), None),
        ("Applied GPU delegate, and the model graph will be completely executed w/ the delegate.\n", 1.0),
    ],
)
def test_the_share_on_a_delegate_is_told_where_the_log_has_it(log, fraction):
    assert delegation.read(log, "gpu") == Delegation(name="gpu", fraction=fraction)


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (OLD, "ran on the CPU, not on nnapi: the program says that delegate NNAPI takes no operator"),
        (OLD + XNNPACK_REST, "ran on the CPU"),
        (GPU_COUNT.replace("31 out", "0 out"), "ran on the CPU"),
        ("INFO: STARTING!\n" + XNNPACK_REST, "nothing in the program's log shows that the nnapi delegate ran"),
        # Of a build before mid-2020, which says so of every graph that was not taken over as a whole.
        ("Applied NNAPI delegate, and the model graph will be partially executed w/ the delegate.\n", "nothing in"),
        (GPU_WHOLE + "WARN: Unconsumed cmdline flags: --use_nnapi=true\n", "does not know --use_nnapi=true"),
    ],
)
def test_a_delegate_that_did_not_run_is_an_error(log, message):
    with pytest.raises(StageError, match=message):
        delegation.read(log, "nnapi")


PERF_NEW = "Session creation time cost: 0.0853129 s\nFirst inference time cost: 14 ms\nTotal inference requests: 3\n"
PERF_OLD = "Total time cost:1.62871\nTotal iterations:3\nAverage time cost:8.14355 ms\nTotal run time:1.62904 s\n"
ROWS = "model,0.00812,48574464,49,0\nmodel,9.1e-05,48574464,49,1\nmodel,0.00799,48574464,49,2\n"


def test_the_result_file_of_perf_test_has_every_latency():
    told = perf_test.read(PERF_NEW, ROWS, 3)
    assert told.latencies_ns == (8_120_000, 91_000, 7_990_000)
    assert (told.load_ns, told.first_ns, told.peak_bytes) == (85_312_900, 14_000_000, 48_574_464)
    with_statistics = ROWS + "\nMin Latency is 0.00798012sec\nP90 Latency is 0.00826119sec\n"
    assert perf_test.read(PERF_OLD, with_statistics, 3) == perf_test.Timed(
        latencies_ns=told.latencies_ns, load_ns=None, first_ns=None, peak_bytes=48_574_464
    )


def test_a_first_inference_of_0_ms_says_nothing():
    assert perf_test.read("First inference time cost: 0 ms\n", ROWS, 3).first_ns is None


@pytest.mark.parametrize("rows", ["", ROWS[: ROWS.rindex("model")], ROWS.replace("0.00812", "0"), "a,b,c,d,e\n" * 3])
def test_a_cut_or_foreign_result_file_is_refused(rows):
    with pytest.raises(StageError, match="result file"):
        perf_test.read(PERF_NEW, rows, 3)


def test_runs_are_enough_for_both_minimums_and_end_in_time():
    proof = perf_test.read("", "m,0.01,1,1,0\nm,0.02,1,1,1\n", 2)
    assert perf_test.runs_for(Plan(min_runs=50, min_seconds=2, max_seconds=10), proof) == 200
    assert perf_test.runs_for(Plan(min_runs=50, min_seconds=0, max_seconds=10), proof) == 50
    assert perf_test.runs_for(Plan(min_runs=50, min_seconds=0, max_seconds=0.2), proof) == 20
    assert perf_test.runs_for(Plan(min_runs=5, max_runs=7, min_seconds=2), proof) == 7


ON_NNAPI = (
    "[V:onnxruntime:, session_state.cc:1152 VerifyEach] All nodes placed on [NnapiExecutionProvider]. Number: 1\n"
)
SPLIT = (
    " Node(s) placed on [NnapiExecutionProvider]. Number of nodes: 2\n"
    " Node(s) placed on [CPUExecutionProvider]. Number of nodes: 3\n"
)
COUNTED = (
    "NnapiExecutionProvider::GetCapability, number of partitions supported by NNAPI: 2 number of nodes in the graph: "
    "12 number of nodes supported by NNAPI: 9\n"
)


def test_placements_say_what_ran_and_a_providers_own_count_the_share():
    assert perf_test.delegation(ON_NNAPI, "nnapi") == Delegation(name="nnapi", fraction=1.0)
    assert perf_test.delegation(SPLIT, "nnapi") == Delegation(name="nnapi", fraction=None)
    assert perf_test.delegation(COUNTED + SPLIT, "nnapi") == Delegation(name="nnapi", fraction=0.75)
    assert perf_test.delegation("", "cpu") == Delegation(name="cpu", fraction=0.0)


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (
            "All nodes placed on [CPUExecutionProvider]. Number of nodes: 5\n",
            "ran on CPUExecutionProvider, not on Nnapi",
        ),
        ("", "nothing in the program's log shows that NnapiExecutionProvider ran"),
    ],
)
def test_a_provider_that_did_not_run_is_an_error(log, message):
    with pytest.raises(StageError, match=message):
        perf_test.delegation(log, "nnapi")
