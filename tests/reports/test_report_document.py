"""The JSON document, field by field as scripts know it."""

from __future__ import annotations

import json
from typing import Any

import canned

from edgebench.reports import render
from edgebench.reports.budget import judge
from edgebench.reports.summary import summarize_all
from edgebench.types import Budget


def strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    return json.loads(text, parse_constant=refuse)


def records() -> dict[str, Any]:
    document = strict(render(canned.run(), canned.records(), "json"))
    return {record["cell"]: record for record in document["records"]}


def test_the_document_names_its_schema_and_run() -> None:
    document = strict(render(canned.run(), canned.records(), "json"))
    assert list(document) == ["schema", "run", "records", "budget"]
    assert document["schema"] == 1
    assert document["run"]["name"] == "lite0-on-everything"
    assert document["run"]["cautions"][0]["code"] == "calibration-range"
    assert len(document["records"]) == 10


def test_without_a_run_its_fields_are_null_and_its_cautions_empty() -> None:
    run = strict(render(None, [], "json"))["run"]
    assert run["cautions"] == []
    assert {run[key] for key in ("name", "command", "created_at", "model", "data", "environment")} == {None}


def test_a_measured_record_has_every_promised_field() -> None:
    record = records()["cell-tflite-int8"]
    simple = {
        "status": "ok",
        "stage": None,
        "reason": None,
        "model": "efficientnet-lite0",
        "recipe": "tflite-int8",
        "format": "tflite",
        "precision": "full-int8",
        "size_bytes": 5_270_000,
        "device": "host",
        "runtime": "litert",
        "delegate": "cpu",
        "threads": 1,
        "batch": 1,
        "origin": "measured",
        "memory": {"peak_rss_bytes": 61_016_384},
        "trust": {"verdict": "stable", "cautions": []},
    }
    assert {key: record[key] for key in simple} == simple
    assert list(record["latency"]["p50_ms"]) == ["value", "low", "high", "n"]
    assert {"p90_ms", "p99_ms", "first_ms", "load_ms"} <= set(record["latency"])
    assert (record["latency"]["n"], record["latency"]["rounds"]) == (300, 5)
    assert record["latency"]["enough_for"] == ["p50", "p90"]
    evaluation = record["evaluation"]
    assert evaluation["metrics"]["top1"] == {"value": 0.741, "low": 0.701, "high": 0.781, "n": 400}
    assert evaluation["agreement"]["value"] == 0.963
    assert evaluation["agreement_clear"]["n"] == 310
    assert {"sqnr_db", "cosine", "max_abs_error", "mean_abs_error", "slices"} == set(evaluation["outputs"]["logits"])
    assert list(evaluation["split"]) == ["conversion", "quantization", "device"]
    assert evaluation["split"]["quantization"]["outputs"]["logits"]["sqnr_db"] == 25.4


def test_missing_is_null_and_never_zero() -> None:
    record = records()["cell-tflite-fp16"]
    assert (record["status"], record["stage"]) == ("failed", "convert")
    assert record["format"] == "tflite"
    missing = ("precision", "size_bytes", "origin", "latency", "memory", "trust", "evaluation", "artifact", "speed_up")
    assert {record[key] for key in missing} == {None}


def test_an_infinite_figure_is_null() -> None:
    output = records()["cell-onnx-fp32"]["evaluation"]["outputs"]["logits"]
    assert output["sqnr_db"] is None
    assert output["max_abs_error"] == 0.0


def test_doubts_come_with_code_message_and_advice() -> None:
    (doubt, *_) = records()["cell-tflite-dynamic-int8"]["trust"]["cautions"]
    assert set(doubt) == {"code", "message", "advice"}
    assert doubt["advice"]


def test_the_document_is_the_same_whatever_the_order_of_the_records() -> None:
    assert render(canned.run(), canned.records(), "json") == render(canned.run(), canned.records()[::-1], "json")


def test_hostile_names_come_back_exactly() -> None:
    run, found = canned.hostile()
    document = strict(render(run, found, "json"))
    assert document["run"]["model"] == canned.HOSTILE
    assert canned.HOSTILE in document["records"][0]["evaluation"]["metrics"]


def test_a_budget_lists_what_misses_it_and_is_null_where_there_is_none() -> None:
    rows = summarize_all(canned.records()[1:2])
    found = judge(rows, Budget(max_size_mb=5.0, max_p50_ms=0.001))
    budget = strict(render(canned.run(), canned.records(), "json", judgement=found))["budget"]
    assert [(miss["cell"], miss["limit"], miss["allowed"]) for miss in budget["misses"]] == [
        ("cell-tflite-int8", "max_p50_ms", 0.001),
        ("cell-tflite-int8", "max_size_mb", 5.0),
    ]
    assert budget["misses"][1]["found"] == 5.27
    assert budget["misses"][1]["message"] == "tflite-int8: the size is 5.27 MB, over the limit of 5.00 MB"
    run = canned.run(budget=Budget(max_size_mb=100))
    assert strict(render(run, canned.records()[:2], "json"))["budget"] == {"misses": [], "judged": 1, "not_measured": 0}
    assert strict(render(canned.run(), [], "json"))["budget"] is None
