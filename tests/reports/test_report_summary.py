"""What rows say, against figures worked out by hand from the raw samples."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import median

import canned
import pytest

from edgebench.reports.summary import summarize, summarize_all
from edgebench.types import Caution, Measurement, Origin, Precision, Record, Status, Verdict


def of(recipe: str, device: str = "host") -> Record:
    return next(one for one in canned.records() if one.recipe == recipe and one.device == device)


def test_latencies_are_percentiles_of_all_rounds_in_milliseconds() -> None:
    record = of("tflite-int8")
    assert record.measurement is not None
    pooled = sorted(ns for round_ in record.measurement.rounds for ns in round_.latencies_ns)
    latency = summarize(record).latency
    assert latency is not None
    assert latency.p50_ms.value == pooled[150] / 1e6
    assert latency.p90_ms.value == pooled[270] / 1e6
    assert latency.p50_ms.low < latency.p50_ms.value < latency.p50_ms.high
    assert (latency.n, latency.rounds) == (300, 5)
    assert latency.load_ms == pytest.approx(41.002)
    assert latency.first_ms == median(round_.first_ns for round_ in record.measurement.rounds) / 1e6


def test_a_percentile_is_enough_only_from_its_minimum_of_samples() -> None:
    few, some, many = (
        summarize(canned.record("r", measurement=canned.measured(4.0, n=n))).latency for n in (10, 20, 200)
    )
    assert few is not None
    assert some is not None
    assert many is not None
    assert few.enough_for == ("p50",)
    assert some.enough_for == ("p50", "p90")
    assert many.enough_for == ("p50", "p90", "p99")


def test_peak_memory_is_the_highest_round_and_missing_where_no_round_knows_it() -> None:
    record = of("tflite-int8")
    assert record.measurement is not None
    assert summarize(record).peak_rss_bytes == 61_000_000 + 4 * 4096
    unknown = tuple(replace(round_, peak_rss_bytes=None) for round_ in record.measurement.rounds)
    silent = replace(record, measurement=replace(record.measurement, rounds=unknown))
    assert summarize(silent).peak_rss_bytes is None


def test_a_failed_cell_has_no_figure_and_keeps_its_format() -> None:
    row = summarize(of("tflite-fp16"))
    assert row.format == "tflite"
    found = (row.precision, row.size_bytes, row.latency, row.peak_rss_bytes, row.trust, row.metric, row.sqnr_db)
    assert found == (None,) * 7


def test_equal_outputs_have_an_infinite_sqnr() -> None:
    assert summarize(of("onnx-fp32")).sqnr_db == math.inf


def test_a_run_without_a_baseline_or_evaluation_is_a_row_too() -> None:
    evaluation = of("tflite-int8").evaluation
    assert evaluation is not None
    row = summarize(replace(of("tflite-int8"), evaluation=replace(evaluation, divergence=None)))
    assert (row.agreement, row.sqnr_db) == (None, None)
    assert row.metric is not None
    assert summarize(replace(of("tflite-int8"), evaluation=None)).metric is None


def test_each_doubt_of_a_row_is_told_once() -> None:
    doubt = Caution(code="c", message="m")
    record = of("tflite-int8")
    assert record.measurement is not None
    measurement = replace(record.measurement, cautions=(doubt,))
    artifact = canned.artifact(Precision.FULL_INT8, 10, cautions=(doubt,))
    assert summarize(replace(record, measurement=measurement, artifact=artifact)).cautions == (doubt,)


def test_rows_stand_like_beside_like_with_fp32_first_whatever_the_order_of_the_records() -> None:
    names = [(row.record.device, row.record.recipe) for row in summarize_all(canned.records())]
    assert names == [(row.record.device, row.record.recipe) for row in summarize_all(canned.records()[::-1])]
    assert names == [
        ("host", "tflite-fp32"),
        ("host", "tflite-int8"),
        ("host", "tflite-dynamic-int8"),
        ("host", "tflite-int16x8"),
        ("host", "tflite-fp16"),
        ("host", "onnx-fp32"),
        ("host", "onnx-int8"),
        ("host", "onnx-dynamic-int8"),
        ("host", "onnx-fp16"),
        ("virtual-phone", "tflite-int8"),
    ]


def test_latencies_that_no_device_had_give_no_speed_up() -> None:
    pair = [of("tflite-fp32"), of("tflite-int8")]
    assert summarize_all(pair)[1].speed_up is not None
    for origin in (Origin.SIMULATED, Origin.EMULATED):
        there = [replace(one, measurement=replace(one.measurement, origin=origin)) for one in pair if one.measurement]
        assert [row.speed_up for row in summarize_all(there)] == [None, None]


def test_speed_up_is_against_the_fp32_file_of_the_same_format() -> None:
    rows = {(row.record.recipe, row.record.device): row for row in summarize_all(canned.records())}
    speed_up = rows["tflite-int8", "host"].speed_up
    assert speed_up is not None
    assert speed_up.value == pytest.approx(9.41 / 4.21, rel=0.01)
    assert speed_up.low < speed_up.value < speed_up.high
    assert rows["tflite-int8", "virtual-phone"].speed_up is None


def test_what_is_not_stable_is_not_compared() -> None:
    rows = {row.record.cell: row for row in summarize_all(canned.records())}
    assert rows["cell-tflite-dynamic-int8"].trust is not None
    assert rows["cell-tflite-dynamic-int8"].trust.verdict is Verdict.NOISY
    assert rows["cell-tflite-dynamic-int8"].speed_up is None
    shaky = replace(of("tflite-fp32"), measurement=canned.measured(9.41, between=0.5, seed=3))
    assert [row.speed_up for row in summarize_all((shaky, of("tflite-int8")))] == [None, None]


@pytest.mark.parametrize("unlike", ["threads", "batch", "device", "delegate", "version", "origin"])
def test_unlike_conditions_are_not_compared(unlike: str) -> None:
    float32, int8 = of("tflite-fp32"), of("tflite-int8")
    assert int8.measurement is not None
    if unlike == "version":
        newer = tuple(replace(round_, runtime_version="9.9.9") for round_ in int8.measurement.rounds)
        int8 = replace(int8, measurement=replace(int8.measurement, rounds=newer))
    elif unlike == "origin":
        int8 = replace(int8, measurement=replace(int8.measurement, origin=Origin.SIMULATED))
    elif unlike == "delegate":
        assert int8.target is not None
        int8 = replace(int8, target=replace(int8.target, delegate="cuda"))
    else:
        other: dict[str, object] = {"threads": 4, "batch": 8, "device": "board"}
        int8 = replace(int8, **{unlike: other[unlike]})  # type: ignore[arg-type]
    (row,) = (row for row in summarize_all((float32, int8)) if row.record.recipe == "tflite-int8")
    assert row.speed_up is None


def test_a_huge_measurement_is_summarized() -> None:
    rounds = canned.rounds(0.05, n=20_000)
    latency = summarize(canned.record("r", measurement=Measurement(rounds=rounds, origin=Origin.MEASURED))).latency
    assert latency is not None
    assert latency.n == 100_000


def test_a_measurement_without_rounds_has_no_latency() -> None:
    empty = Measurement(rounds=(), origin=Origin.MEASURED)
    row = summarize(canned.record("r", status=Status.FAILED, stage="measure", reason="timeout", measurement=empty))
    assert row.latency is None
