"""A matrix over this machine and a phone: the same answers on both, and every fault costs its own cells only."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import phone_process
import pytest
from phone_process import PhoneProcess

from edgebench.arrays import load_arrays
from edgebench.matrix import Axes, DataSource, Matrix
from edgebench.measure import trust
from edgebench.pipeline import Silent, convert_and_measure, measure_files
from edgebench.store import Store
from edgebench.types import Origin, Plan, Record, Status

FILES = Path(__file__).parent.parent / "files"
PLAN = Plan(rounds=1, min_runs=3, min_seconds=0, max_runs=5, max_seconds=1, warmup_max_seconds=0.05, timeout_s=60)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key of the user's, no lease that another test waits for, and an inventory of our own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EDGEBENCH_HOME", str(tmp_path / "cache"))


StartPhone = Callable[..., PhoneProcess]


@pytest.fixture
def start_phone(tmp_path: Path) -> Iterator[StartPhone]:
    """Starts the phone with these faults, and writes its device file; the one before is ended."""
    running: list[PhoneProcess] = []

    def start(*faults: str, python: str = sys.executable) -> PhoneProcess:
        while running:
            running.pop().end()
        phone = phone_process.start(tmp_path / "phone-root", *faults)
        running.append(phone)
        phone_process.write_device("phone", phone, python)
        return phone

    yield start
    while running:
        running.pop().end()


def records() -> dict[str, Record]:
    with Store.open(Path("run/records.sqlite"), read_only=True) as store:
        return {record.device: record for record in store.records()}


def measure_on_both(plan: Plan = PLAN) -> dict[str, Record]:
    axes = Axes(devices=("phone", "host"), plan=plan)
    measure_files([FILES / "tiny-float.tflite"], DataSource(source=None), axes, Path("run"), [], Silent())
    return records()


def is_measured(record: Record) -> bool:
    return record.status is Status.OK and record.measurement is not None and record.evaluation is not None


def test_the_virtual_phone_answers_bit_for_bit_as_the_host(make_matrix: Callable[..., Matrix]) -> None:
    matrix = make_matrix("tflite-fp32", "tflite-int8", plan=PLAN)
    matrix = replace(matrix, axes=replace(matrix.axes, devices=("host", "virtual-phone")))
    convert_and_measure(matrix, Path("run"), [], Silent())
    with Store.open(Path("run/records.sqlite"), read_only=True) as store:
        found = {(record.recipe, record.device): record for record in store.records()}
    assert len(found) == 4
    for recipe in ("tflite-fp32", "tflite-int8"):
        host, phone = found[recipe, "host"], found[recipe, "virtual-phone"]
        assert None not in (host.artifact, phone.artifact, host.evaluation, phone.evaluation)
        assert phone.artifact.sha256 == host.artifact.sha256
        (here,) = Path("run/outputs").glob(f"{host.artifact.sha256[:16]}-*-host-litert-python.npz")
        (there,) = Path("run/outputs").glob(f"{host.artifact.sha256[:16]}-*-virtual-phone-litert-python.npz")
        for name, array in load_arrays(here).items():
            np.testing.assert_array_equal(load_arrays(there)[name], array)
        assert phone.evaluation.metrics == host.evaluation.metrics
        assert phone.evaluation.divergence == host.evaluation.divergence
        assert host.evaluation.split.device is None
        assert phone.evaluation.split.device is not None
        assert [output.max_abs_error for output in phone.evaluation.split.device.outputs.values()] == [0.0]
        assert None not in (host.measurement, phone.measurement)
        assert (host.measurement.origin, phone.measurement.origin) == (Origin.MEASURED, Origin.SIMULATED)
        assert phone.environment["device.model"] == "Virtual Pixel-like"


# What goes wrong, and the stage and reason in the record of the phone's cell.
FAULTS = [
    ("is_offline", "connect", r"device 'phone' at 127\.0\.0\.1:\d+ does not answer \(offline\): check that it is on"),
    ("is_unauthorized", "connect", r"device 'phone' at \S+ is unauthorized: accept the dialog on its screen"),
    ("is_exit_code_lost", "connect", r"a command failed: the device's answer was cut before its exit status"),
    ("is_read_only", "deploy", r"sending 'tiny-float.tflite' failed: "),
    ("disk_full_after_bytes=1000", "deploy", r"has [\d,]+ bytes free in /data/local/tmp/edgebench-\w+, 'model-.*needs"),
    ("drop_push_after_bytes=1000", "deploy", r"sending 'tiny-float.tflite' failed: the device closed the connection"),
    ("short_push_bytes=1", "deploy", r"did not arrive whole on device 'phone': [\d,]+ bytes were sent, it has [\d,]+"),
]


@pytest.mark.parametrize(("fault", "stage", "reason"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
def test_a_fault_costs_the_cells_of_its_phone_only_and_mended_they_are_measured(
    start_phone: StartPhone, fault: str, stage: str, reason: str
) -> None:
    phone = start_phone(fault)
    found = measure_on_both()
    assert is_measured(found["host"])
    failed = found["phone"]
    assert failed.status in (Status.FAILED, Status.REFUSED)
    assert failed.stage == stage
    assert re.search(reason, failed.reason or ""), failed.reason
    assert (failed.measurement, failed.evaluation) == (None, None)
    assert phone.left_files() == []
    assert phone.processes() == []
    start_phone()
    again = measure_on_both()
    assert is_measured(again["phone"])
    assert again["host"] == found["host"]


def test_a_slow_link_makes_transfers_slow_and_nothing_else(start_phone: StartPhone) -> None:
    start_phone("link_bytes_per_s=100000")
    assert is_measured(measure_on_both()["phone"])


def test_a_phone_that_marks_nothing_as_executable_still_runs_its_own_python(start_phone: StartPhone) -> None:
    start_phone("is_exec_denied")
    assert is_measured(measure_on_both()["phone"])


def test_a_phone_that_gets_hot_is_told_in_the_record(start_phone: StartPhone) -> None:
    start_phone("thermal_rise={status: 4, temperature_c: 85, at_commands: 30}")
    measurement = measure_on_both()["phone"].measurement
    assert measurement is not None
    states = [(round_.before.thermal_status, round_.after.thermal_status) for round_ in measurement.rounds]
    assert states[-1][1] == 4
    cautions = trust.judge(replace(measurement, origin=Origin.MEASURED), PLAN).cautions
    assert any("thermal" in caution.code or "hot" in caution.code for caution in cautions), cautions


HANGING = """#!{python} -IS
import json, os, sys, time
if sys.argv[1] != "-c" and json.load(open(sys.argv[2]))["mode"] == "{mode}" and not os.path.exists("{pid}.mended"):
    with open("{pid}", "w") as pid:
        pid.write(str(os.getpid()))
    time.sleep(600)
os.execv("{python}", ["{python}", *sys.argv[1:]])
"""


@pytest.fixture
def hanging_python(tmp_path: Path) -> Callable[[str], Path]:
    """A Python for the phone that does not come back from jobs of this mode, until `pid.mended` is there."""

    def write(mode: str) -> Path:
        path = tmp_path / "hanging-python"
        path.write_text(HANGING.format(python=sys.executable, mode=mode, pid=tmp_path / "pid"))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return write


@pytest.mark.parametrize("faults", [(), pytest.param(("is_timeout_ignored",), marks=pytest.mark.slow)], ids=str)
def test_a_model_that_hangs_on_the_phone_is_ended_and_costs_its_cell(
    start_phone: StartPhone, hanging_python: Callable[[str], Path], faults: tuple[str, ...]
) -> None:
    phone = start_phone(*faults, python=str(hanging_python("latency")))
    found = measure_on_both(replace(PLAN, timeout_s=5))
    failed = found["phone"]
    assert is_measured(found["host"])
    assert (failed.status, failed.stage, failed.measurement) == (Status.FAILED, "measure", None)
    assert "on device 'phone' was ended after its limit of 5 s" in (failed.reason or "")
    assert phone.left_files() == []
    assert phone.processes() == []
    Path("pid.mended").touch()
    assert is_measured(measure_on_both(replace(PLAN, timeout_s=5))["phone"])


MATRIX = """
model: {{source: {model}}}
recipes: [tflite-fp32]
devices: [phone]
plan: {{rounds: 1, min_runs: 3, min_seconds: 0, max_seconds: 1, warmup_max_seconds: 0.1, timeout_s: {timeout_s}}}
"""


def start_client(timeout_s: int) -> subprocess.Popen[str]:
    """The command line, amid a round on the phone that does not end by itself."""
    Path("matrix.yaml").write_text(MATRIX.format(model=FILES / "tiny-float.tflite", timeout_s=timeout_s))
    command = [sys.executable, "-m", "edgebench", "run", "matrix.yaml", "--out", "run", "--quiet"]
    client = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=os.environ)
    deadline = time.monotonic() + 60
    while not Path("pid").exists() and client.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert Path("pid").exists(), client.communicate()[1]
    return client


def finish() -> Record:
    """The same command again, once nothing hangs."""
    Path("pid.mended").touch()
    client = start_client(5)
    assert client.wait(120) == 0
    return records()["phone"]


def test_ctrl_c_amid_a_round_leaves_nothing_on_the_phone_and_the_same_command_finishes(
    start_phone: StartPhone, hanging_python: Callable[[str], Path]
) -> None:
    phone = start_phone(python=str(hanging_python("latency")))
    client = start_client(5)
    client.send_signal(signal.SIGINT)
    client.communicate(timeout=60)
    assert client.returncode == 130
    assert phone.left_files() == []
    assert phone.processes() == []
    assert is_measured(finish())


def test_a_client_that_was_killed_leaves_no_process_past_its_limit_and_the_same_command_finishes(
    start_phone: StartPhone, hanging_python: Callable[[str], Path]
) -> None:
    phone = start_phone(python=str(hanging_python("latency")))
    client = start_client(5)
    client.kill()
    client.communicate()
    assert phone.processes() != []  # adbd leaves it running
    deadline = time.monotonic() + 30
    while phone.processes() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert phone.processes() == []
    assert is_measured(finish())


def test_no_device_runs_two_cells_at_once(start_phone: StartPhone) -> None:
    start_phone()
    axes = Axes(devices=("phone", "virtual-phone"), threads=(1, 2), plan=replace(PLAN, rounds=2))
    measure_files([FILES / "tiny-float.tflite"], DataSource(source=None), axes, Path("run"), [], Silent())
    processes = [json.loads(line) for line in Path("run/logs/runners.jsonl").read_text().splitlines()]
    for device in ("phone", "virtual-phone"):
        spans = sorted((p["began_s"], p["began_s"] + p["seconds"]) for p in processes if p["device"] == device)
        assert len(spans) == 5  # the two cells share one evaluation
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
