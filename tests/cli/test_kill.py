"""edgebench killed by SIGKILL in the middle of a matrix: the same command finishes, with nothing lost or doubled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil

from edgebench.store import Store
from edgebench.types import Status

FILES = Path(__file__).parent.parent / "files"


def test_a_kill_in_the_middle_costs_only_the_round_in_flight(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", image=rng.normal(size=(80, 8, 8, 3)).astype("float32"))
    command = [
        sys.executable, "-m", "edgebench", "convert+measure", str(FILES / "tiny-float.tflite"), "--data", "data.npz",
        "--recipe", "tflite-fp32", "--recipe", "tflite-int8", "--recipe", "tflite-fp16",
        "--rounds", "3", "--min-seconds", "0.05", "--out", "run",
    ]  # fmt: skip
    first = subprocess.Popen([*command, "--verbose"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert first.stderr is not None
    for line in first.stderr:
        if "round 2: " in line:
            break
    children = psutil.Process(first.pid).children(recursive=True)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    psutil.wait_procs(children, timeout=10)
    assert not [child for child in children if child.is_running()]

    second = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stderr
    with Store.open(tmp_path / "run" / "records.sqlite", read_only=True) as store:
        records = store.records()
        assert [record.status for record in records] == [Status.OK] * 3
        assert [len(store.history(record.cell)) for record in records] == [1, 1, 1]
        for record in records:
            assert record.measurement is not None
            assert [round_.index for round_ in record.measurement.rounds] == [0, 1, 2]
        before = min(round_.before.at for record in records for round_ in store.rounds(record.cell))
    third = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert third.returncode == 0
    with Store.open(tmp_path / "run" / "records.sqlite", read_only=True) as store:
        assert store.records() == records
        assert min(r.before.at for record in records for r in store.rounds(record.cell)) == before


def test_a_runner_that_hangs_costs_its_own_cell(tmp_path: Path) -> None:
    """An ONNX loop of 10^12 turns stands for a kernel that never returns."""
    import onnx
    from onnx import TensorProto, helper

    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("Add", ["x_in", "one"], ["x_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x_in", TensorProto.FLOAT, [1, 4]),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x_out", TensorProto.FLOAT, [1, 4]),
        ],
        [helper.make_tensor("one", TensorProto.FLOAT, [1, 4], [1.0] * 4)],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["turns", "yes", "x"], ["y"], body=body)],
        "endless",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [
            helper.make_tensor("turns", TensorProto.INT64, [], [10**12]),
            helper.make_tensor("yes", TensorProto.BOOL, [], [True]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "endless.onnx")
    command = [
        sys.executable, "-m", "edgebench", "measure", "endless.onnx", str(FILES / "tiny.onnx"),
        "--timeout", "3", "--rounds", "1", "--min-seconds", "0", "--out", "run",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    with Store.open(tmp_path / "run" / "records.sqlite", read_only=True) as store:
        endless, tiny = sorted(store.records(), key=lambda record: record.model)
    assert (endless.status, endless.stage, tiny.status) == (Status.FAILED, "evaluate", Status.OK)
    assert endless.reason is not None
    assert "3" in endless.reason
