"""Real rounds and outputs on the host, in child processes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from edgebench.devices.host import Host
from edgebench.errors import ChildDiedError, ChildTimeoutError, InputError, StageError
from edgebench.measure import feed_files, session
from edgebench.types import (
    Artifact,
    Binding,
    Census,
    DeviceSpec,
    Format,
    Plan,
    Precision,
    Target,
    TensorSpec,
)

FILES = Path(__file__).parent.parent / "files"
PLAN = Plan(min_runs=20, min_seconds=0, max_runs=30, warmup_max_seconds=0.1)
RANDOM = np.random.default_rng(0)


@pytest.fixture
def host():
    device = Host(DeviceSpec(name="host", driver="host"))
    yield device
    device.close()


def artifact(file, inputs=("image",), outputs=("scores",), batch=1, more_files=()):
    def bindings(names):
        return tuple(
            Binding(tensor=TensorSpec(name=name, shape=(batch, None), dtype="float32"), baseline=name) for name in names
        )

    return Artifact(
        format=Format.ONNX if file.endswith(".onnx") else Format.TFLITE,
        files=(file, *more_files),
        sha256=f"{hash(file) % 2**64:064x}"[::-1],
        size_bytes=1,
        inputs=bindings(inputs),
        outputs=bindings(outputs),
        census=Census(precision=Precision.FP32, ops={}, weight_bytes={}, parameters=1, macs=None),
        batch=batch,
    )


TFLITE = artifact("tiny-float.tflite", batch=None)
LITERT = Target(device="host", runtime="litert")
ORT = Target(device="host", runtime="onnxruntime")


@pytest.fixture
def stored(tmp_path):
    """Arrays by input name as the files that a runner is fed."""

    def store(**arrays):
        return {name: feed_files.write(tmp_path / "feed" / f"{name}.npy", array) for name, array in arrays.items()}

    return store


@pytest.fixture
def run_folder(tmp_path):
    """A run folder that holds the small files."""
    return Path(shutil.copytree(FILES, tmp_path / "run"))


def images(n, layout="NHWC"):
    return RANDOM.random((n, 8, 8, 3) if layout == "NHWC" else (n, 3, 8, 8), dtype=np.float32)


def test_a_round_holds_what_ran_where_and_under_which_conditions(host, run_folder, stored):
    deployment = session.deploy(host, TFLITE, run_folder, LITERT)
    measured = session.measure_round(deployment, PLAN, 3, stored(image=images(1)))
    assert measured.index == 3
    assert 20 <= len(measured.latencies_ns) <= 30
    assert measured.affinity == host.cpus()[:1]
    assert (measured.delegate, measured.delegated_fraction) == ("xnnpack", 1.0)
    assert measured.runtime_version[0].isdigit()
    assert measured.before.at < measured.after.at
    assert deployment.cautions == ()
    (logged,) = map(json.loads, deployment.log.read_text().splitlines())
    assert (logged["mode"], logged["exit_code"]) == ("latency", 0)
    assert sum(measured.latencies_ns) < logged["loop_ns"] < logged["seconds"] * 1e9


def test_each_round_is_a_fresh_process_that_leaves_nothing_running(host, run_folder, stored):
    deployment = session.deploy(host, TFLITE, run_folder, LITERT)
    rounds = [session.measure_round(deployment, PLAN, i, stored(image=images(1))) for i in range(2)]
    # A process that had run the model before would not load it again.
    assert all(measured.load_ns > 50_000 for measured in rounds)
    assert not list(_processes_in(host._folder))


def _processes_in(folder):
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").resolve() == folder:
                yield int(process.name)


def test_an_open_batch_runs_as_many_samples_as_it_is_fed(host, run_folder, stored):
    deployment = session.deploy(host, TFLITE, run_folder, LITERT)

    def fastest(n):
        return min(session.measure_round(deployment, PLAN, 0, stored(image=images(n))).latencies_ns)

    assert fastest(256) > 10 * fastest(1)


def test_outputs_come_back_by_name_for_every_sample(host, run_folder, stored):
    deployment = session.deploy(host, artifact("tiny.onnx", batch=None), run_folder, ORT)
    feed = images(7, "NCHW")
    outputs = session.run_outputs(deployment, stored(image=feed), 60)
    import onnxruntime

    expected = onnxruntime.InferenceSession(FILES / "tiny.onnx").run(["scores"], {"image": feed})[0]
    assert list(outputs) == ["scores"]
    np.testing.assert_allclose(outputs["scores"], expected, rtol=1e-4)


def test_a_fixed_batch_of_4_is_fed_in_groups_and_the_filling_is_dropped(host, tmp_path, stored):
    from onnx import TensorProto, helper, save

    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", value[:1], value[1:])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "four.onnx")
    deployment = session.deploy(host, artifact("four.onnx", ["x"], ["y"], batch=4), tmp_path, ORT)
    x = RANDOM.random((6, 2), dtype=np.float32)
    np.testing.assert_array_equal(session.run_outputs(deployment, stored(x=x), 60)["y"], -x)
    assert session.measure_round(deployment, PLAN, 0, stored(x=x[:1])).latencies_ns


def test_external_data_travels_with_its_model(host, tmp_path, stored):
    from onnx import TensorProto, helper, numpy_helper, save

    weights = RANDOM.random((300, 2), dtype=np.float32)
    value = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 300]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2]),
    ]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        value[:1],
        value[1:],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    folder = tmp_path / "artifacts" / "ü 1"
    folder.mkdir(parents=True)
    save(model, folder / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    built = artifact("artifacts/ü 1/model.onnx", ["x"], ["y"], more_files=["artifacts/ü 1/weights.bin"])
    deployment = session.deploy(host, built, tmp_path, ORT)
    x = RANDOM.random((3, 300), dtype=np.float32)
    np.testing.assert_allclose(session.run_outputs(deployment, stored(x=x), 60)["y"], x @ weights, rtol=1e-5)


def test_a_runner_that_fails_says_so_in_its_own_words(host, run_folder, stored):
    deployment = session.deploy(host, TFLITE, run_folder, LITERT)
    with pytest.raises(StageError) as error:
        session.measure_round(deployment, PLAN, 0, stored(picture=images(1)))
    assert str(error.value) == (
        "tiny-float.tflite with litert on device 'host': the file's inputs are ['image'], the job feeds ['picture']"
    )


def test_the_wrong_runtime_for_a_file_is_a_failure_and_not_a_crash(host, run_folder, stored):
    deployment = session.deploy(host, TFLITE, run_folder, ORT)
    with pytest.raises(StageError, match=r"tiny-float.tflite with onnxruntime on device 'host': "):
        session.run_outputs(deployment, stored(image=images(1)), 60)


def test_a_job_that_hangs_is_ended_at_its_limit(host, run_folder, stored):
    deployment = session.deploy(host, TFLITE, run_folder, LITERT)
    started = time.monotonic()
    with pytest.raises(ChildTimeoutError, match=r"ended after its limit of 0.5 s"):
        session.run_outputs(deployment, stored(image=np.repeat(images(1), 200_000, axis=0)), 0.5)
    assert time.monotonic() - started < 20


def test_a_runner_that_a_signal_ends_is_told_with_the_signal(host, run_folder, stored):
    deployment = session.deploy(host, TFLITE, run_folder, LITERT)
    plan = dataclasses.replace(PLAN, min_seconds=30, max_seconds=60, max_runs=10**7)

    def kill():
        while True:
            for pid in _processes_in(host._folder):
                os.kill(pid, signal.SIGSEGV)
                return

    threading.Thread(target=kill).start()
    with pytest.raises(ChildDiedError, match="on device 'host': its process was ended by SIGSEGV"):
        session.measure_round(deployment, plan, 0, stored(image=images(1)))


def test_a_file_that_is_gone_is_told_before_anything_runs(host, tmp_path):
    with pytest.raises(InputError, match=r"tiny-float.tflite is gone; the run folder has changed"):
        session.deploy(host, TFLITE, tmp_path, LITERT)


def test_more_threads_than_cpus_is_a_caution(host, run_folder, stored):
    cpus = len(host.cpus())
    deployment = session.deploy(host, TFLITE, run_folder, dataclasses.replace(LITERT, threads=cpus + 1))
    assert [caution.code for caution in deployment.cautions] == ["more-threads-than-cpus"]
    assert deployment.cautions[0].advice.endswith(f"--threads {cpus}")
    assert session.measure_round(deployment, PLAN, 0, stored(image=images(1))).affinity == tuple(sorted(host.cpus()))
    with pytest.raises(InputError, match="threads 0: at least 1 is needed"):
        session.deploy(host, TFLITE, run_folder, dataclasses.replace(LITERT, threads=0))
