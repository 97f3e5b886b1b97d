"""The phone's life: start, stop, standing alone, its profile, and packets that are wrong."""

from __future__ import annotations

import contextlib
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from virtual_clients import Client, is_running

from edgebench.devices.virtual import Age, Profile, VirtualPhone
from edgebench.devices.virtual.profile import load_profile
from edgebench.errors import ConfigError, InputError

CNXN, AUTH = 0x4E584E43, 0x48545541


def packet(command, arg0, arg1, payload=b"", total=None):
    total = sum(payload) if total is None else total
    return struct.pack("<6I", command, arg0, arg1, len(payload), total, command ^ 0xFFFFFFFF) + payload


def link(phone):
    host, _, port = phone.address.partition(":")
    return socket.create_connection((host, int(port)), timeout=5)


def test_a_phone_asks_for_a_key_first_and_listens_on_loopback_only(phone):
    assert phone.address.startswith("127.0.0.1:")
    with link(phone) as client:
        client.sendall(packet(CNXN, 0x01000001, 4096, b"host::\0"))
        command, kind, _, length, _, _ = struct.unpack("<6I", client.recv(24, socket.MSG_WAITALL))
        assert (command, kind, length) == (AUTH, 1, 20)


@pytest.mark.parametrize(
    "wrong",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        struct.pack("<6I", CNXN, 0, 0, 1 << 30, 0, CNXN ^ 0xFFFFFFFF),
    ],
    ids=["no-adb", "too-long"],
)
def test_what_is_no_adb_ends_the_connection_and_the_phone_lives_on(phone, connect, wrong):
    with link(phone) as client:
        client.sendall(wrong)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
    assert connect(phone).shell("exit 4")[0] == 4


def test_nothing_is_opened_before_the_key_was_checked(phone):
    with link(phone) as client:
        client.settimeout(0.3)
        client.sendall(packet(0x4E45504F, 1, 0, b"shell:touch /data/local/tmp/in\0"))
        with pytest.raises(TimeoutError):
            client.recv(1)
    assert not (phone.root / "data/local/tmp/in").exists()


def test_the_ages_differ_in_version_payload_and_features():
    assert [(age.version & 1, age.max_payload) for age in Age] == [(0, 4096), (0, 262144), (1, 1048576)]
    assert b"features" not in Profile(age=Age.OLD).banner
    assert Profile(age=Age.NEW).banner.endswith(b";features=shell_v2,cmd,stat_v2,ls_v2,fixed_push_mkdir")


def test_stopping_ends_what_clients_started_even_in_another_session(tmp_path, key):
    phone = VirtualPhone(root=tmp_path / "phone", authorized_keys=[Path(f"{key}.pub")])
    phone.start()
    client = Client(phone.address, key)
    pid = int(client.shell("setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $!")[1])
    assert is_running(pid)
    phone.stop()
    assert not is_running(pid)
    with pytest.raises(InputError, match="is not started"):
        _ = phone.address
    client.close()


def test_a_phone_without_a_root_leaves_nothing_behind():
    with VirtualPhone() as phone:
        root = phone.root
        assert (root / "data/local/tmp").is_dir()
    assert not root.exists()


def test_a_taken_port_is_one_line(phone):
    with pytest.raises(InputError, match=r"can't listen on 127\.0\.0\.1:\d+: .*in use"):
        VirtualPhone(port=int(phone.address.partition(":")[2])).start()


def test_the_shipped_profile_is_readable_and_a_wrong_one_says_where(tmp_path):
    assert load_profile("pixel-like").cpu_max_khz[-1] == 2_914_000
    (tmp_path / "odd.yaml").write_text("model: x\ncpu_max_kHz: [1]\n")
    with pytest.raises(ConfigError, match="did you mean 'cpu_max_khz'"):
        load_profile(str(tmp_path / "odd.yaml"))
    with pytest.raises(ConfigError, match="there is no phone profile 'nothing'; shipped: pixel-like"):
        load_profile("nothing")


START = [sys.executable, "-m", "edgebench", "devices", "virtual", "start"]


def test_a_phone_stands_alone_prints_its_address_and_ends_on_sigterm(tmp_path, key):
    argv = [*START, "--authorized-key", f"{key}.pub"]
    process = subprocess.Popen([*argv, "--root", str(tmp_path / "alone")], stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().strip()
        client = Client(address, key)
        pid = int(client.shell("sleep 1000 >/dev/null 2>&1 </dev/null & echo $!")[1])
        assert client.shell("getprop ro.product.model")[1] == "Virtual Pixel-like\n"
        client.close()
    finally:
        process.send_signal(signal.SIGTERM)
    with process:
        assert process.wait(10) == 0
    assert not is_running(pid)


def test_a_wrong_word_on_the_command_line_is_one_line():
    argv = [*START, "--fault", "is_ofline"]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "did you mean 'is_offline'" in done.stderr
