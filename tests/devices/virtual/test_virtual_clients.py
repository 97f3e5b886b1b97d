"""Three clients that people use, unchanged, against the virtual phone over real sockets."""

from __future__ import annotations

import os
import stat

import pytest

SOME = os.urandom(3_000_003)


@pytest.fixture
def serial(adb, phone):
    assert b"connected to" in adb("connect", phone.address).stdout
    yield phone.address
    adb("disconnect", phone.address)


def test_the_adb_command_sees_the_phone_and_keeps_outputs_and_status_apart(adb, serial):
    assert f"{serial}\tdevice".encode() in adb("devices").stdout
    done = adb("-s", serial, "shell", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_the_adb_command_passes_stdin_and_binary_output(adb, serial):
    done = adb("-s", serial, "shell", "cat", input=SOME)
    assert done.stdout == SOME
    assert adb("-s", serial, "exec-out", "printf '\\0\\n\\r'").stdout == b"\0\n\r"


def test_the_adb_command_pushes_lists_and_pulls_files_and_folders(adb, serial, tmp_path):
    folder = tmp_path / "kit"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib/some.bin").write_bytes(SOME)
    (folder / "empty").touch()
    assert adb("-s", serial, "push", str(folder), "/data/local/tmp/").returncode == 0
    assert adb("-s", serial, "shell", "ls /data/local/tmp/kit").stdout.split() == [b"empty", b"lib"]
    assert adb("-s", serial, "pull", "/data/local/tmp/kit", str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back/lib/some.bin").read_bytes() == SOME
    assert (tmp_path / "back/empty").read_bytes() == b""


@pytest.mark.parametrize("age", ["old", "mid", "new"])
def test_the_adb_command_works_with_a_daemon_of_any_age(adb, phone_of_age, age, tmp_path):
    serial = phone_of_age(age).address
    adb("connect", serial)
    (tmp_path / "some.bin").write_bytes(SOME)
    assert adb("-s", serial, "push", str(tmp_path / "some.bin"), "/data/local/tmp/some.bin").returncode == 0
    assert adb("-s", serial, "pull", "/data/local/tmp/some.bin", str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back").read_bytes() == SOME
    done = adb("-s", serial, "shell", "exit 7")
    assert done.returncode == (0 if age == "old" else 7)  # the old shell has no status
    adb("disconnect", serial)


def test_the_adb_command_is_told_why_a_push_failed(adb, serial, tmp_path):
    (tmp_path / "some.bin").write_bytes(SOME)
    done = adb("-s", serial, "push", str(tmp_path / "some.bin"), "/system/some.bin")
    assert done.returncode == 1
    assert b"Read-only file system" in done.stdout + done.stderr


def test_the_adb_command_can_not_forward_in_reverse_or_reboot(adb, serial):
    assert (
        b"reverse forwarding is not part of the virtual phone" in adb("-s", serial, "reverse", "tcp:1", "tcp:2").stderr
    )
    assert adb("-s", serial, "reboot").returncode != 0
    assert adb("-s", serial, "shell", "echo still there").stdout == b"still there\n"


def test_adbutils_runs_commands_and_moves_files(adb, serial, tmp_path):
    adbutils = pytest.importorskip("adbutils")
    device = adbutils.AdbClient(host="127.0.0.1", port=adb.port).device(serial)
    done = device.shell2("echo out; echo err >&2; exit 7", v2=True)
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert device.sync.push(SOME, "/data/local/tmp/some.bin", check=True) == len(SOME)
    assert device.sync.read_bytes("/data/local/tmp/some.bin") == SOME
    assert device.getprop("ro.product.model") == "Virtual Phone"


@pytest.mark.parametrize("age", ["mid", "new"])
def test_adb_shell_runs_commands_and_moves_files(phone_of_age, connect, age, tmp_path):
    phone = phone_of_age(age)
    client = connect(phone)
    assert client.shell("echo out; echo err >&2; exit 7") == (7, "out\n", "err\n")
    (tmp_path / "some.bin").write_bytes(SOME)
    client.device.push(
        str(tmp_path / "some.bin"), "/data/local/tmp/deep/some.bin", st_mode=0o100755, mtime=1_700_000_000
    )
    mode, size, mtime = client.device.stat("/data/local/tmp/deep/some.bin")
    # The daemon gives group and others what the owner has.
    assert (stat.S_IMODE(mode), size, mtime) == (0o777, len(SOME), 1_700_000_000)
    client.device.pull("/data/local/tmp/deep/some.bin", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == SOME
    names = [bytes(entry.filename) for entry in client.device.list("/data/local/tmp/deep")]
    assert names == [b".", b"..", b"some.bin"]


def test_adb_shell_gets_the_plain_shell_of_an_old_daemon(phone_of_age, connect):
    client = connect(phone_of_age("old"))
    assert client.device.shell("echo out; echo err >&2") == "out\nerr\n"


def test_adb_shell_may_speak_on_several_streams_at_once(phone, connect):
    client = connect(phone)
    lines = client.device.streaming_shell("echo one; sleep 0.2; echo two")
    first = next(lines)
    assert client.shell("echo between")[1] == "between\n"
    assert (first, "".join(lines)) == ("one\n", "two\n")


def test_input_that_nobody_reads_does_not_hold_the_command_up(adb, serial):
    assert adb("-s", serial, "shell", "exec 0<&-; exit 5", input=SOME).returncode == 5
