"""A budget: what is over, what can't be judged, and that doubt never passes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import canned
import pytest

from edgebench.codec import from_json, to_plain
from edgebench.reports import budget as budgets
from edgebench.reports import render
from edgebench.reports.budget import misses
from edgebench.reports.summary import summarize_all
from edgebench.store import RunInfo, Store
from edgebench.types import Budget, Origin, Record

INT8 = canned.records()[1]


def told(budget: Budget, *records: Record) -> list[str]:
    return [str(miss) for miss in misses(summarize_all(records), budget)]


def lines(budget: Budget, *records: Record) -> list[str]:
    judgement = budgets.judge(summarize_all(records), budget)
    assert judgement is not None
    return list(budgets.told(judgement))


def test_a_cell_within_every_limit_misses_nothing() -> None:
    budget = Budget(max_accuracy_drop_pp=2.0, max_p50_ms=5.0, max_p90_ms=5.0, max_size_mb=6.0)
    assert told(budget, INT8) == []
    assert told(Budget(), *canned.records()) == []


def test_a_limit_that_is_passed_says_by_what() -> None:
    budget = Budget(max_accuracy_drop_pp=1.0, max_p50_ms=4.0, max_p90_ms=4.0, max_size_mb=5.0)
    assert told(budget, INT8) == [
        "tflite-int8: the accuracy drop is 1.10 pp, over the limit of 1.00 pp",
        "tflite-int8: p50 is 4.25 ms, over the limit of 4.00 ms",
        "tflite-int8: p90 is 4.32 ms, over the limit of 4.00 ms",
        "tflite-int8: the size is 5.27 MB, over the limit of 5.00 MB",
    ]
    (miss,) = misses(summarize_all([INT8]), Budget(max_size_mb=5.0))
    assert (miss.cell, miss.limit, miss.allowed, miss.found) == (INT8.cell, "max_size_mb", 5.0, 5.27)


def test_a_figure_at_its_limit_meets_it() -> None:
    assert told(Budget(max_size_mb=5.27), INT8) == []


def test_a_p90_of_too_few_samples_is_no_pass() -> None:
    few = replace(INT8, measurement=canned.measured(4.0, n=8))
    assert told(Budget(max_p90_ms=1000), few) == [
        "tflite-int8: p90 can't be judged against 1000 ms: 40 samples are too few; measure more runs or rounds"
    ]


def test_an_untrusted_latency_is_no_pass() -> None:
    noisy = replace(INT8, measurement=canned.measured(4.0, between=0.5, seed=3))
    (line,) = told(Budget(max_p50_ms=1000), noisy)
    assert "p50 can't be judged against 1000 ms: the latency is noisy" in line


def test_simulated_and_emulated_rows_take_no_part_and_a_line_says_so() -> None:
    simulated = replace(INT8, measurement=canned.measured(4.0, origin=Origin.SIMULATED))
    emulated = replace(simulated, cell="e", measurement=canned.measured(4.0, origin=Origin.EMULATED))
    budget = Budget(max_p50_ms=0.001, max_size_mb=6)
    assert told(budget, simulated, emulated) == []
    assert lines(budget, simulated) == [
        "p50 at most 0.00100 ms: no row to judge",
        "size at most 6.00 MB: no row to judge",
        "1 simulated or emulated row takes no part: such figures are not a device's.",
    ]
    *_, last = lines(budget, INT8, simulated, emulated)
    assert last == "2 simulated or emulated rows take no part: such figures are not a device's."


def test_fp32_files_do_not_become_candidates_because_the_others_are_simulated() -> None:
    simulated = replace(INT8, measurement=canned.measured(4.0, origin=Origin.SIMULATED))
    assert told(Budget(max_size_mb=6), canned.records()[0], simulated) == []


def test_each_limit_is_met_or_names_the_rows_that_miss_it_with_the_figure_found() -> None:
    few = replace(INT8, cell="few", threads=2, measurement=canned.measured(4.0, n=8))
    p90, size = lines(Budget(max_p90_ms=4.0, max_size_mb=6.0), INT8, few)
    assert p90 == (
        "p90 at most 4.00 ms: missed by tflite-int8 · threads 1 (4.32 ms); tflite-int8 · threads 2 "
        "(can't be judged: 40 samples are too few; measure more runs or rounds)"
    )
    assert size == "size at most 6.00 MB: met"


@pytest.mark.parametrize("format", ["table", "markdown", "html"])
def test_every_view_for_people_has_the_runs_budget_and_none_without_one(format: str) -> None:
    text = render(canned.run(budget=Budget(max_size_mb=6.0)), [INT8], format)
    assert "size at most 6.00 MB: met" in text
    assert "Budget" not in render(canned.run(), [INT8], format)


def test_a_report_of_a_stored_run_judges_its_budget_again(tmp_path: Path) -> None:
    with Store.open(tmp_path / "records.sqlite") as store:
        store.set_run(canned.run(budget=Budget(max_size_mb=5.0)))
        store.add(INT8)
        document = json.loads(render(store.run(), store.records(), "json"))
    assert document["run"]["budget"]["max_size_mb"] == 5.0
    assert [miss["found"] for miss in document["budget"]["misses"]] == [5.27]


def test_a_run_stored_before_budgets_were_kept_has_none() -> None:
    old = to_plain(canned.run())
    del old["budget"]
    assert from_json(RunInfo, json.dumps(old)).budget is None


def test_accuracy_without_labels_is_no_pass() -> None:
    (line,) = told(Budget(max_accuracy_drop_pp=50), canned.without_labels()[1])
    assert "the accuracy drop can't be judged against 50.0 pp: the data has no labels" in line


def test_a_task_without_percentage_points_is_no_pass() -> None:
    assert INT8.evaluation is not None
    regression = replace(INT8.evaluation, metrics={"mae": canned.estimate(0.4, 0.1)}, drop_pp=None)
    (line,) = told(Budget(max_accuracy_drop_pp=50), replace(INT8, evaluation=regression))
    assert line.endswith("can't be judged against 50.0 pp: mae has no percentage points")


def test_a_failed_or_refused_cell_is_a_miss_and_a_skipped_one_was_not_asked() -> None:
    failed, refused, skipped = (canned.records()[i] for i in (4, 7, 9))
    lines = told(Budget(max_size_mb=6), failed, refused, skipped)
    assert [line.split(":")[0] for line in lines] == ["tflite-fp16", "onnx-dynamic-int8"]
    assert "can't be judged against 6.00 MB: failed at convert: quantizing to fp16 was ended by SIGSEGV" in lines[0]


def test_fp32_files_are_the_reference_unless_nothing_else_was_made() -> None:
    float32 = canned.records()[0]
    assert told(Budget(max_size_mb=6), float32, INT8) == []
    assert told(Budget(max_size_mb=6), float32) == ["tflite-fp32: the size is 18.6 MB, over the limit of 6.00 MB"]
