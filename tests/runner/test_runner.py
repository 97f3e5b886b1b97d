"""The runner as a device runs it: a file of its own, in a child process, with a job and a result."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgebench.runner import RUNNER

FILES = Path(__file__).parent.parent / "files"
RANDOM = np.random.default_rng(0)

LATENCY = {
    "min_runs": 20,
    "min_ns": 0,
    "max_runs": 40,
    "max_ns": 10**10,
    "warmup_min_runs": 3,
    "warmup_max_ns": 10**8,
}


def start(folder, model, feed, *, outputs=(), **changes):
    """The result and exit status of a job in `folder`; `changes` replace the job's keys."""
    inputs = {}
    for place, (name, value) in enumerate(feed.items()):
        np.save(folder / f"in{place}.npy", value)
        inputs[name] = f"in{place}.npy"
    job = {
        "mode": "outputs" if outputs else "latency",
        "runtime": "onnxruntime" if Path(model).suffix == ".onnx" else "litert",
        "delegate": "cpu",
        "model": str(model),
        "threads": 1,
        "cpus": None,
        "spinning": True,
        "batch": 1,
        "inputs": inputs,
        "outputs": {name: f"out{place}.npy" for place, name in enumerate(outputs)},
        **LATENCY,
        **changes,
    }
    (folder / "job.json").write_text(json.dumps(job))
    shutil.copy(RUNNER, folder / "runner.py")
    done = subprocess.run(
        [sys.executable, "runner.py", "job.json", "result.json"], cwd=folder, capture_output=True, timeout=60
    )
    return json.loads((folder / "result.json").read_text()), done.returncode


def images(n, dtype="float32", layout="NHWC"):
    shape = (n, 8, 8, 3) if layout == "NHWC" else (n, 3, 8, 8)
    return (RANDOM.random(shape) * 100).astype(dtype)


def onnx_file(path, nodes, inputs, outputs, initializers=()):
    from onnx import TensorProto, helper, save

    infos = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in side] for side in (inputs, outputs)]
    graph = helper.make_graph([helper.make_node(*node) for node in nodes], "g", *infos, list(initializers))
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_the_runner_is_python_3_7_and_imports_only_the_standard_library_numpy_and_runtimes():
    tree = ast.parse(RUNNER.read_text(), feature_version=(3, 7))
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    others = {name.split(".")[0] for name in modules} - set(sys.stdlib_module_names)
    assert others == {"numpy", "ai_edge_litert", "tflite_runtime", "onnxruntime"}
    # At run time Python 3.7 has no `X | Y` between types, no dict | dict and no f"{x=}".
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.NamedExpr | ast.Match)]
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    assert [alias.name for alias in future[0].names] == ["annotations"]


@pytest.mark.parametrize(
    ("model", "dtype", "layout", "delegate"),
    [
        ("tiny-float.tflite", "float32", "NHWC", "xnnpack"),
        ("tiny-int8.tflite", "int8", "NHWC", "xnnpack"),
        ("tiny.onnx", "float32", "NCHW", "cpu"),
    ],
)
def test_a_latency_job_says_what_ran_and_gives_every_time_raw(tmp_path, model, dtype, layout, delegate):
    result, status = start(tmp_path, FILES / model, {"image": images(1, dtype, layout)})
    assert status == 0
    assert 20 <= len(result["latencies_ns"]) <= 40
    assert min(result["latencies_ns"]) > 0
    assert result["first_ns"] > 0
    assert result["load_ns"] > 0
    assert len(result["warmup_ns"]) >= 3
    assert result["delegate"] == delegate
    assert result["delegated_fraction"] == (1.0 if delegate == "xnnpack" else 0.0)
    assert result["peak_rss_bytes"] > 10_000_000
    assert result["cpu_time_ns"] > 0


def test_a_round_ends_at_max_runs_and_not_before_min_runs(tmp_path):
    feed = {"image": images(1)}
    assert len(start(tmp_path, FILES / "tiny-float.tflite", feed, min_ns=10**10)[0]["latencies_ns"]) == 40
    assert len(start(tmp_path, FILES / "tiny-float.tflite", feed, max_runs=10**6)[0]["latencies_ns"]) == 20
    assert len(start(tmp_path, FILES / "tiny-float.tflite", feed, max_ns=0)[0]["latencies_ns"]) == 1


def test_warm_up_goes_on_until_the_medians_of_its_windows_agree(monkeypatch):
    from edgebench.runner import runner

    now = 0
    speeds = iter([40_000_000] * 3 + [30_000_000] * 3 + [20_000_000] * 100)

    def invoke():
        nonlocal now
        now += next(speeds)

    monkeypatch.setattr(runner.time, "perf_counter_ns", lambda: now)
    times, is_steady = runner.warm_up(invoke, min_runs=3, max_ns=10**12, max_runs=1000)
    assert is_steady
    assert times == [40_000_000] * 3 + [30_000_000] * 3 + [20_000_000] * 9
    speeds = iter(range(10_000_000, 10**12, 10_000_000))
    times, is_steady = runner.warm_up(invoke, min_runs=3, max_ns=10**9, max_runs=1000)
    assert not is_steady
    assert sum(times[:-1]) < 10**9 <= sum(times)


def test_the_process_stays_on_the_cpus_that_the_job_names(tmp_path):
    cpu = max(os.sched_getaffinity(0))
    result, _ = start(tmp_path, FILES / "tiny.onnx", {"image": images(1, layout="NCHW")}, cpus=[cpu])
    assert result["affinity"] == [cpu]
    result, status = start(tmp_path, FILES / "tiny.onnx", {"image": images(1, layout="NCHW")}, cpus=[100_000])
    assert status == 1
    assert result["error"].startswith("this process may not run on CPUs [100000]")


@pytest.mark.parametrize(("model", "layout"), [("tiny-float.tflite", "NHWC"), ("tiny.onnx", "NCHW")])
def test_outputs_of_a_batch_of_4_with_a_short_last_group_are_those_of_single_samples(tmp_path, model, layout):
    feed = {"image": images(6, layout=layout)}
    _, status = start(tmp_path, FILES / model, feed, outputs=["scores"])
    assert status == 0
    single = np.load(tmp_path / "out0.npy")
    result, status = start(tmp_path, FILES / model, feed, outputs=["scores"], batch=4)
    assert (result["n"], status) == (6, 0)
    grouped = np.load(tmp_path / "out0.npy")
    assert single.shape == (6, 3)
    assert len(np.unique(single[:, 0])) == 6
    np.testing.assert_allclose(grouped, single, rtol=1e-4)


def test_tflite_outputs_equal_an_interpreter_used_by_hand(tmp_path):
    from ai_edge_litert.interpreter import Interpreter

    feed = images(2, "int8")
    start(tmp_path, FILES / "tiny-int8.tflite", {"image": feed}, outputs=["scores"])
    interpreter = Interpreter(str(FILES / "tiny-int8.tflite"))
    interpreter.allocate_tensors()
    expected = []
    for sample in feed:
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], sample[np.newaxis])
        interpreter.invoke()
        expected.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0])
    np.testing.assert_array_equal(np.load(tmp_path / "out0.npy"), expected)


def test_inputs_are_matched_by_name_whatever_their_order_and_odd_their_names(tmp_path):
    sides = [("b/../2:0", ["n", 2]), ("ä 1", ["n", 2])]
    model = onnx_file(tmp_path / "minus.onnx", [("Sub", ["b/../2:0", "ä 1"], ["x y"])], sides, [("x y", ["n", 2])])
    feed = {"ä 1": np.full((3, 2), 10, np.float32), "b/../2:0": np.full((3, 2), 1, np.float32)}
    _, status = start(tmp_path, model, feed, outputs=["x y"])
    assert status == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out0.npy"), np.full((3, 2), -9))


def test_an_output_without_a_batch_axis_becomes_one_entry_a_sample(tmp_path):
    model = onnx_file(
        tmp_path / "sum.onnx",
        [("ReduceMax", ["x"], ["most"], "top"), ("Identity", ["most"], ["scalar"])],
        [("x", [1, 4])],
        [("scalar", None)],
    )
    x = RANDOM.random((5, 4), dtype=np.float32)
    # ReduceMax keeps its dimensions by default: (1, 1) for each sample.
    _, status = start(tmp_path, model, {"x": x}, outputs=["scalar"])
    assert status == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out0.npy").ravel(), x.max(axis=1))


def test_values_that_are_not_finite_are_counted_and_kept(tmp_path):
    model = onnx_file(tmp_path / "log.onnx", [("Log", ["x"], ["y"])], [("x", ["n", 2])], [("y", ["n", 2])])
    x = np.array([[1, 0], [-1, 1], [1, 1]], np.float32)
    result, status = start(tmp_path, model, {"x": x}, outputs=["y"], batch=2)
    assert (status, result["non_finite"]) == (0, {"y": 2})
    assert np.load(tmp_path / "out0.npy")[0, 1] == -np.inf


@pytest.mark.parametrize(
    ("feed", "changes", "message"),
    [
        ({"picture": images(1)}, {}, "the file's inputs are ['image'], the job feeds ['picture']"),
        ({"image": images(1)[:, :4]}, {}, "input 'image' of the file is ?x8x8x3, a batch of the job is 1x4x8x3"),
        ({"image": images(1, "int8")}, {}, "input 'image' of the file is float32, the job feeds int8"),
        ({"image": images(0)}, {}, "there is nothing to run: no samples, or a batch below 1"),
        ({"image": images(1), "b": images(2)}, {}, "every input needs the same number of samples on its first axis"),
        ({"image": images(1)}, {"delegate": "cuda"}, "litert runs on cpu or edgetpu, not on cuda"),
        ({"image": images(1)}, {"runtime": "tvm"}, "runtime 'tvm' is none of litert, tflite-runtime, onnxruntime"),
        (
            {"image": images(1)},
            {"mode": "outputs", "outputs": {"probs": "o.npy"}},
            "the file's outputs are ['scores'], the job wants ['probs']",
        ),
    ],
)
def test_a_job_that_does_not_fit_the_file_is_one_line_and_status_1(tmp_path, feed, changes, message):
    assert start(tmp_path, FILES / "tiny-float.tflite", feed, **changes) == ({"error": message}, 1)


@pytest.mark.parametrize("name", ["junk.tflite", "junk.onnx"])
def test_a_file_that_is_no_model_is_an_error_and_not_a_crash(tmp_path, name):
    (tmp_path / name).write_bytes(RANDOM.bytes(1000))
    result, status = start(tmp_path, name, {"image": images(1)})
    assert status == 1
    assert set(result) == {"error"}


def test_cuda_is_refused_where_onnxruntime_has_none(tmp_path):
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has CUDA")
    result, status = start(tmp_path, FILES / "tiny.onnx", {"image": images(1, layout="NCHW")}, delegate="cuda")
    assert status == 1
    assert "has no CUDAExecutionProvider" in result["error"]


def test_a_share_of_operators_that_xnnpack_leaves_to_the_kernels_is_told(tmp_path):
    from edgebench.runner.runner import TfliteSession

    nodes = [
        {"op_name": "CONV_2D", "inputs": [0, 1], "outputs": [2]},
        {"op_name": "CUSTOM", "inputs": [2], "outputs": [3]},
        {"op_name": "ADD", "inputs": [3, 2], "outputs": [4]},
        {"op_name": "MUL", "inputs": [4, 4], "outputs": [5]},
        {"op_name": "DELEGATE", "inputs": [0, 1], "outputs": [2]},
        {"op_name": "DELEGATE", "inputs": [3, 2], "outputs": [5]},
    ]

    class Graph:
        def _get_ops_details(self):
            return nodes

    session = TfliteSession.__new__(TfliteSession)
    session._interpreter = Graph()
    assert session._delegation() == ("xnnpack", 0.75)
