"""Each command on a small real model: what it prints, leaves and returns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calling import Edgebench

ROOT = Path(__file__).parent.parent.parent
FILES = ROOT / "tests" / "files"
TFLITE = FILES / "tiny-float.tflite"
ONNX = FILES / "tiny.onnx"
QUICK = ("--rounds", 2, "--min-runs", 5, "--min-seconds", 0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path / "data.npz"
    np.savez(path, image=rng.normal(size=(80, 8, 8, 3)).astype("float32"), labels=rng.integers(0, 3, 80))
    return path


def test_convert_and_measure_leaves_a_document_of_every_cell(edgebench: Edgebench, data: Path) -> None:
    said = edgebench(
        "convert+measure", TFLITE, "--data", data, "--recipe", "tflite-fp32", "--recipe", "tflite-int8",
        "--json", "--out", "run", *QUICK,
    )  # fmt: skip
    assert said.status == 0
    document = json.loads(said.out)
    assert set(document) == {"schema", "run", "records", "budget"}
    assert [record["recipe"] for record in document["records"]] == ["tflite-fp32", "tflite-int8"]
    int8 = document["records"][1]
    assert int8["precision"] == "full-int8"
    assert int8["trust"]["verdict"] == "too-few"
    assert {"p50_ms", "p90_ms", "p99_ms", "first_ms", "load_ms", "n", "rounds"} <= set(int8["latency"])
    assert set(int8["latency"]["p50_ms"]) == {"value", "low", "high", "n"}
    assert set(int8["evaluation"]["split"]) == {"conversion", "quantization", "device"}
    assert int8["evaluation"]["split"]["device"] is None
    assert int8["memory"]["peak_rss_bytes"] > 1_000_000
    assert Path("run/report.html").read_text().startswith("<!DOCTYPE html>")


def test_convert_alone_has_no_latency(edgebench: Edgebench, data: Path) -> None:
    said = edgebench("convert", TFLITE, "--data", data, "--recipe", "tflite-int8", "--json", "--out", "run")
    record = json.loads(said.out)["records"][0]
    assert (said.status, record["status"], record["latency"]) == (0, "ok", None)
    assert record["evaluation"]["outputs"]
    assert record["artifact"]["conversion_peak_rss_bytes"] > 10_000_000


def test_measure_takes_files_of_both_formats(edgebench: Edgebench) -> None:
    said = edgebench("measure", TFLITE, ONNX, "--json", *QUICK)
    records = json.loads(said.out)["records"]
    assert said.status == 0
    assert {(record["model"], record["runtime"]) for record in records} == {
        ("tiny-float.tflite", "litert"),
        ("tiny.onnx", "onnxruntime"),
    }
    assert all(record["latency"]["p50_ms"]["value"] > 0 for record in records)


def test_measure_with_labels_gives_accuracy_without_a_baseline(edgebench: Edgebench, data: Path) -> None:
    said = edgebench("measure", FILES / "tiny-int8.tflite", "--data", data, "--json", *QUICK)
    evaluation = json.loads(said.out)["records"][0]["evaluation"]
    assert 0 <= evaluation["metrics"]["top1"]["value"] <= 1
    assert evaluation["agreement"] is None


def test_train_learns_a_float_target(edgebench: Edgebench, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("import torch\n\ndef line():\n    return torch.nn.Linear(4, 1)\n")
    x = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")
    np.savez("data.npz", **{"x": x, "target:y": x.sum(axis=1)})
    said = edgebench("train", "net.py:line", "--data", "data.npz", "--epochs", 2, "--device", "cpu", "--json")
    result = json.loads(said.out)
    assert (said.status, result["metric_name"], len(result["history"])) == (0, "mean_squared_error", 2)
    assert Path(result["best_path"]).is_file()
    assert "epoch 2 of 2: loss " in said.err


def test_a_failed_cell_gives_status_1_and_stays_in_the_table(edgebench: Edgebench) -> None:
    said = edgebench("convert", TFLITE, "--recipe", "tflite-fp32", "--recipe", "tflite-int8", "--out", "run")
    assert said.status == 1
    assert "refused at convert: recipe 'tflite-int8' needs" in said.out


def test_run_checks_the_budget(edgebench: Edgebench, data: Path) -> None:
    Path("m.yaml").write_text(
        f"model: {{source: {TFLITE}}}\ndata: {{source: data.npz}}\nrecipes: [tflite-int8]\n"
        "plan: {rounds: 1, min_runs: 5, min_seconds: 0}\nbudget: {max_size_mb: 0.0001}\n"
    )
    said = edgebench("run", "m.yaml")
    assert said.status == 1
    assert "budget missed: " in said.err
    assert "0.0001" in said.err


@pytest.mark.parametrize("format", ["table", "markdown", "csv", "json", "html"])
def test_report_shows_a_run_again_in_any_format(edgebench: Edgebench, format: str) -> None:
    edgebench("measure", ONNX, "--out", "run", *QUICK)
    said = edgebench("report", "run", "--format", format)
    assert said.status == 0
    assert "tiny.onnx" in said.out


def test_report_writes_to_a_file(edgebench: Edgebench) -> None:
    edgebench("measure", ONNX, "--out", "run", *QUICK)
    edgebench("report", "run", "--format", "html", "--out", "page.html")
    assert "tiny.onnx" in Path("page.html").read_text()


def test_inspect_shows_operators_and_types(edgebench: Edgebench) -> None:
    said = edgebench("inspect", FILES / "tiny-int8.tflite")
    assert "full-int8" in said.out
    assert "CONV_2D" in said.out
    facts = json.loads(edgebench("inspect", ONNX, "--json").out)
    assert facts["census"]["precision"] == "fp32"


@pytest.mark.parametrize("words", [(), ("devices",), ("devices", "virtual"), ("env",)])
def test_a_group_without_a_command_prints_its_help(edgebench: Edgebench, words: tuple[str, ...]) -> None:
    said = edgebench(*words)
    assert (said.status, said.err) == (2, "")
    assert said.out == edgebench(*words, "--help").out
    assert len(said.out.splitlines()) > 5


def test_a_refusal_that_every_recipe_shares_is_told_once(edgebench: Edgebench, tmp_path: Path) -> None:
    (tmp_path / "wide.py").write_text(
        "import torch\n\ndef net():\n    return torch.nn.Linear(4, 2).double(), torch.zeros(1, 4).double()\n"
    )
    recipes = ("onnx-int8", "onnx-int8-percentile", "onnx-fp16")
    asked = [word for recipe in recipes for word in ("--recipe", recipe)]
    said = edgebench("convert", "wide.py:net", *asked, "--out", "run")
    assert (said.status, said.err.count("build it in float32")) == (1, 1)
    assert "the same for 2 more recipes as for onnx-" in said.err


def test_lists_are_tables_and_documents(edgebench: Edgebench) -> None:
    assert "tflite-int8" in edgebench("recipes").out
    assert "host" in [device["name"] for device in json.loads(edgebench("devices", "list", "--json").out)]
    assert {entry["name"] for entry in json.loads(edgebench("env", "list", "--json").out)} == {
        "onnx2tf",
        "tflite-runtime",
    }


def test_the_defaults_of_the_options_are_those_of_the_plan_and_the_data() -> None:
    from edgebench.cli import options
    from edgebench.matrix import DataSource
    from edgebench.types import Plan

    plan = Plan()
    assert (plan.rounds, plan.min_runs) == (options.DEFAULT_ROUNDS, options.DEFAULT_MIN_RUNS)
    assert (plan.min_seconds, plan.max_seconds) == (options.DEFAULT_MIN_SECONDS, options.DEFAULT_MAX_SECONDS)
    assert plan.stage_timeout_s == options.DEFAULT_TIMEOUT_S
    assert DataSource().calibration == options.DEFAULT_CALIBRATION_SAMPLES


def commands() -> list[str]:
    from typer.main import get_command

    from edgebench.cli import app

    def names(group: Any) -> Iterator[str]:
        for name, command in group.commands.items():
            yield from (f"{name} {inner}" for inner in names(command)) if hasattr(command, "commands") else (name,)

    return list(names(get_command(app)))


@pytest.mark.parametrize("command", commands())
def test_every_command_is_documented_and_its_help_has_an_example(edgebench: Edgebench, command: str) -> None:
    assert f"\n## edgebench {command}" in (ROOT / "docs" / "commands.md").read_text()
    said = edgebench(*command.split(), "--help")
    assert said.status == 0
    assert f"Example:  edgebench {command}" in said.out
