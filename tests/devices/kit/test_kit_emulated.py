"""The kit for aarch64 as a phone gets it, run by qemu: its outputs are those of the host, its times mean nothing."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kit_jobs import FILES, PYTHON, images, int8_onnx, job_for, start

from edgebench.devices.kit import build
from edgebench.errors import MissingError

QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")

pytestmark = [
    pytest.mark.slow,  # the first run builds the kit: 39 MB from PyPI and Debian
    pytest.mark.skipif(
        QEMU is None or importlib.util.find_spec("ziglang") is None or sys.platform != "linux",
        reason="needs qemu-aarch64-static (Debian: qemu-user-static) and zig (pip install 'edgebench[kit]')",
    ),
]


@pytest.fixture(scope="module")
def emulated(tmp_path_factory):
    """Runs a job in a folder that the kit was copied into, as pushing does."""
    try:
        kit = build.kit_folder()
    except MissingError as error:
        pytest.skip(str(error))
    # onnxruntime's cpuinfo crashes on this machine's caches, which an ARM kernel describes in another way: hide them.
    hidden = tmp_path_factory.mktemp("root")
    for path in Path("/sys/devices/system/cpu").glob("cpu*/cache/*/*"):
        if path.is_file():
            (hidden / path.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
            (hidden / path.relative_to("/")).touch()

    def run(folder, job):
        for remote, local in build.files(kit).items():
            target = folder / "kit" / remote
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                target.symlink_to(local)
        # With "max", LiteRT 2.3.0 chose an SME kernel that gave wrong int8 values here.
        settings = {"QEMU_CPU": "neoverse-n1", "LD_LIBRARY_PATH": ""}
        return start([QEMU, "-L", str(hidden), *build.command("kit")], folder, job, settings)

    return run


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("kind", ["tflite", "onnx"])
def test_int8_outputs_are_those_of_the_host_bit_by_bit(tmp_path, emulated, kind, batch):
    model = FILES / "tiny-int8.tflite" if kind == "tflite" else int8_onnx(tmp_path / "int8.onnx")
    image = images(7, "int8", "NHWC" if kind == "tflite" else "NCHW")
    job = job_for(tmp_path, model, {"image": image}, outputs=["scores"], batch=batch)
    host, ours = start(PYTHON, tmp_path, job), emulated(tmp_path, job)
    assert ours.status == 0, ours.result
    assert ours.outputs[0].dtype == np.int8
    np.testing.assert_array_equal(ours.outputs[0], host.outputs[0])
    assert len(np.unique(ours.outputs[0])) > 3
    assert ours.result["input_sha256"] == host.result["input_sha256"]
    assert ours.result["non_finite"] == host.result["non_finite"] == {"scores": 0}


@pytest.mark.parametrize(("model", "layout"), [("tiny-float.tflite", "NHWC"), ("tiny.onnx", "NCHW")])
def test_float_outputs_are_close_to_the_host_s(tmp_path, emulated, model, layout):
    job = job_for(tmp_path, FILES / model, {"image": images(4, layout=layout) / 100}, outputs=["scores"])
    host, ours = start(PYTHON, tmp_path, job), emulated(tmp_path, job)
    assert ours.status == 0, ours.result
    np.testing.assert_allclose(ours.outputs[0], host.outputs[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("model", ["tiny-float.tflite", "tiny-int8.tflite"])
def test_xnnpack_runs_every_operator_as_it_does_on_the_host(tmp_path, emulated, model):
    image = images(1, "int8" if "int8" in model else "float32")
    job = job_for(tmp_path, FILES / model, {"image": image})
    host, ours = start(PYTHON, tmp_path, job).result, emulated(tmp_path, job).result
    assert set(ours) == set(host) - {"python", "numpy"}
    assert (ours["delegate"], ours["delegated_fraction"]) == ("xnnpack", 1.0)
    assert (host["delegate"], host["delegated_fraction"]) == ("xnnpack", 1.0)
    assert ours["runtime_version"] == build.LITERT.version
    assert len(ours["latencies_ns"]) >= 20


def test_a_wrong_feed_of_a_tflite_file_is_refused_in_the_words_of_the_host(tmp_path, emulated):
    for wrong in ({"photo": images(1)}, {"image": images(1, layout="NCHW")}, {"image": images(1, "int8")}):
        job = job_for(tmp_path, FILES / "tiny-float.tflite", wrong)
        host, ours = start(PYTHON, tmp_path, job), emulated(tmp_path, job)
        assert (ours.status, ours.result) == (host.status, host.result)


def test_a_tflite_file_that_is_garbage_is_one_line(tmp_path, emulated):
    (tmp_path / "model.tflite").write_bytes(bytes(range(256)) * 20)
    done = emulated(tmp_path, job_for(tmp_path, tmp_path / "model.tflite", {"image": images(1)}))
    assert done.status == 1
    assert done.result["error"].startswith("litert: loading the model failed: ")


def test_the_kit_starts_from_any_folder_and_says_how_it_is_used(tmp_path):
    try:
        kit = build.kit_folder()
    except MissingError as error:
        pytest.skip(str(error))
    done = subprocess.run([QEMU, *build.command(".")], cwd=kit, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "usage: edgebench-runner JOB.json RESULT.json\n")
