"""The text views: their exact output on canned records, and what hostile names and narrow terminals do to them.

After a change that is meant: `EDGEBENCH_WRITE_GOLDEN=1 pytest tests/reports`, then read the difference.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import canned
import pytest
from rich.cells import cell_len

from edgebench.codec import from_json
from edgebench.errors import ConfigError
from edgebench.reports import FORMATS, grid, render
from edgebench.reports.notation import number, one_line, with_interval, with_margin
from edgebench.reports.shown import latest
from edgebench.reports.summary import summarize_all
from edgebench.types import Caution, Estimate, Plan, Record, Target

GOLDEN = Path(__file__).parent / "golden"


def few() -> tuple[Record, ...]:
    """A stable pair, a failure and a simulated cell: their text depends on no wording of other modules."""
    return tuple(canned.records()[i] for i in (0, 1, 4, 8))


@pytest.mark.parametrize("name", ["table.txt", "markdown.md", "csv.csv"])
def test_the_output_is_exactly_this(name: str) -> None:
    found = render(canned.run(), few(), name.partition(".")[0], width=118)
    if os.environ.get("EDGEBENCH_WRITE_GOLDEN"):
        (GOLDEN / name).write_text(found, encoding="utf-8")
    assert found == (GOLDEN / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 132, 200, 400])
def test_no_figure_is_cut_at_any_width_and_no_line_is_wider(width: int) -> None:
    text = render(canned.run(), canned.records(), "table", width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    letters = re.sub(r"\s", "", text)
    for column in grid.columns(summarize_all(canned.records())):
        if column.is_number and width >= 60:
            for cell in column.cells:
                assert cell in text
        assert column.title.replace(" ", "") in letters
    assert "…" not in text


def test_a_wide_terminal_gets_one_table() -> None:
    assert render(canned.run(), canned.records(), "table", 400).count("─\n") == 1


def test_a_failed_cell_stays_in_every_view_with_its_stage_and_reason() -> None:
    for format in FORMATS:
        text = render(canned.run(), canned.records(), format, 400)
        assert "tflite-fp16" in text
        assert "SIGSEGV" in text
        assert "convert" in text


def test_simulated_never_looks_measured() -> None:
    phone = canned.records()[8:9]
    assert "7.76 ±0.03 (simulated)" in render(None, phone, "table", 400)
    assert "SIMULATED, stable" in render(None, phone, "table", 400)
    assert "7.76 ±0.03 (simulated)" in render(None, phone, "markdown")
    assert ",simulated," in render(None, phone, "csv")
    assert json.loads(render(None, phone, "json"))["records"][0]["origin"] == "simulated"
    assert '<span class="badge simulated-badge">simulated</span>' in render(None, phone, "html")


def test_a_percentile_of_too_few_samples_is_marked_and_the_mark_explained() -> None:
    text = render(None, [canned.record("r", measurement=canned.measured(4.0, n=10))], "table", 400)
    assert re.search(r" 4\.\d\d ±", text)
    assert re.search(r"~4\.\d\d ±", text)
    assert "~: too few samples to tell this percentile" in text


def test_columns_without_a_figure_are_left_out() -> None:
    titles = [column.title for column in grid.columns(summarize_all(canned.without_labels()))]
    assert "agreement" in titles
    assert "drop pp" not in titles
    assert "accuracy" not in titles


def test_every_view_of_no_records_says_so_or_is_empty() -> None:
    for format in ("table", "markdown", "html"):
        text = " ".join(render(canned.run(), [], format).split())
        assert "This run has no record yet: its command failed or was stopped before the first one. Mend" in text
    assert json.loads(render(None, [], "json"))["records"] == []
    assert render(None, [], "csv").startswith("cell,status,stage,reason,model,recipe")


def test_an_unknown_format_says_which_there_are() -> None:
    with pytest.raises(ConfigError, match="no report format 'pdf'; possible: table, markdown, csv, json, html"):
        render(None, [], "pdf")


def test_labels_are_as_short_as_tells_rows_apart() -> None:
    labels = grid.labels(summarize_all(canned.records()))
    assert labels[:2] == ("tflite-fp32", "tflite-int8 · host")
    assert labels[-1] == "tflite-int8 · virtual-phone"
    threads = [canned.record("r", cell=str(n), threads=n) for n in (1, 4)]
    assert grid.labels(summarize_all(threads)) == ("r · threads 1", "r · threads 4")


def test_terminal_control_characters_of_names_are_shown_not_obeyed() -> None:
    run, records = canned.hostile()
    text = render(run, records, "table", 100)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b[31m" in text


def test_a_hostile_name_breaks_no_markdown_table() -> None:
    run, records = canned.hostile()
    text = render(run, records, "markdown")
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {14}
    outside_code = text.split("```")[0]
    assert "<script>" not in outside_code
    assert "\\`tick\\`" in outside_code


def test_a_command_with_backticks_stays_in_its_code_block() -> None:
    text = render(canned.run(command=("edgebench", "a```b")), [], "markdown")
    assert "````sh\nedgebench 'a```b'\n````" in text


def test_csv_cells_are_no_formulas_and_one_line() -> None:
    run, records = canned.hostile()
    lines = list(csv.DictReader(io.StringIO(render(run, records, "csv"))))
    assert len(lines) == 3
    assert lines[0]["recipe"].startswith("'=cmd")
    assert lines[0]["model"] == one_line(canned.HOSTILE)
    for line in lines:
        assert not any(str(cell).startswith(("=", "+", "@")) for cell in line.values())


def test_csv_figures_read_back_as_numbers_with_missing_ones_empty() -> None:
    import pandas

    frame = pandas.read_csv(io.StringIO(render(canned.run(), canned.records(), "csv"))).set_index("cell")
    assert frame.loc["cell-onnx-fp32", "sqnr_db"] == float("inf")
    assert frame.loc["cell-tflite-int8", "size_bytes"] == 5_270_000
    assert frame.loc["cell-tflite-int8", "drop_pp_low"] == -0.4
    assert frame.loc["cell-tflite-fp16", ["p50_ms", "size_bytes", "metric:top1"]].isna().all()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.04213, "0.0421"),
        (4.2149, "4.21"),
        (9.999, "10.0"),
        (99.96, "100"),
        (258.4, "258"),
        (12345.6, "12346"),
        (0.0, "0"),
        (-4.2149, "-4.21"),
        (1.234e-12, "1.23e-12"),
        (-0.00005, "-5.00e-05"),
        (0.0001, "0.000100"),
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "∞"),
        (float("-inf"), "-∞"),
    ],
)
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_intervals_are_written_beside_their_value_even_without_an_end() -> None:
    assert with_margin(Estimate(value=4.214, low=4.2, high=4.23, n=9)) == "4.21 ±0.02"
    assert with_margin(Estimate(value=4.214, low=4.2, high=4.264, n=9)) == "4.21 [4.20, 4.26]"
    assert with_margin(Estimate(value=9.33, low=7.09, high=12.28, n=9)) == "9.33 [7.1, 12.3]"
    assert with_margin(Estimate(value=4.214, low=0, high=float("inf"), n=1)) == "4.21 [0, ∞]"
    assert with_margin(None) == with_interval(None) == "–"
    assert with_interval(Estimate(value=0.5, low=float("-inf"), high=0.75, n=2)) == "0.500 [-∞, 0.750]"


def test_one_line_shows_what_would_not_be_seen() -> None:
    assert one_line("a\n b\t\x07\udcff é模") == "a b \\x07\\udcff é模"


def accurate_but_clipped() -> Record:
    record = canned.records()[1]
    assert record.evaluation is not None
    doubt = Caution(code="clipped-output", message="output 'logits': 9 % are cut", advice="calibrate with min-max")
    return replace(record, evaluation=replace(record.evaluation, cautions=(doubt,)))


def test_a_doubt_about_accuracy_stands_under_the_table_and_not_beside_the_verdict_on_latency() -> None:
    records = [canned.records()[0], accurate_but_clipped()]
    (verdicts,) = (column for column in grid.columns(summarize_all(records)) if column.title == "trust")
    assert verdicts.cells == ("–", "stable", "stable")
    assert "clipped-output (row 2): calibrate with min-max\n" in render(None, records, "table")
    assert "- **clipped-output** (tflite-int8): calibrate with min-max\n" in render(None, records, "markdown")
    page = render(None, records, "html")
    assert page.count("clipped-output") == 1
    assert ": calibrate with min-max\n" in page
    assert "</span> output &#39;logits&#39;: 9 % are cut</li>" in page


def test_a_caution_without_advice_stands_by_its_message_also_one_of_an_old_record() -> None:
    first, second, *_ = canned.records()
    assert second.artifact is not None
    doubt = from_json(Caution, '{"code": "checkpoint-prefix", "message": "2 keys; it was: taken off"}')
    records = [first, replace(second, artifact=replace(second.artifact, cautions=(doubt,)))]
    assert "checkpoint-prefix (row 2): 2 keys; it was: taken off\n" in render(None, records, "table")
    assert "- **checkpoint-prefix** (tflite-int8): 2 keys; it was: taken off\n" in render(None, records, "markdown")
    assert render(None, records, "html").count("2 keys; it was: taken off") == 1


def test_equal_advice_is_told_once_for_all_its_rows() -> None:
    noisy = [
        canned.record("r", cell=str(seed), threads=seed, measurement=canned.measured(4.0, between=0.5, seed=seed))
        for seed in (3, 4)
    ]
    text = render(None, noisy, "table")
    assert text.count("rounds-differ") == 1
    assert "rounds-differ (all rows): make the machine quiet and run again with --rounds 10" in text


def test_the_baseline_is_the_first_line_with_its_accuracy_alone() -> None:
    (first, *_) = (line for line in render(None, few(), "markdown").splitlines() if line.startswith("| baseline"))
    assert first.count("–") == 11
    assert "0.752" in first
    assert "0.752 [0.712, 0.792]" in next(
        line for line in render(None, few(), "table", 400).splitlines() if "baseline" in line
    )
    assert '<tr class="baseline">' in render(None, few(), "html")
    assert "baseline:" not in render(None, canned.without_labels(), "table")


def test_words_of_the_table_are_defined_below_it_in_every_view_for_people() -> None:
    for format in ("table", "markdown", "html"):
        text = render(canned.run(), few(), format).replace("\\", "")
        assert "agreement: same decision as the baseline · drop pp: accuracy lost, percentage points" in text
        assert "95 % interval" in text


@pytest.mark.parametrize("about", ["Size and speed", "Accuracy"])
def test_a_table_too_wide_is_split_by_subject(about: str) -> None:
    assert f"\n{about}\n" in render(canned.run(), canned.records(), "table", 120)
    assert f"\n{about}\n" not in render(canned.run(), canned.records(), "table", 400)


def again(record: Record, **changes: object) -> Record:
    """The same row by a longer plan, a day later."""
    later = replace(record, cell=f"{record.cell}-again", plan=Plan(rounds=9), at="2026-12-02T09:30:00Z")
    return replace(later, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("format", ["table", "markdown", "csv", "html"])
def test_of_rows_that_only_their_plan_tells_apart_the_latest_is_shown(format: str) -> None:
    first = canned.records()[1]
    second = again(first, measurement=canned.measured(3.0, seed=2))
    text = render(canned.run(), [second, first], format, 400)
    assert "3.0" in text
    assert not re.search(r"\b4\.2[45]", text)
    if format != "csv":
        assert "1 earlier measurement of these rows by another plan or other settings: --format json" in text
        assert "earlier measurement" not in render(canned.run(), [first], format)
    assert len(json.loads(render(canned.run(), [second, first], "json"))["records"]) == 2


def test_a_conversion_without_a_plan_does_not_hide_a_measurement() -> None:
    first = canned.records()[1]
    converted = again(first, plan=None, measurement=None)
    assert latest([first, converted]) == (first,)
    assert latest([converted, first]) == (first,)


def test_rows_of_two_plans_have_no_speed_up() -> None:
    fp32, int8 = canned.records()[:2]
    assert summarize_all([fp32, int8])[1].speed_up is not None
    assert summarize_all([fp32, again(int8)])[1].speed_up is None


def test_files_of_one_name_that_the_user_brought_are_two_rows() -> None:
    brought = replace(canned.records()[1], recipe=None)
    assert brought.artifact is not None
    other = replace(brought, cell="other", artifact=replace(brought.artifact, sha256="f" * 64))
    assert latest([brought, other]) == (brought, other)


def everywhere() -> list[Record]:
    return [
        replace(record, cell=f"{record.cell} {device} {threads}", device=device, threads=threads, delegate=delegate)
        for device in ("host", "pi")
        for threads in (1, 2)
        for record, delegate in ((canned.records()[1], "XNNPACK"), (canned.records()[6], "cpu"))
    ]


@pytest.mark.parametrize("width", [118, 400])
def test_a_row_of_the_terminal_table_is_named_by_all_that_tells_it_apart(width: int) -> None:
    text = render(None, everywhere(), "table", width)
    for name in ("tflite-int8 on host, 1 thread ", "onnx-int8 on pi, 2 threads "):
        assert name in text


@pytest.mark.parametrize("width", [60, 80, 118, 400])
def test_no_part_of_the_terminal_table_has_only_names(width: int) -> None:
    text = render(None, everywhere(), "table", width)
    titles = [line for line in text.splitlines() if line.startswith("recipe")]
    assert not any("device" in title or "threads" in title for title in titles)
    assert sum("delegate" in title for title in titles) == 1
    assert not any(title.split() in (["recipe", "delegate"], ["recipe", "runtime"]) for title in titles)


def test_a_delegate_that_tells_rows_of_one_recipe_apart_is_in_their_names() -> None:
    record = canned.records()[1]
    on_gpu = replace(record, cell="g", delegate="gpu", target=Target(device="host", runtime="litert", delegate="gpu"))
    text = render(None, [record, on_gpu], "table", 80)
    assert "tflite-int8, cpu " in text
    assert "tflite-int8, gpu " in text


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_verdict_stands_in_the_part_of_its_p50(width: int) -> None:
    text = render(canned.run(), canned.records(), "table", width)
    (title,) = (line for line in text.splitlines() if line.startswith("recipe") and "p50 ms" in line)
    assert title.endswith("trust")


def test_a_batch_says_what_its_latency_is_of() -> None:
    line = "batch: p50, p90 and mean are of one run of the whole batch, not of one sample."
    assert line in render(None, [replace(canned.records()[1], batch=4)], "table")
    assert line not in render(None, [canned.records()[1]], "table")


def test_a_matrix_run_tells_what_its_file_asked() -> None:
    text = render(canned.run(command=("edgebench", "run", "m.yaml")), few(), "markdown")
    assert "The file asks: model zoo:efficientnet-lite0 · data photos/ · recipes tflite-fp32, tflite-int8" in text
    assert "devices host, virtual-phone · runtimes litert · threads 1 · batches 1 · plan 5 rounds of at least" in text
    assert "The file asks" not in render(canned.run(), few(), "markdown")
