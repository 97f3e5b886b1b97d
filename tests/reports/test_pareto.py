"""The Pareto front: who is on it, who can't take part, and why."""

from __future__ import annotations

from dataclasses import replace

import canned

from edgebench.reports import pareto
from edgebench.reports.summary import Row, summarize_all
from edgebench.types import Precision, Record


def rows(records: tuple[Record, ...]) -> tuple[Row, ...]:
    return summarize_all(records)


def on_front(front: pareto.Front) -> list[str]:
    return [point.row.record.cell for point in front.points if point.is_on_front]


def test_the_front_by_size_leaves_out_failed_and_simulated_cells_with_the_reason() -> None:
    found = rows(canned.records())
    quality = pareto.quality_axis(found)
    assert quality is not None
    assert quality.title == "top1"
    front = pareto.front(found, pareto.SIZE, quality)
    assert on_front(front) == ["cell-tflite-fp32", "cell-tflite-dynamic-int8", "cell-tflite-int16x8"]
    assert {row.record.cell: reason for row, reason in front.excluded} == {
        "cell-tflite-fp16": "failed at convert",
        "cell-onnx-dynamic-int8": "refused at quantize",
        "cell-onnx-fp16": "skipped at convert",
        "cell-tflite-int8-phone": "simulated, not measured",
    }


def test_the_front_by_latency_leaves_out_what_is_not_stable_too() -> None:
    found = rows(canned.records())
    quality = pareto.quality_axis(found)
    assert quality is not None
    front = pareto.front(found, pareto.P50, quality)
    assert on_front(front) == ["cell-tflite-fp32", "cell-tflite-int8"]
    reasons = {row.record.cell: reason for row, reason in front.excluded}
    assert reasons["cell-tflite-dynamic-int8"] == "latency is noisy"
    assert reasons["cell-tflite-int16x8"] == "latency is too-few"


def test_equal_points_are_both_on_the_front() -> None:
    one = canned.records()[1]
    twins = rows(
        (one, canned.record("twin", artifact=one.artifact, measurement=one.measurement, evaluation=one.evaluation))
    )
    quality = pareto.quality_axis(twins)
    assert quality is not None
    assert len(on_front(pareto.front(twins, pareto.SIZE, quality))) == 2


def test_quality_is_agreement_without_labels_and_sqnr_without_decisions() -> None:
    agreement = pareto.quality_axis(rows(canned.without_labels()))
    assert agreement is not None
    assert agreement.title == "agreement with the baseline"
    regression = canned.record("r", evaluation=canned.evaluation(None, 30.0, None))
    sqnr = pareto.quality_axis(rows((regression,)))
    assert sqnr is not None
    assert sqnr.title == "SQNR, dB"
    assert pareto.quality_axis(rows((canned.record("r"),))) is None


def test_an_error_metric_is_better_when_smaller() -> None:
    def regression(name: str, size_bytes: int, mae: float) -> Record:
        evaluation = replace(canned.evaluation(None, 30.0, None), metrics={"mae/depth": canned.estimate(mae, 0.1)})
        return canned.record(name, artifact=canned.artifact(Precision.FP16, size_bytes), evaluation=evaluation)

    found = rows((regression("small", 10, 0.5), regression("large", 20, 0.4), regression("bad", 20, 0.6)))
    quality = pareto.quality_axis(found)
    assert quality is not None
    assert on_front(pareto.front(found, pareto.SIZE, quality)) == ["cell-large", "cell-small"]


def test_infinite_sqnr_is_the_best_quality() -> None:
    sqnr = pareto.Axis("SQNR", lambda row: row.sqnr_db, is_smaller_better=False)
    front = pareto.front(rows(canned.records()), pareto.P50, sqnr)
    assert on_front(front) == ["cell-tflite-fp32", "cell-tflite-int8", "cell-onnx-fp32"]
