"""Cells of the recipe tflite-int8-edgetpu, without an Edge TPU and with a stand-in for the compiler.

edgetpu_compiler is closed and in no package registry: a shell script of its name, which copies the file and prints
texts that version 16.0 printed, speaks its interface. Everything else is what a user runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgebench import reports
from edgebench.matrix import Matrix
from edgebench.pipeline import Silent, convert_and_measure
from edgebench.store import Store
from edgebench.types import Record, Status

PRINTED = (Path(__file__).parents[1] / "files/edgetpu_compiler/partial_stdout.txt").read_text()
FAILED = (Path(__file__).parents[1] / "files/edgetpu_compiler/failed_stdout.txt").read_text()


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, printed: str, *, writes: bool = True) -> None:
    """Put edgetpu_compiler on PATH; its arguments end in `-o FOLDER FILE`."""
    folder.mkdir()
    (folder / "printed.txt").write_text(printed)
    copy = '[ $# -gt 1 ] && cp "$6" "$5/model_edgetpu.tflite"\n' if writes else ""
    program = folder / "edgetpu_compiler"
    program.write_text(f'#!/bin/sh\n{copy}cat "{folder}/printed.txt"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def only_record(out: Path) -> Record:
    with Store.open(out / "records.sqlite", read_only=True) as store:
        (record,) = store.records()
    return record


def render(out: Path, format: str) -> str:
    with Store.open(out / "records.sqlite", read_only=True) as store:
        return reports.render(store.run(), store.records(), format, width=200)


def test_without_the_compiler_the_cell_is_refused_with_what_to_install(
    tmp_path: Path, make_matrix: Callable[..., Matrix]
) -> None:
    convert_and_measure(make_matrix("tflite-int8-edgetpu"), tmp_path / "run", [], Silent())
    record = only_record(tmp_path / "run")
    assert (record.status, record.stage) == (Status.REFUSED, "convert")
    assert (record.reason or "").startswith("edgetpu_compiler is not on PATH; on x86-64 Debian or Ubuntu install")


def test_a_failed_compilation_is_a_failed_cell_in_the_compilers_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_matrix: Callable[..., Matrix]
) -> None:
    install(tmp_path / "bin", monkeypatch, FAILED, writes=False)
    convert_and_measure(make_matrix("tflite-int8-edgetpu"), tmp_path / "run", [], Silent())
    record = only_record(tmp_path / "run")
    assert (record.status, record.stage) == (Status.FAILED, "convert")
    assert "Didn't find op for builtin opcode 'CONV_2D' version '6'" in (record.reason or "")


def test_a_compiled_file_is_proven_and_measured_on_the_host_as_a_cpu_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_matrix: Callable[..., Matrix]
) -> None:
    install(tmp_path / "bin", monkeypatch, PRINTED)
    convert_and_measure(make_matrix("tflite-int8-edgetpu"), tmp_path / "run", [], Silent())
    record = only_record(tmp_path / "run")
    assert record.status is Status.OK
    assert record.artifact is not None
    assert record.artifact.edgetpu is not None
    assert (record.artifact.edgetpu.mapped_ops, record.artifact.edgetpu.total_ops) == (66, 70)
    assert record.evaluation is not None
    assert record.measurement is not None
    assert record.delegate != "edgetpu"
    assert [caution.code for caution in record.measurement.cautions] == ["edgetpu-file-on-cpu"]
    assert "edgetpu-file-on-cpu" in render(tmp_path / "run", "csv")
    assert "a CPU run" in render(tmp_path / "run", "table")


def test_the_share_and_the_memory_are_in_every_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_matrix: Callable[..., Matrix]
) -> None:
    install(tmp_path / "bin", monkeypatch, PRINTED)
    convert_and_measure(make_matrix("tflite-int8-edgetpu"), tmp_path / "run", [], Silent(), measure=False)
    assert "94% (66 of 70)" in render(tmp_path / "run", "table")
    assert '"streamed_bytes": 0' in render(tmp_path / "run", "json")
    assert '"share": 0.942' in render(tmp_path / "run", "json")
    header, line = render(tmp_path / "run", "csv").splitlines()
    found = dict(zip(header.split(","), line.split(","), strict=False))
    assert (found["edgetpu_share"], found["edgetpu_streamed_bytes"]) == ("0.942857143", "0")
    assert "66 of 70 operators on the Edge TPU, 4.41 MB of its parameters cached, 0 MB of its parameters streamed" in (
        render(tmp_path / "run", "html")
    )


def test_a_device_that_is_not_attached_fails_its_cells_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_matrix: Callable[..., Matrix]
) -> None:
    if any(Path("/sys/bus/usb/devices").glob("*")) and "9302" in _products():
        pytest.skip("a Coral USB Accelerator is attached")
    install(tmp_path / "bin", monkeypatch, PRINTED)
    matrix = make_matrix("tflite-int8-edgetpu")
    matrix = replace(matrix, axes=replace(matrix.axes, devices=("coral-usb",)))
    convert_and_measure(matrix, tmp_path / "run", [], Silent())
    record = only_record(tmp_path / "run")
    assert (record.status, record.delegate) == (Status.REFUSED, "edgetpu")
    assert "no Coral USB Accelerator is attached" in (record.reason or "")


def _products() -> str:
    return " ".join(path.read_text() for path in Path("/sys/bus/usb/devices").glob("*/idProduct"))
