"""The devices commands, and a matrix over this machine and a virtual phone, as a user types them."""

from __future__ import annotations

import csv
import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from calling import Edgebench

from edgebench.devices.virtual import Faults, VirtualPhone

FILES = Path(__file__).parent.parent / "files"


@pytest.fixture(autouse=True)
def own_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EDGEBENCH_HOME", str(tmp_path / "cache"))


@pytest.fixture
def phone(edgebench: Edgebench) -> Iterator[VirtualPhone]:
    with VirtualPhone(accepts_any_key=True) as running:
        Path("devices").mkdir()
        Path("devices/phone.yaml").write_text(f"driver: adb\naddress: {running.address}\n")
        yield running


def test_convert_and_measure_gives_both_devices_and_marks_the_virtual_phone(
    edgebench: Edgebench, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    np.savez("data.npz", image=rng.normal(size=(80, 8, 8, 3)).astype("float32"), labels=rng.integers(0, 3, 80))
    said = edgebench(
        "convert+measure", FILES / "tiny-float.tflite", "--data", "data.npz", "--recipe", "tflite-fp32",
        "--device", "host", "--device", "virtual-phone", "--rounds", 2, "--min-runs", 5, "--min-seconds", 0,
        "--out", "run", "--json",
    )  # fmt: skip
    assert said.status == 0, said.err
    host, phone = json.loads(said.out)["records"]
    assert (host["device"], host["origin"]) == ("host", "measured")
    assert (phone["device"], phone["origin"]) == ("virtual-phone", "simulated")
    assert host["latency"]["p50_ms"]["value"] > 0
    assert phone["latency"]["p50_ms"]["value"] > 0
    assert phone["artifact"]["sha256"] == host["artifact"]["sha256"]
    assert phone["evaluation"]["metrics"] == host["evaluation"]["metrics"]
    assert host["evaluation"]["split"]["device"] is None
    assert [o["max_abs_error"] for o in phone["evaluation"]["split"]["device"]["outputs"].values()] == [0]

    rows = list(csv.DictReader(io.StringIO(edgebench("report", "run", "--format", "csv").out)))
    assert [(row["device"], row["origin"]) for row in rows] == [("host", "measured"), ("virtual-phone", "simulated")]
    for format in ("table", "markdown"):
        text = edgebench("report", "run", "--format", format).out
        assert "(simulated)" in text
        assert "SIMULATED" in text
        assert "simulated, emulated: these latencies are not a device's." in text
    page = Path("run/report.html").read_text()
    assert "virtual-phone (simulated)" in page
    assert "simulated, not measured" in page


def test_check_as_json_is_one_document_and_its_status_tells(edgebench: Edgebench, phone: VirtualPhone) -> None:
    phone.inject(Faults(is_unauthorized=True))
    said = edgebench("devices", "check", "phone", "--json")
    health = json.loads(said.out)
    assert (said.status, health["device"], health["level"], health["origin"]) == (1, "phone", "fail", None)
    assert health["findings"][-1] == {
        "item": "connection",
        "level": "fail",
        "value": f"device 'phone' at {phone.address} is unauthorized",
        "fix": "accept the dialog on its screen, then: edgebench devices check phone",
    }
    text = edgebench("devices", "check", "phone")
    line = (
        f"fail connection          device 'phone' at {phone.address} is unauthorized"
        "  -> accept the dialog on its screen, then: edgebench devices check phone"
    )
    assert text.status == 1
    assert text.out.splitlines()[-2:] == [line, "phone: fail"]


def test_info_tells_what_a_phone_is(edgebench: Edgebench, phone: VirtualPhone) -> None:
    said = json.loads(edgebench("devices", "info", "phone", "--json").out)
    assert said["identity"]["model"] == "Virtual Phone"
    assert said["conditions"]["battery_fraction"] == 0.8
    assert said["cpus"]


def test_info_starts_with_the_device(edgebench: Edgebench, phone: VirtualPhone) -> None:
    assert edgebench("devices", "info", "phone").out.splitlines()[0].split() == ["device", "phone", "(simulated)"]


def test_a_started_virtual_phone_tells_its_address_and_what_comes_next(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "edgebench", "devices", "virtual", "start"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as phone:
        assert phone.stdout
        assert phone.stderr
        address = phone.stdout.readline().strip()
        hint = phone.stderr.readline()
        phone.send_signal(signal.SIGINT)
        assert (phone.stdout.read(), phone.wait(timeout=20)) == ("", 0)
    assert re.fullmatch(r"127\.0\.0\.1:\d+", address)
    assert hint == f"Ctrl-C ends it; next: edgebench devices add NAME {address}\n"


def test_list_names_the_users_devices_and_the_shipped_ones(edgebench: Edgebench, phone: VirtualPhone) -> None:
    names = [spec["name"] for spec in json.loads(edgebench("devices", "list", "--json").out)]
    assert {"host", "phone", "virtual-phone"} <= set(names)


@pytest.mark.parametrize("command", ["check", "info"])
def test_an_unknown_device_is_one_line_with_the_nearest(edgebench: Edgebench, command: str) -> None:
    said = edgebench("devices", command, "virtual-phon")
    assert said.status == 2
    assert "there is no device 'virtual-phon'; did you mean 'virtual-phone'?" in said.last_line


def test_a_virtual_phone_with_an_unknown_fault_does_not_start(edgebench: Edgebench) -> None:
    said = edgebench("devices", "virtual", "start", "--fault", "is_offlin")
    assert said.status == 2
    assert "did you mean 'is_offline'?" in said.last_line
