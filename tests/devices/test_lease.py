"""Leases between real processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from edgebench.devices.lease import lease

HOLD = """
import sys
from edgebench.devices.lease import lease
with lease('host', print):
    print('held', flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path, monkeypatch):
    """Another process that holds the device 'host' until its stdin closes."""
    monkeypatch.setenv("EDGEBENCH_HOME", str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_second_process_waits_and_says_for_whom(holder):
    told = []

    def on_wait(text):
        told.append(text)
        holder.stdin.close()

    with lease("host", on_wait):
        pass
    assert told == [f"device 'host' is in use by process {holder.pid}; waiting for it to finish"]


def test_a_killed_holder_frees_the_device(holder):
    holder.kill()
    holder.wait()
    told = []
    with lease("host", told.append):
        assert told == []


def test_two_devices_do_not_wait_for_each_other(holder):
    told = []
    with lease("pixel/8", told.append), lease("pixel_8", told.append):
        assert told == []
