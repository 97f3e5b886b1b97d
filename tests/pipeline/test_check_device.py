"""What `devices check` finds on a virtual phone, healthy and not: each finding with its value and the way out."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebench.devices import adb_keys, adb_shell_link, inventory
from edgebench.devices.virtual import Battery, Faults, Profile, ThermalStep, VirtualPhone
from edgebench.errors import InputError, MissingError, StageError
from edgebench.pipeline import check_device
from edgebench.pipeline.finding import Finding, Level, from_error

ADB = shutil.which("adb")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An inventory and keys of our own, and no adb server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EDGEBENCH_HOME", str(tmp_path / "cache"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(listener.getsockname()[1]))


@pytest.fixture
def phone(request: pytest.FixtureRequest) -> Iterator[VirtualPhone]:
    """A running phone, and its file `devices/phone.yaml`; `parametrize` it indirectly for another Profile."""
    with VirtualPhone(getattr(request, "param", None), accepts_any_key=True) as running:
        write_device(running.address)
        yield running


def write_device(address: str) -> None:
    Path("devices").mkdir(exist_ok=True)
    Path("devices/phone.yaml").write_text(f"driver: adb\naddress: {address}\npython: {sys.executable}\n")


def check() -> check_device.Health:
    return check_device.check("phone", lambda finding: None, lambda text: None)


def by_item(health: check_device.Health) -> dict[str, Finding]:
    found = {finding.item: finding for finding in health.findings}
    assert len(found) == len(health.findings)
    return found


@pytest.mark.parametrize("phone", [Profile(governor="schedutil")], indirect=True)
def test_a_healthy_phone_is_ok_in_every_finding(phone: VirtualPhone, tmp_path: Path) -> None:
    health = check()
    values = {item: finding.value for item, finding in by_item(health).items()}
    assert {finding.level for finding in health.findings} == {Level.OK}
    assert {finding.fix for finding in health.findings} == {""}
    assert health.level is Level.OK
    assert re.fullmatch(r"adb-shell \d\S+", values.pop("package"))
    assert ADB is None or values.pop("adb program").startswith(f"{ADB}, version ")
    assert re.fullmatch(r"1 MiB there and back, [\d.e+]+ MB/s with its proofs", values.pop("file transfer"))
    assert re.fullmatch(r"up for \d+ s, and running", values.pop("clock"))
    assert re.fullmatch(r"0\.20 on \d+ CPUs", values.pop("load"))
    values.pop("adb program", None)
    assert values == {
        "adb key": f"{tmp_path}/cache/adb/adbkey, mode 0600",
        "connection": phone.address,
        "routes": "one: no adb server runs here",
        "exit status": "a program's status arrives (7)",
        "output": "stdout and stderr arrive apart",
        "executable folder": "a program put there runs",
        "free space": "20 GB",
        "leftovers": "no work folder of an earlier session",
        "tools": "timeout, taskset, sha256sum",
        "platform": "Virtual Phone, Virtual SoC, Virtual SoC, Android 14, arm64-v8a, SDK 34, pages of 4096",
        "litert, fp32": "bit-equal to this machine's",
        "litert, int8": "bit-equal to this machine's",
        "onnxruntime, fp32": "bit-equal to this machine's",
        "onnxruntime, int8": "bit-equal to this machine's",
        "thermal status": "0 of 6",
        "temperature": "30.0 °C",
        "battery": "80%, charging",
        "battery saver": "off",
        "screen": "on",
        "governor": "schedutil",
    }
    assert list((phone.root / "data/local/tmp").iterdir()) == []


def test_what_a_killed_session_left_on_the_phone_is_named(phone: VirtualPhone) -> None:
    (phone.root / "data/local/tmp/edgebench-0123abcd").mkdir()
    (phone.root / "data/local/tmp/edgebench-of-mine").mkdir()
    finding = by_item(check())["leftovers"]
    assert (finding.level, finding.value) == (Level.WARN, "edgebench-0123abcd")


def test_two_names_for_one_phone_are_one_device_to_lease(phone: VirtualPhone) -> None:
    Path("devices/again.yaml").write_text(f"driver: adb\naddress: {phone.address}\n")
    assert inventory.lease_name("again") == inventory.lease_name("phone") != inventory.lease_name("host")


@pytest.mark.parametrize("python", ["/bin/true", "/no/such/python"])
def test_a_python_that_the_file_names_and_that_is_none_is_not_replaced_in_silence(
    phone: VirtualPhone, python: str
) -> None:
    Path("devices/phone.yaml").write_text(f"driver: adb\naddress: {phone.address}\npython: {python}\n")
    finding = by_item(check())["litert, fp32"]
    assert finding.level is Level.FAIL
    assert f"{python}: {'it is no Python' if python == '/bin/true' else 'not there'}" in finding.value


def test_an_unauthorized_phone_fails_with_what_to_do_on_its_screen(phone: VirtualPhone) -> None:
    phone.inject(Faults(is_unauthorized=True))
    health = check()
    assert [finding.item for finding in health.findings] == ["package", "adb program", "adb key", "connection"]
    assert health.level is Level.FAIL
    assert by_item(health)["connection"] == Finding(
        item="connection",
        level=Level.FAIL,
        value=f"device 'phone' at {phone.address} is unauthorized",
        fix="accept the dialog on its screen, then: edgebench devices check phone",
    )


def test_an_offline_phone_fails_with_what_to_look_at(phone: VirtualPhone, monkeypatch: pytest.MonkeyPatch) -> None:
    phone.inject(Faults(is_offline=True))
    monkeypatch.setattr(adb_shell_link, "_CONNECT_TIMEOUT_S", 1.0)
    health = check()
    assert health.level is Level.FAIL
    assert by_item(health)["connection"] == Finding(
        item="connection",
        level=Level.FAIL,
        value=f"device 'phone' at {phone.address} does not answer (offline)",
        fix="check that it is on, awake and in reach",
    )


HOT = Profile(
    thermal=(ThermalStep(status=4, temperature_c=71.5),),
    battery=Battery(level_percent=12, is_charging=False),
    is_screen_on=False,
    is_low_power=True,
    governor="powersave",
)


@pytest.mark.parametrize("phone", [HOT], indirect=True)
def test_a_hot_and_tired_phone_fails_and_every_doubt_has_its_way_out(phone: VirtualPhone) -> None:
    health = check()
    doubts = {f.item: (f.level.value, f.value, f.fix) for f in health.findings if f.level is not Level.OK}
    assert health.level is Level.FAIL
    assert doubts == {
        "thermal status": ("fail", "4 of 6", "let it cool; it slows down its clocks now"),
        "temperature": ("warn", "71.5 °C", "let it cool, give it air, or wait for it with plan: cooldown"),
        "battery": ("warn", "12%", "charge it above 30 %"),
        "battery saver": ("warn", "on", "switch it off: it lowers the clocks"),
        "screen": ("warn", "off", "keep it on: with it off the system lowers the clocks"),
        "governor": ("warn", "powersave", "choose another: powersave holds the lowest clock"),
    }


def test_a_folder_where_nothing_may_run_is_found(phone: VirtualPhone) -> None:
    phone.inject(Faults(is_exec_denied=True))
    assert by_item(check())["executable folder"] == Finding(
        item="executable folder",
        level=Level.FAIL,
        value="a program put there does not start: 1 instead of 5",
        fix="name a `folder:` in its file that is not mounted noexec",
    )


def test_a_transfer_that_loses_bytes_fails_with_both_sizes(phone: VirtualPhone) -> None:
    phone.inject(Faults(short_push_bytes=1))
    assert by_item(check())["file transfer"] == Finding(
        item="file transfer",
        level=Level.FAIL,
        value="'transfer.bin' did not arrive whole on device 'phone': 1,048,576 bytes were sent, it has 1,048,575 "
        "bytes there",
        fix="check its free space and its cable",
    )


def test_a_key_that_others_can_read_is_told(phone: VirtualPhone) -> None:
    adb_keys.public_key()
    adb_keys.key_file().chmod(0o644)
    found = by_item(check())["adb key"]
    assert (found.level, found.fix) == (Level.WARN, f"keep it to yourself: chmod 600 {adb_keys.key_file()}")


def test_a_key_that_is_none_is_told_before_the_connection(phone: VirtualPhone) -> None:
    adb_keys.public_key()
    adb_keys.key_file().write_text("no key")
    found = by_item(check())["adb key"]
    assert (found.level, found.fix) == (Level.FAIL, "move it away to get a new one")
    assert "can't be used" in found.value


@pytest.fixture
def adb_server() -> Iterator[None]:
    """A real adb server at our own port."""
    if ADB is None:
        pytest.skip("needs the adb program (package adb)")
    environment = os.environ | {"ADB_MDNS": "0"}
    Path(os.environ["HOME"]).mkdir()
    subprocess.run([ADB, "start-server"], env=environment, check=True, capture_output=True)
    yield
    subprocess.run([ADB, "kill-server"], env=environment, check=True, capture_output=True)


@pytest.mark.usefixtures("adb_server")
def test_a_phone_that_the_adb_server_holds_too_is_noticed(phone: VirtualPhone) -> None:
    subprocess.run([str(ADB), "connect", phone.address], check=True, capture_output=True)
    assert by_item(check())["routes"] == Finding(
        item="routes",
        level=Level.WARN,
        value=f"serial EBVIRTUAL01 is also held by the adb server as {phone.address}",
        fix=f"use address server:{phone.address}, or end it there: adb disconnect {phone.address}",
    )
    write_device(f"server:{phone.address}")
    found = by_item(check())
    assert found["package"].value.startswith("adbutils ")
    assert found["adb program"].level is Level.OK
    assert found["routes"].value == "through the adb server, which other tools may use too"


def test_a_device_of_an_adb_server_that_does_not_run_is_told_and_none_is_started() -> None:
    write_device("server:ABC123")
    health = check()
    assert by_item(health)["connection"] == Finding(
        item="connection",
        level=Level.FAIL,
        value="no adb server runs here",
        fix="start it: adb start-server, then: edgebench devices check phone",
    )
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(os.environ["ANDROID_ADB_SERVER_PORT"])), timeout=1.0)


def test_an_unknown_device_is_no_finding() -> None:
    with pytest.raises(InputError, match="there is no device 'phone'"):
        check()


def test_an_error_is_parted_where_its_way_out_begins_and_never_without_one() -> None:
    whole = from_error("x", StageError("device 'p': a command failed: the device fell asleep"), "p")
    assert whole.value == "device 'p': a command failed: the device fell asleep"
    assert whole.fix == "mend it, then: edgebench devices check p"
    parted = from_error("x", MissingError("device 'p' has no sha256sum to prove files with; install it there"), "p")
    assert (parted.value, parted.fix) == ("device 'p' has no sha256sum to prove files with", "install it there")
