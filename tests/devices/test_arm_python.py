"""An aarch64 Python on the virtual phone, under qemu: int8 outputs are the host's bit by bit; times mean nothing."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from edgebench.converters import artifact_files
from edgebench.devices.adb import Adb
from edgebench.devices.host import Host
from edgebench.devices.virtual import VirtualPhone
from edgebench.errors import MissingError
from edgebench.measure import session
from edgebench.measure.feed_files import FeedFolder
from edgebench.store import Store
from edgebench.types import DeviceSpec, Origin, Target

TESTS = Path(__file__).parent.parent
CHECK_MODELS = TESTS.parent / "edgebench" / "pipeline" / "check_models"
INT8 = {"litert": TESTS / "files" / "tiny-int8.tflite", "onnxruntime": CHECK_MODELS / "onnx-int8.onnx"}
CPU = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").is_file() else ""

pytestmark = [
    pytest.mark.slow,  # starts interpreters under emulation; the first run fetches 63 MB from PyPI and Debian
    pytest.mark.skipif(
        shutil.which("qemu-aarch64-static") is None or shutil.which("dpkg-deb") is None,
        reason="needs qemu-aarch64-static (Debian: qemu-user-static) and dpkg-deb",
    ),
    pytest.mark.skipif(
        "avx2" in CPU and "_vnni" not in CPU,
        reason="onnxruntime saturates sums of two 8-bit products on x86 without VNNI: this host is not ARM's equal",
    ),
]


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The program that starts the aarch64 Python."""
    command = [sys.executable, TESTS / "hardware" / "arm64_python.py", tmp_path_factory.mktemp("arm64")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == MissingError.exit_status:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.fixture
def phone():
    with VirtualPhone(accepts_any_key=True, origin=Origin.EMULATED) as running:
        yield running


def outputs(device, run, runtime):
    """What the int8 file of that runtime gives for 16 seeded samples, as its own tensors."""
    artifact = artifact_files.from_file(INT8[runtime], run)
    deployment = session.deploy(device, artifact, run, Target(device=device.spec.name, runtime=runtime))
    assert deployment.runner.kind == "python"
    random = np.random.default_rng(0)
    samples = {
        binding.baseline: random.random((16, *(size or 1 for size in binding.tensor.shape[1:])), dtype=np.float32)
        for binding in artifact.inputs
    }
    return session.run_outputs(deployment, FeedFolder(run / "feeds").files("all", samples, artifact.inputs), 300)


@pytest.mark.parametrize("runtime", INT8)
def test_int8_outputs_of_an_arm_python_are_those_of_the_host_bit_by_bit(python, phone, tmp_path, runtime):
    with closing(Adb(DeviceSpec(name="arm", driver="adb", address=phone.address, python=python))) as device:
        assert device.origin is Origin.EMULATED
        machine = device.run((python, "-c", "import platform; print(platform.machine())"), 60)
        assert machine.stdout == "aarch64\n"
        there = outputs(device, tmp_path / "there", runtime)
    with closing(Host(DeviceSpec(name="host", driver="host"))) as host:
        here = outputs(host, tmp_path / "here", runtime)
    assert there.keys() == here.keys()
    for name, values in here.items():
        assert there[name].dtype == values.dtype
        np.testing.assert_array_equal(there[name], values)
        assert len(np.unique(values)) > 3


def test_a_measurement_of_it_says_that_it_is_emulated_and_how_far_it_is_from_the_host(python, phone, tmp_path):
    (tmp_path / "devices").mkdir()
    device = {"driver": "adb", "address": phone.address, "python": python}
    (tmp_path / "devices" / "arm.yaml").write_text(json.dumps(device))  # JSON is YAML
    command = [sys.executable, "-m", "edgebench", "measure", *map(str, INT8.values()), "--device", "arm", "--quiet"]
    quick = ["--rounds", "1", "--min-runs", "5", "--min-seconds", "0", "--evaluation-samples", "8", "--out", "run"]
    done = subprocess.run([*command, *quick], cwd=tmp_path, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    with Store.open(tmp_path / "run" / "records.sqlite", read_only=True) as store:
        records = store.records()
    assert [record.reason for record in records] == [None, None]
    assert {record.runtime for record in records} == set(INT8)
    for record in records:
        assert record.measurement.origin is Origin.EMULATED
        for error in record.evaluation.split.device.outputs.values():
            assert (error.max_abs_error, error.sqnr_db) == (0, math.inf)
