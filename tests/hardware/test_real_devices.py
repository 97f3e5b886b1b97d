"""Devices of your own, named in EDGEBENCH_HARDWARE; opt-in, as no other machine has them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgebench.devices.inventory import open_device
from edgebench.store import Store
from edgebench.types import Origin, Status

MODELS = Path(__file__).parents[2] / "edgebench" / "pipeline" / "check_models"
NAMES = os.environ.get("EDGEBENCH_HARDWARE", "").split()

pytestmark = [
    pytest.mark.skipif(
        not NAMES, reason="opt-in: EDGEBENCH_HARDWARE='NAME ...' with names of `edgebench devices list`"
    ),
    pytest.mark.parametrize("name", NAMES),
]


def edgebench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edgebench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_its_check_finds_nothing_that_fails(name):
    done = edgebench("devices", "check", name)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_small_int8_files_are_measured_on_it(name, tmp_path):
    files = (str(MODELS / "tflite-int8.tflite"), str(MODELS / "onnx-int8.onnx"))
    done = edgebench("measure", *files, "--device", name, "--rounds", "2", "--quiet", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    with Store.open(tmp_path / "records.sqlite", read_only=True) as store:
        records = store.records()
    assert {record.status for record in records} == {Status.OK}
    assert {record.measurement.origin for record in records} == {Origin.MEASURED}


def test_its_work_folder_is_gone_when_it_was_closed(name):
    device = open_device(name)
    folder = device.run(("pwd",), 30).stdout.strip()
    device.close()
    device = open_device(name)
    try:
        assert device.run(("sh", "-c", '[ ! -e "$1" ]', "sh", folder), 30).exit_code == 0
    finally:
        device.close()
