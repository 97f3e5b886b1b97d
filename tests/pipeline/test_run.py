from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from edgebench.errors import ConfigError, DataError
from edgebench.matrix import Matrix
from edgebench.pipeline import Silent, convert_and_measure
from edgebench.pipeline.run_folder import RunFolder
from edgebench.store import Store
from edgebench.types import Precision, Record, Status


def records(out: Path) -> dict[str, Record]:
    with Store.open(out / "records.sqlite", read_only=True) as store:
        return {f"{record.recipe}/{record.threads}": record for record in store.records()}


def test_every_cell_of_the_matrix_gets_one_record(tmp_path: Path, make_matrix: Callable[..., Matrix]) -> None:
    matrix = make_matrix("tflite-fp32", "tflite-int8", threads=(1, 2))
    cells = convert_and_measure(matrix, tmp_path / "run", ["edgebench"], Silent())
    found = records(tmp_path / "run")
    assert list(found) == ["tflite-fp32/1", "tflite-fp32/2", "tflite-int8/1", "tflite-int8/2"]
    assert set(cells) == {record.cell for record in found.values()}
    assert {record.status for record in found.values()} == {Status.OK}
    int8 = found["tflite-int8/1"]
    assert int8.artifact is not None
    assert int8.artifact.census.precision is Precision.FULL_INT8
    assert int8.measurement is not None
    assert [len(r.latencies_ns) >= 5 for r in int8.measurement.rounds] == [True, True]
    assert int8.evaluation is not None
    assert int8.evaluation.split.quantization is not None
    assert "top1" in int8.evaluation.metrics


def test_the_float_file_of_a_tflite_model_equals_it(tmp_path: Path, make_matrix: Callable[..., Matrix]) -> None:
    convert_and_measure(make_matrix("tflite-fp32"), tmp_path / "run", [], Silent())
    evaluation = records(tmp_path / "run")["tflite-fp32/1"].evaluation
    assert evaluation is not None
    assert evaluation.divergence is not None
    assert all(output.max_abs_error < 1e-5 for output in evaluation.divergence.outputs.values())


def test_the_same_call_again_measures_nothing_anew(tmp_path: Path, make_matrix: Callable[..., Matrix]) -> None:
    matrix = make_matrix("tflite-fp32", "tflite-int8")
    convert_and_measure(matrix, tmp_path / "run", [], Silent())
    before = records(tmp_path / "run")
    convert_and_measure(matrix, tmp_path / "run", [], Silent())
    assert records(tmp_path / "run") == before
    with Store.open(tmp_path / "run" / "records.sqlite") as store:
        assert [len(store.history(record.cell)) for record in before.values()] == [1, 1]


def test_a_larger_matrix_adds_its_new_cells_only(tmp_path: Path, make_matrix: Callable[..., Matrix]) -> None:
    convert_and_measure(make_matrix("tflite-fp32"), tmp_path / "run", [], Silent())
    before = records(tmp_path / "run")["tflite-fp32/1"]
    convert_and_measure(make_matrix("tflite-fp32", "tflite-fp16"), tmp_path / "run", [], Silent())
    after = records(tmp_path / "run")
    assert list(after) == ["tflite-fp32/1", "tflite-fp16/1"]
    assert after["tflite-fp32/1"] == before


class KillConverter(Silent):
    """Kills the conversion child just before the named recipe reaches it."""

    def __init__(self, recipe: str) -> None:
        self.recipe = recipe
        self.killed = 0

    def detail(self, text: str) -> None:
        if text != self.recipe:
            return
        for child in psutil.Process().children():
            if "edgebench.isolation" in " ".join(child.cmdline()):
                child.send_signal(signal.SIGKILL)
                self.killed += 1


def test_a_killed_converter_costs_its_own_cell_and_the_next_call_mends_it(
    tmp_path: Path, make_matrix: Callable[..., Matrix]
) -> None:
    matrix = make_matrix("tflite-fp32", "tflite-int8", "tflite-fp16")
    killer = KillConverter("tflite-int8")
    convert_and_measure(matrix, tmp_path / "run", [], killer)
    assert killer.killed == 1
    found = records(tmp_path / "run")
    assert {name: record.status for name, record in found.items()} == {
        "tflite-fp32/1": Status.OK,
        "tflite-int8/1": Status.FAILED,
        "tflite-fp16/1": Status.OK,
    }
    reason = found["tflite-int8/1"].reason
    assert reason is not None
    assert "was ended by SIGKILL" in reason
    assert "conversion.log" in reason
    convert_and_measure(matrix, tmp_path / "run", [], Silent())
    assert {record.status for record in records(tmp_path / "run").values()} == {Status.OK}


def test_int8_without_data_is_refused_with_what_to_do(tmp_path: Path, make_matrix: Callable[..., Matrix]) -> None:
    matrix = make_matrix("tflite-fp32", "tflite-int8")
    matrix = replace(matrix, data=replace(matrix.data, source=None))
    convert_and_measure(matrix, tmp_path / "run", [], Silent())
    found = records(tmp_path / "run")
    assert found["tflite-fp32/1"].status is Status.OK
    assert found["tflite-int8/1"].status is Status.REFUSED
    assert found["tflite-int8/1"].reason == (
        "recipe 'tflite-int8' needs calibration samples and there are none: "
        "give --data with 2 samples or more, or --calibration"
    )


def test_wrong_data_ends_the_run_before_any_cell(tmp_path: Path, make_matrix: Callable[..., Matrix]) -> None:
    matrix = make_matrix("tflite-fp32")
    matrix = replace(matrix, data=replace(matrix.data, source=str(tmp_path / "absent.npz")))
    with pytest.raises(DataError, match=r"absent\.npz"):
        convert_and_measure(matrix, tmp_path / "run", [], Silent())


def test_two_runs_in_one_folder_are_refused(tmp_path: Path, make_matrix: Callable[..., Matrix]) -> None:
    with (
        RunFolder.open(tmp_path / "run"),
        pytest.raises(ConfigError, match="another edgebench works in"),
    ):
        convert_and_measure(make_matrix("tflite-fp32"), tmp_path / "run", [], Silent())


def test_a_folder_with_other_files_is_not_written_to(tmp_path: Path, make_matrix: Callable[..., Matrix]) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ConfigError, match="holds other files"):
        convert_and_measure(make_matrix("tflite-fp32"), tmp_path, [], Silent())


def test_another_model_or_data_does_not_join_a_run(tmp_path: Path, make_matrix: Callable[..., Matrix]) -> None:
    matrix = make_matrix("tflite-fp32")
    convert_and_measure(matrix, tmp_path / "run", [], Silent())
    before = records(tmp_path / "run")
    other = replace(matrix, data=replace(matrix.data, source=None))
    with pytest.raises(ConfigError, match=r"holds a run of .*tiny-float.* give another folder with --out"):
        convert_and_measure(other, tmp_path / "run", [], Silent())
    assert records(tmp_path / "run") == before
