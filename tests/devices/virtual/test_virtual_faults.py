"""Each fault of the virtual phone as a client sees it."""

from __future__ import annotations

import os
import socket
import struct
import time
from pathlib import Path

import pytest
from adb_shell import exceptions
from virtual_clients import Client, is_running

from edgebench.devices.virtual import Faults, Profile, VirtualPhone
from edgebench.devices.virtual.faults import parse_faults
from edgebench.errors import ConfigError

SOME = os.urandom(2_000_000)
TARGET = "/data/local/tmp/some.bin"


@pytest.fixture
def some(tmp_path):
    path = tmp_path / "some.bin"
    path.write_bytes(SOME)
    return path


@pytest.fixture
def serial(adb, phone):
    adb("connect", phone.address)
    yield phone.address
    adb("disconnect", phone.address)


def push(adb, serial, path, target=TARGET):
    done = adb("-s", serial, "push", str(path), target)
    return done.returncode, (done.stdout + done.stderr).decode()


def test_a_dropped_push_fails_once_and_the_next_one_arrives(adb, phone, serial, some):
    phone.inject(Faults(drop_push_after_bytes=1_000_000))
    assert push(adb, serial, some)[0] == 1
    assert not (phone.root / TARGET[1:]).exists()
    adb("disconnect", serial)
    adb("connect", serial)
    assert push(adb, serial, some)[0] == 0
    assert (phone.root / TARGET[1:]).read_bytes() == SOME


def test_a_short_push_says_yes_and_stores_less(adb, phone, serial, some):
    phone.inject(Faults(short_push_bytes=1))
    assert push(adb, serial, some)[0] == 0
    assert (phone.root / TARGET[1:]).read_bytes() == SOME[:-1]


def test_a_full_disk_fails_the_push_with_its_reason_and_leaves_no_part_of_it(adb, phone, serial, some):
    phone.inject(Faults(disk_full_after_bytes=1_000_000))
    status, text = push(adb, serial, some)
    assert (status, "No space left on device" in text) == (1, True)
    assert not (phone.root / TARGET[1:]).exists()
    assert b" 976 " in adb("-s", serial, "shell", "df /data").stdout
    phone.inject(Faults())
    assert push(adb, serial, some)[0] == 0


def test_a_failing_send_is_answered_before_its_end(phone, connect):
    phone.inject(Faults(disk_full_after_bytes=10))
    device = connect(phone).device
    info = device._open(b"sync:", 5, 5, None)
    path = f"{TARGET},33188".encode()
    device._io_manager.send(
        message(b"WRTE", info, b"SEND" + struct.pack("<I", len(path)) + path + data(b"x" * 11)), info
    )
    seen = b""
    while b"FAIL" not in seen:
        seen += bytes(device._io_manager.read([b"OKAY", b"WRTE"], info)[3])
    assert seen.endswith(b"write failed: No space left on device")


def message(command, info, payload):
    from adb_shell.adb_message import AdbMessage

    return AdbMessage(command, info.local_id, info.remote_id, payload)


def data(content):
    return b"DATA" + struct.pack("<I", len(content)) + content


@pytest.mark.parametrize(
    ("target", "faults", "reason"),
    [
        (TARGET, Faults(is_read_only=True), "Read-only file system"),
        ("/vendor/x", Faults(), "Read-only file system"),
        ("/data/x", Faults(), "Permission denied"),
        ("/data/local/tmp/../../../x", Faults(), "Permission denied"),
        ("/data/local/tmp/out/x", Faults(), "Permission denied"),
    ],
)
def test_a_push_to_where_nothing_may_be_written_says_so(adb, phone, serial, some, target, faults, reason):
    (phone.root / "data/local/tmp/out").symlink_to(some.parent)
    phone.inject(faults)
    status, text = push(adb, serial, some, target)
    assert (status, reason in text) == (1, True), text
    assert not (some.parent / "x").exists()


def test_no_pull_or_listing_leaves_the_root(adb, phone, serial, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (phone.root / "data/local/tmp/out").symlink_to(tmp_path)
    for path in ("/data/local/tmp/out/secret", "/data/local/tmp/../../../../secret"):
        assert adb("-s", serial, "pull", path, str(tmp_path / "got")).returncode == 1
    assert not (tmp_path / "got").exists()


def test_an_unknown_key_gets_no_answer_until_somebody_taps(phone, tmp_path):
    from adb_shell.auth.keygen import keygen

    keygen(str(tmp_path / "stranger"))
    with pytest.raises(exceptions.TcpTimeoutException):
        Client(phone.address, tmp_path / "stranger", auth_timeout_s=0.3)
    with VirtualPhone(Profile(), tmp_path / "open", accepts_any_key=True) as trusting:
        client = Client(trusting.address, tmp_path / "stranger")
        assert client.shell("exit 3")[0] == 3
        client.close()


def test_the_adb_command_calls_an_unauthorized_phone_so(adb, phone, serial):
    phone.inject(Faults(is_unauthorized=True))
    adb("disconnect", serial)
    adb("connect", serial)
    assert f"{serial}\tunauthorized".encode() in adb("devices").stdout


def test_an_offline_phone_takes_the_connection_and_says_nothing(phone):
    phone.inject(Faults(is_offline=True))
    host, _, port = phone.address.partition(":")
    with socket.create_connection((host, int(port)), timeout=0.3) as link:
        link.sendall(struct.pack("<6I", 0x4E584E43, 0x01000001, 4096, 0, 0, 0x4E584E43 ^ 0xFFFFFFFF))
        with pytest.raises(TimeoutError):
            link.recv(1)


def test_a_slow_link_takes_its_time(phone, connect, some):
    client = connect(phone)
    phone.inject(Faults(link_bytes_per_s=4_000_000))
    started = time.monotonic()
    client.device.push(str(some), TARGET)
    assert time.monotonic() - started > 0.4
    assert (phone.root / TARGET[1:]).read_bytes() == SOME


def test_where_exec_is_denied_nothing_pushed_can_be_run(phone, connect, tmp_path):
    client = connect(phone)
    (tmp_path / "probe").write_text("#!/bin/sh\necho ran\n")
    client.device.push(str(tmp_path / "probe"), "/data/local/tmp/probe", st_mode=0o100755)
    assert client.shell("/data/local/tmp/probe")[:2] == (0, "ran\n")
    phone.inject(Faults(is_exec_denied=True))
    status, _, error = client.shell("chmod 755 /data/local/tmp/probe")
    assert (status, "Permission denied" in error) == (1, True)
    for command in ("/data/local/tmp/probe", "timeout 5 /data/local/tmp/probe"):
        status, _, error = client.shell(command)
        assert (status, "Permission denied" in error) == (126, True), command


def test_shared_storage_is_noexec(phone, connect, tmp_path):
    client = connect(phone)
    (tmp_path / "probe").write_text("#!/bin/sh\necho ran\n")
    client.device.push(str(tmp_path / "probe"), "/sdcard/probe", st_mode=0o100755)
    assert client.shell("/sdcard/probe")[0] == 126


def test_a_lost_exit_code_leaves_the_outputs(phone, connect):
    phone.inject(Faults(is_exit_code_lost=True))
    assert connect(phone).shell("echo out; exit 7") == (None, "out\n", "")


def wait_for(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("is_timeout_ignored", [False, True])
def test_a_process_outlives_its_client_until_its_limit_or_the_phones_end(tmp_path, key, is_timeout_ignored):
    keys = [Path(f"{key}.pub")]
    faults = Faults(is_timeout_ignored=is_timeout_ignored)
    with VirtualPhone(Profile(), tmp_path / "phone", faults, authorized_keys=keys) as phone:
        client = Client(phone.address, key)
        lines = client.device.streaming_shell("timeout 1 sh -c 'echo $$; while :; do sleep 0.05; echo x; done'")
        pid = int("".join(lines.__next__()).split()[0])
        client.close()
        started = time.monotonic()
        while time.monotonic() - started < 0.3:
            assert is_running(pid)
            time.sleep(0.05)
        if is_timeout_ignored:
            while time.monotonic() - started < 1.5:
                assert is_running(pid)
                time.sleep(0.05)
        else:
            wait_for(lambda: not is_running(pid))
    assert not is_running(pid)


def test_faults_are_said_in_words():
    faults = parse_faults(["is_read_only", "link_bytes_per_s=1000", "thermal_rise={status: 3, temperature_c: 45}"])
    assert (faults.is_read_only, faults.link_bytes_per_s) == (True, 1000.0)
    assert faults.thermal_rise is not None
    assert faults.thermal_rise.status == 3


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("is_ofline", "unknown key 'is_ofline'; did you mean 'is_offline'?"),
        ("link_bytes_per_s=0", "link_bytes_per_s must be more than 0"),
        ("thermal_rise={status: 9, temperature_c: 1}", "a thermal status is 0 (none) to 6 (shutdown), not 9"),
    ],
)
def test_a_wrong_fault_says_what_would_be_right(word, text):
    with pytest.raises(ConfigError) as caught:
        parse_faults([word])
    assert text in str(caught.value)
