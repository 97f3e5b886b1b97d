"""Android devices over ADB: the virtual phone, straight by TCP and through a real adb server of our own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tiny_model

from edgebench.devices import adb_address, adb_shell_link
from edgebench.devices.adb import Adb
from edgebench.devices.virtual import Age, Faults, Profile, VirtualPhone
from edgebench.errors import ChildTimeoutError, ConfigError, InputError, MissingError, StageError
from edgebench.types import DeviceSpec, Origin

ADB = shutil.which("adb")


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    """No key of the user's, and none left behind."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EDGEBENCH_HOME", str(tmp_path / "cache"))
    (tmp_path / "home").mkdir()


@pytest.fixture(scope="module")
def adb_server(tmp_path_factory):
    """The port of a real adb server with a key folder of its own."""
    if ADB is None:
        pytest.skip("needs the adb program (package adb)")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    environment = os.environ | {"HOME": str(tmp_path_factory.mktemp("adb-home")), "ADB_MDNS": "0"}
    subprocess.run([ADB, "-P", port, "start-server"], env=environment, check=True, capture_output=True)
    yield port
    subprocess.run([ADB, "-P", port, "kill-server"], env=environment, check=True, capture_output=True)


@pytest.fixture(params=["direct", "server"])
def route(request, monkeypatch):
    """What comes before HOST:PORT in the address of a phone."""
    if request.param == "direct":
        return ""
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", request.getfixturevalue("adb_server"))
    return "server:"


@pytest.fixture
def phone(request):
    """A phone that lets everybody in; `parametrize` it indirectly for another Profile."""
    with VirtualPhone(getattr(request, "param", None), accepts_any_key=True) as running:
        yield running


def spec(phone, route=""):
    return DeviceSpec(name="phone", driver="adb", address=route + phone.address, python=sys.executable)


@pytest.fixture
def device(phone, route):
    opened = Adb(spec(phone, route))
    yield opened
    phone.inject(Faults())
    opened.close()


def shell(text):
    return ["sh", "-c", text]


def work_folder(phone):
    (folder,) = (phone.root / "data/local/tmp").glob("edgebench-*")
    return folder


def asked(phone, command):
    """What the phone's shell says over a connection of its own."""
    link = adb_shell_link.connect(adb_address.parse(phone.address, "phone"), "phone")
    try:
        return link.shell(command, 30).stdout.decode().strip()
    finally:
        link.close()


def has_ended(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


AGES = pytest.mark.parametrize("phone", [Profile(age=age) for age in Age], indirect=True, ids=list(Age))


@AGES
def test_a_command_gives_its_own_status_and_both_streams_apart(device):
    done = device.run(shell("echo out; echo err >&2; exit 7"), 30)
    assert (done.exit_code, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert device.run(shell("kill -SEGV $$"), 30).exit_code == -signal.SIGSEGV
    assert device.run(shell("printf x; exit 0"), 30).stdout == "x"


@AGES
def test_a_file_arrives_whole_under_any_name_and_comes_back(device, tmp_path):
    content = np.random.default_rng(0).bytes(2_500_000)
    (tmp_path / "local").write_bytes(content)
    device.push(tmp_path / "local", "a b/ü'$x,1.bin")
    device.pull("a b/ü'$x,1.bin", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content


def test_megabytes_on_both_streams_arrive(device):
    done = device.run(shell("head -c 5000000 /dev/zero >&2; head -c 3000000 /dev/zero"), 60)
    assert (done.exit_code, len(done.stdout), len(done.stderr)) == (0, 3_000_000, 5_000_000)


def test_an_executable_stays_one(device, tmp_path, phone):
    (tmp_path / "tool").write_text("#!/system/bin/sh\necho started\n")
    (tmp_path / "tool").chmod(0o755)
    device.push(tmp_path / "tool", "tool")
    assert device.run(["./tool"], 30).stdout == "started\n"
    assert (work_folder(phone) / "tool").stat().st_mode & 0o111


def test_a_model_is_put_there_run_and_measured(device, tmp_path):
    scores, measured = tiny_model.run_and_measure(device, tmp_path / "run")
    assert scores.shape[0] == 5
    assert 20 <= len(measured.latencies_ns) <= 30
    assert measured.before.temperature_c == 30
    assert device.origin is Origin.SIMULATED


def test_what_the_phone_is_and_how_it_is(phone):
    opened = Adb(spec(phone))
    found, now = opened.identity(), opened.conditions()
    opened.close()
    expected = {
        "model": "Virtual Phone",
        "manufacturer": "edgebench",
        "soc": "Virtual SoC",
        "os": "Android 14",
        "sdk": "34",
        "abi": "arm64-v8a",
        "cpus": "8",
        "memory_bytes": str(8 * 1024**3),
        "page_size_bytes": "4096",
        "stay_awake": "on",
        "fixed_performance_mode": "on",
    }
    assert expected.items() <= found.items()
    assert (now.temperature_c, now.thermal_status, now.governor) == (30.0, 0, "schedutil")
    assert now.cpu_clocks_mhz is not None
    assert len(now.cpu_clocks_mhz) == 8
    assert (now.battery_fraction, now.is_charging, now.is_screen_on, now.is_low_power) == (0.8, True, True, False)


STAY_ON = "settings get global stay_on_while_plugged_in"
FIXED = "dumpsys power | grep mFixedPerformance"


def test_settings_are_changed_while_it_is_open_and_put_back_by_close(phone, route):
    before = asked(phone, STAY_ON), asked(phone, FIXED)
    opened = Adb(spec(phone, route))
    assert (asked(phone, STAY_ON), asked(phone, FIXED)) == ("7", "mFixedPerformanceModeEnabled=true")
    opened.close()
    assert (asked(phone, STAY_ON), asked(phone, FIXED)) == before
    assert list((phone.root / "data/local/tmp").iterdir()) == []


@pytest.mark.parametrize("before", ["null", "3"])
def test_any_former_value_comes_back(phone, before):
    asked(phone, f"settings {'delete' if before == 'null' else 'put'} global stay_on_while_plugged_in {before}")
    opened = Adb(spec(phone))
    assert asked(phone, STAY_ON) == "7"
    opened.close()
    assert asked(phone, STAY_ON) == before


def start_client(phone, limit_s):
    """A process of ours whose command on the phone runs now, and that command's process there."""
    code = (
        "import sys\nfrom contextlib import closing\nfrom edgebench.devices.adb import Adb\n"
        "from edgebench.types import DeviceSpec\n"
        "with closing(Adb(DeviceSpec(name='phone', driver='adb', address=sys.argv[1]))) as device:\n"
        "    device.run(['sh', '-c', 'echo $$ >../pid; exec sleep 300'], float(sys.argv[2]))\n"
    )
    arguments = [sys.executable, "-c", code, phone.address, str(limit_s)]
    client = subprocess.Popen(arguments, stderr=subprocess.PIPE)
    pid = phone.root / "data/local/tmp/pid"
    deadline = time.monotonic() + 30
    while not (pid.exists() and pid.read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return client, int(pid.read_text())


def test_settings_and_folder_are_put_back_after_ctrl_c_too(phone):
    before = asked(phone, STAY_ON), asked(phone, FIXED)
    client, pid = start_client(phone, 300)
    client.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in client.communicate(timeout=60)[1]
    assert (asked(phone, STAY_ON), asked(phone, FIXED)) == before
    assert has_ended(pid)
    assert not list(phone.root.glob("data/local/tmp/edgebench-*"))


def test_the_phone_keeps_the_limit_of_a_client_that_was_killed(phone):
    client, pid = start_client(phone, 3)
    client.kill()
    client.communicate()
    assert not has_ended(pid)  # adbd leaves it running
    deadline = time.monotonic() + 20
    while not has_ended(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert has_ended(pid)


def test_a_setting_that_can_not_be_put_back_is_told_with_the_command(phone, monkeypatch):
    opened = Adb(spec(phone))
    phone.inject(Faults(is_offline=True))
    phone._cut_connections()
    monkeypatch.setattr(adb_shell_link, "_CONNECT_TIMEOUT_S", 0.5)
    with pytest.raises(StageError) as error:
        opened._settings.restore()
    assert "device 'phone': a setting could not be put back; do it by hand: adb shell cmd power" in str(error.value)
    assert "; adb shell settings " in str(error.value)


def test_nothing_of_a_command_outlives_its_limit(device, phone):
    with pytest.raises(ChildTimeoutError, match="'sh' on device 'phone' was ended after its limit of 1 s"):
        device.run(shell("echo $$ >p1; setsid sh -c 'echo $$ >p2; exec sleep 300' & sleep 300"), 1)
    pids = [int((work_folder(phone) / name).read_text()) for name in ("p1", "p2")]
    assert [has_ended(pid) for pid in pids] == [True, True]


def test_a_device_whose_timeout_does_nothing_is_watched_from_here(phone, monkeypatch):
    phone.inject(Faults(is_timeout_ignored=True))
    monkeypatch.setattr("edgebench.devices.remote_shell._GRACE_S", 2.0)
    opened = Adb(spec(phone))
    with pytest.raises(ChildTimeoutError, match="was ended after its limit of 1 s"):
        opened.run(shell("echo $$ >pid; exec sleep 300"), 1)
    assert has_ended(int((work_folder(phone) / "pid").read_text()))
    assert opened.run(["echo", "back"], 30).stdout == "back\n"
    opened.close()


def test_a_connection_that_drops_in_a_push_costs_that_push_only(device, phone, tmp_path):
    (tmp_path / "model").write_bytes(np.random.default_rng(0).bytes(3_000_000))
    phone.inject(Faults(drop_push_after_bytes=1_000_000))
    with pytest.raises(StageError, match="device 'phone': sending 'model' failed: "):
        device.push(tmp_path / "model", "model")
    if device.spec.address.startswith("server:"):
        asked_until_attached(device)
    device.push(tmp_path / "model", "model")
    assert (work_folder(phone) / "model").read_bytes() == (tmp_path / "model").read_bytes()


def asked_until_attached(device):
    """The adb server needs a moment to see that a device went away."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            device.run(["true"], 10)
            return
        except StageError:
            time.sleep(0.2)


def test_a_short_push_is_found_by_size(device, phone, tmp_path):
    (tmp_path / "model").write_bytes(b"x" * 1000)
    phone.inject(Faults(short_push_bytes=10))
    with pytest.raises(StageError) as error:
        device.push(tmp_path / "model", "model")
    assert str(error.value) == (
        "'model' did not arrive whole on device 'phone': 1,000 bytes were sent, it has 990 bytes there; "
        "check its free space and its cable"
    )


def test_a_full_disk_is_told_before_anything_is_sent(device, phone, tmp_path):
    (tmp_path / "model").write_bytes(b"x" * 5_000_000)
    phone.inject(Faults(disk_full_after_bytes=1_000_000))
    with pytest.raises(
        MissingError, match=r"device 'phone' has \d+,\d+ bytes free in /data/local/tmp/edgebench-\w+, 'mo"
    ):
        device.push(tmp_path / "model", "model")


def test_a_refusal_in_the_middle_of_a_push_is_told_at_once_in_the_phones_words(device, phone, tmp_path):
    (tmp_path / "model").write_bytes(np.random.default_rng(0).bytes(20_000_000))
    phone.inject(Faults(disk_full_after_bytes=3_000_000))
    started = time.monotonic()
    # Past our own look at the free space: something else may fill it meanwhile.
    with pytest.raises(
        StageError, match=r"sending 'model' failed: the (device refused it: .*[Nn]o space|connection was)"
    ):
        device._shell.push(tmp_path / "model", f"{device._folder}/model", 0o644)
    assert time.monotonic() - started < 10


def test_a_read_only_folder_is_told(device, phone, tmp_path):
    (tmp_path / "model").write_bytes(b"x" * 5_000_000)
    phone.inject(Faults(is_read_only=True))
    with pytest.raises(StageError, match="device 'phone'"):
        device.push(tmp_path / "model", "model")


def test_a_program_that_may_not_run_is_told(device, phone, tmp_path):
    phone.inject(Faults(is_exec_denied=True))
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    device.push(tmp_path / "tool", "tool")
    with pytest.raises(MissingError, match=r"device 'phone' can't start './tool': it may not be executed there"):
        device.run(["./tool"], 30)


def test_an_answer_without_its_exit_status_is_no_result(device, phone):
    phone.inject(Faults(is_exit_code_lost=True))
    with pytest.raises(StageError, match=r"device 'phone': a command failed: .*(cut|exit status)"):
        device.run(["echo", "fine"], 30)


def test_a_phone_that_goes_away_in_a_command_costs_that_command_only(phone):
    opened = Adb(spec(phone))
    folder = work_folder(phone)

    def cut():
        while not (folder / "pid").exists():
            time.sleep(0.01)
        phone._cut_connections()

    threading.Thread(target=cut).start()
    with pytest.raises(StageError, match="device 'phone': a command failed: the device closed the connection"):
        opened.run(shell("echo $$ >pid; exec sleep 300"), 60)
    assert opened.run(["echo", "back"], 30).stdout == "back\n"
    assert has_ended(int((folder / "pid").read_text()))  # adbd leaves it running; the new connection ends it
    opened.close()


def test_an_unauthorized_phone_says_to_look_at_its_screen(phone, route):
    phone.inject(Faults(is_unauthorized=True))
    with pytest.raises(MissingError) as error:
        Adb(spec(phone, route))
    assert "unauthorized: accept the dialog on its screen, then: edgebench devices check phone" in str(error.value)


def test_a_phone_that_knows_our_key_lets_us_in(tmp_path):
    from adb_shell.auth.keygen import keygen

    (tmp_path / "home" / ".android").mkdir()
    keygen(str(tmp_path / "home" / ".android" / "adbkey"))
    with VirtualPhone(authorized_keys=[tmp_path / "home" / ".android" / "adbkey.pub"]) as phone:
        opened = Adb(spec(phone))
        assert opened.run(["true"], 30).exit_code == 0
        opened.close()
    assert not (tmp_path / "cache").exists()


def test_our_own_key_is_made_once_for_our_eyes_only(phone, tmp_path):
    Adb(spec(phone)).close()
    key = tmp_path / "cache" / "adb" / "adbkey"
    made = key.read_bytes()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    Adb(spec(phone)).close()
    assert key.read_bytes() == made
    key.write_text("no key")
    with pytest.raises(ConfigError, match=r"the adb key .*adbkey can't be used \(.*\); move it away to get a new one"):
        Adb(spec(phone))


def test_an_offline_phone_is_one_line(phone, monkeypatch):
    phone.inject(Faults(is_offline=True))
    monkeypatch.setattr(adb_shell_link, "_CONNECT_TIMEOUT_S", 1.0)
    with pytest.raises(MissingError, match=r"device 'phone' at 127.0.0.1:\d+ does not answer \(offline\): check that"):
        Adb(spec(phone))


@pytest.fixture
def answering():
    """Makes a port whose one client gets these bytes for its first packet."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(data):
        def serve():
            client, _ = listener.accept()
            client.recv(4096)
            client.sendall(data)
            client.close()

        threading.Thread(target=serve, daemon=True).start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield answer
    listener.close()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack("<4s5I", b"STLS", 0x01000000, 0, 0, 0, 0xACB3ABAC), r"wants TLS \(wireless debugging\): pair it"),
        (struct.pack("<4s5I", b"CNXN", 1, 4096, 9, 937, 0) + b"recovery:", "is in state 'recovery', not 'device'"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "answered in a way that can't be used"),
        (b"", "closed the connection: check its cable"),
    ],
    ids=["tls", "recovery", "no-adb", "nothing"],
)
def test_what_is_no_ready_phone_is_told_in_one_line(answering, data, message):
    with pytest.raises(MissingError, match=message) as error:
        Adb(DeviceSpec(name="phone", driver="adb", address=answering(data)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "device 'phone' at 127.0.0.1:1 refuses connections: switch on its debugging over the network"),
        ("usb:NONE", "device 'phone' at USB device NONE is not attached: check its cable"),
        ("no-such-host.invalid:5555", "device 'phone' at no-such-host.invalid:5555 can't be found: its host name"),
    ],
)
def test_a_phone_out_of_reach_is_one_line(address, message):
    with pytest.raises(MissingError) as error:
        Adb(DeviceSpec(name="phone", driver="adb", address=address))
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def attached(port):
    lines = subprocess.run([ADB, "-P", port, "devices"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split("\t")[0] for line in lines if "\t" in line]


def attach(port, phone):
    subprocess.run([ADB, "-P", port, "connect", phone.address], capture_output=True, check=True)


@pytest.fixture
def nothing_attached(adb_server, monkeypatch):
    """The port of the adb server, which has no device."""
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", adb_server)
    for serial in attached(adb_server):
        subprocess.run([ADB, "-P", adb_server, "disconnect", serial], capture_output=True, check=False)
    if attached(adb_server):
        pytest.skip("an Android device is attached to this machine")
    return adb_server


ONLY = DeviceSpec(name="phone", driver="adb")


def test_without_an_address_the_only_attached_phone_is_taken_and_kept(nothing_attached, phone):
    with pytest.raises(MissingError, match="device 'phone': no Android device is attached: plug it in"):
        Adb(ONLY)
    attach(nothing_attached, phone)
    opened = Adb(ONLY)
    folder = work_folder(phone)
    with VirtualPhone(accepts_any_key=True) as other:
        attach(nothing_attached, other)
        opened._shell.close()
        assert opened.run(["pwd"], 30).stdout.strip() == str(folder)
    opened.close()
    assert not folder.exists()


def test_two_phones_without_a_choice_are_listed(nothing_attached, phone):
    with VirtualPhone(accepts_any_key=True) as other:
        attach(nothing_attached, phone)
        attach(nothing_attached, other)
        with pytest.raises(InputError) as error:
            Adb(ONLY)
        first, second = sorted([phone.address, other.address])
    assert str(error.value) == (
        f"device 'phone': 2 Android devices are attached ({first}, {second}); say which one in devices/phone.yaml, "
        f"such as `address: server:{first}`"
    )


def test_a_serial_that_the_server_does_not_have_lists_what_it_has(adb_server, monkeypatch):
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", adb_server)
    with pytest.raises(
        MissingError, match=r"device 'phone': no Android device has serial 'ABC' \(.*attached.*\); check"
    ):
        Adb(DeviceSpec(name="phone", driver="adb", address="server:ABC"))


@pytest.mark.parametrize("address", ["ABC123", "usb:", "server: x", "host:", "host:0", "host:70000", ":5555", ""])
def test_an_address_of_no_form_is_refused(address):
    with pytest.raises(ConfigError, match="device 'phone': address '"):
        adb_address.parse(address, "phone")


def test_addresses_are_taken_apart():
    assert adb_address.parse("[::1]:5555", "x").host == "::1"
    assert adb_address.parse("server:192.168.0.7:5555", "x").serial == "192.168.0.7:5555"
    assert adb_address.parse("usb:ABC", "x").route is adb_address.Route.USB
    assert adb_address.parse(None, "x") == adb_address.AdbAddress(route=adb_address.Route.SERVER)
