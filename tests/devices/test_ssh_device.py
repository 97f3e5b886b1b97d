"""A machine over SSH: this one, behind a real sshd on a free port."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import ssh_server
import tiny_model

from edgebench.devices import ssh_address
from edgebench.devices.host import Host
from edgebench.devices.ssh import Ssh
from edgebench.errors import ChildTimeoutError, ConfigError, InputError, MissingError, StageError
from edgebench.types import DeviceSpec, Origin


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = ssh_server.start(tmp_path_factory.mktemp("sshd"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(running.home))
        patch.delenv("SSH_AUTH_SOCK", raising=False)
        yield running
    running.stop()


def board(server, **more):
    return DeviceSpec(name="board", driver="ssh", address=server.address, python=sys.executable, **more)


@pytest.fixture(scope="module")
def shared(server):
    device = Ssh(board(server))
    yield device
    device.close()


@pytest.fixture
def device(server, tmp_path):
    opened = Ssh(board(server, folder=str(tmp_path)))
    yield opened
    opened.close()


def shell(text):
    return ["sh", "-c", text]


def has_ended(pid):
    """Whether the process is gone, or a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_command_gives_its_own_status_and_both_streams_apart(shared):
    done = shared.run(shell("echo out; echo err >&2; exit 7"), 30)
    assert (done.exit_code, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert shared.origin is Origin.MEASURED


def test_death_by_a_signal_is_negative(shared):
    assert shared.run(shell("kill -SEGV $$"), 30).exit_code == -signal.SIGSEGV


def test_megabytes_on_both_streams_do_not_block_each_other(shared):
    done = shared.run(shell("head -c 5000000 /dev/zero >&2; head -c 3000000 /dev/zero"), 60)
    assert (done.exit_code, len(done.stdout), len(done.stderr)) == (0, 3_000_000, 5_000_000)


def test_arguments_reach_the_program_as_they_are(shared):
    words = ["$HOME `id`", "a'b\"c", "*", "", "ü\\n", "-x"]
    program = "import sys, json; print(json.dumps(sys.argv[1:]))"
    done = shared.run([sys.executable, "-c", program, *words], 30)
    assert done.stdout.strip() == json.dumps(words)


def test_a_program_that_is_not_there_is_missing(shared):
    with pytest.raises(MissingError, match=r"device 'board' can't start 'no-such-tool': it is not there \("):
        shared.run(["no-such-tool"], 30)


@pytest.mark.parametrize("has_timeout", [True, False], ids=["timeout", "watchdog"])
def test_nothing_of_a_command_outlives_its_limit(device, tmp_path, has_timeout):
    device._shell._has_timeout = has_timeout
    started = time.monotonic()
    # One child of its own group, one that left its session, both with the output open.
    text = "echo $$ >p1; sleep 300 & echo $! >p2; setsid sh -c 'echo $$ >p3; exec sleep 300' & sleep 300"
    with pytest.raises(ChildTimeoutError) as error:
        device.run(shell(text), 1)
    assert str(error.value) == "'sh' on device 'board' was ended after its limit of 1 s"
    assert time.monotonic() - started < 15
    folder = next(tmp_path.glob("edgebench-*"))
    pids = [int((folder / name).read_text()) for name in ("p1", "p2", "p3")]
    assert [has_ended(pid) for pid in pids] == [True] * 3


def test_without_timeout_a_command_keeps_its_status_and_its_speed(device):
    device._shell._has_timeout = False
    done = device.run(shell("echo out; exit 9"), 300)
    assert (done.exit_code, done.stdout) == (9, "out\n")
    assert device.run(shell("kill -9 $$"), 300).exit_code == -9
    assert done.seconds < 5


def test_a_file_of_any_name_arrives_whole_and_comes_back(shared, tmp_path):
    content = np.random.default_rng(0).bytes(1_000_000)
    (tmp_path / "local").write_bytes(content)
    shared.push(tmp_path / "local", "a b/ü'$x.bin")
    shared.pull("a b/ü'$x.bin", tmp_path / "new" / "back")
    assert (tmp_path / "new" / "back").read_bytes() == content


def test_a_file_that_is_there_already_is_not_sent_again(device, tmp_path):
    (tmp_path / "local").write_bytes(b"x" * 1000)
    device.push(tmp_path / "local", "x")
    remote = next(tmp_path.glob("edgebench-*")) / "x"
    before = remote.stat().st_mtime_ns
    device.push(tmp_path / "local", "x")
    assert remote.stat().st_mtime_ns == before
    (tmp_path / "local").write_bytes(b"y" * 1000)
    device.push(tmp_path / "local", "x")
    assert remote.read_bytes() == b"y" * 1000


def test_an_executable_stays_one_and_other_files_do_not_become_one(device, tmp_path):
    for name, mode in (("run", 0o755), ("data", 0o644)):
        (tmp_path / name).write_text("#!/bin/sh\necho started\n")
        (tmp_path / name).chmod(mode)
        device.push(tmp_path / name, name)
    assert device.run(["./run"], 30).stdout == "started\n"
    with pytest.raises(MissingError, match=r"can't start './data': it may not be executed there"):
        device.run(["./data"], 30)


@pytest.mark.parametrize("remote", ["../x", "/etc/x", "a/../../x", "", "."])
def test_a_path_outside_the_work_folder_is_refused(shared, tmp_path, remote):
    (tmp_path / "x").write_text("x")
    with pytest.raises(InputError, match="is not a path inside the work folder of device 'board'"):
        shared.push(tmp_path / "x", remote)


def test_a_file_that_is_not_there_is_told(shared, tmp_path):
    with pytest.raises(StageError, match="device 'board' has no file 'gone' to fetch"):
        shared.pull("gone", tmp_path / "gone")
    with pytest.raises(InputError, match="it is not a file"):
        shared.push(tmp_path, "x")


def test_a_folder_that_is_a_file_there_is_told(shared, tmp_path):
    (tmp_path / "x").write_text("x")
    shared.push(tmp_path / "x", "file")
    with pytest.raises(StageError, match=r"'file/x' can't be written on device 'board': .*"):
        shared.push(tmp_path / "x", "file/x")


def test_the_work_folder_is_gone_after_close(server, tmp_path):
    device = Ssh(board(server, folder=str(tmp_path)))
    assert [path.stat().st_mode & 0o777 for path in tmp_path.glob("edgebench-*")] == [0o700]
    device.close()
    device.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_told_with_the_way_out(server):
    with pytest.raises(MissingError, match=r"no work folder could be made in /no/where \(.*\); name another `folder:`"):
        Ssh(board(server, folder="/no/where"))


def test_a_broken_connection_costs_one_command_and_leaves_nothing_running(device, tmp_path):
    folder = next(tmp_path.glob("edgebench-*"))

    def cut():
        while not (folder / "pid").exists():
            time.sleep(0.01)
        device._shell._link._transport.sock.close()

    threading.Thread(target=cut).start()
    with pytest.raises(
        StageError, match=r"device 'board': a command failed: the (connection|answer) was cut before its"
    ):
        device.run(shell("echo $$ >pid; exec sleep 300"), 60)
    assert device.run(shell("echo back"), 30).stdout == "back\n"
    assert has_ended(int((folder / "pid").read_text()))


def test_ctrl_c_ends_what_runs_and_close_still_cleans_up(server, tmp_path):
    code = (
        "import sys\nfrom contextlib import closing\nfrom edgebench.devices.ssh import Ssh\n"
        "from edgebench.types import DeviceSpec\n"
        "spec = DeviceSpec(name='board', driver='ssh', address=sys.argv[1], folder=sys.argv[2])\n"
        "with closing(Ssh(spec)) as device:\n"
        "    device.run(['sh', '-c', 'echo $$ >../pid; exec sleep 300'], 300)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, server.address, str(tmp_path)], stderr=subprocess.PIPE)
    pid = tmp_path / "pid"
    deadline = time.monotonic() + 30
    while not (pid.exists() and pid.read_text()) and time.monotonic() < deadline:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in child.communicate(timeout=60)[1]
    assert has_ended(int(pid.read_text()))
    assert list(tmp_path.glob("edgebench-*")) == []


def test_the_machine_says_what_it_is_and_how_it_is(shared):
    found = shared.identity()
    assert found["kernel"] == os.uname().release
    assert found["abi"] == os.uname().machine
    assert int(found["memory_bytes"]) > 1e8
    now = shared.conditions()
    assert now.load_1min is not None
    assert now.free_memory_bytes is not None
    assert sorted(shared.cpus()) == sorted(os.sched_getaffinity(0))


def test_a_python_without_the_runtime_is_told_with_what_to_do(server):
    device = Ssh(DeviceSpec(name="board", driver="ssh", address=server.address, python="/usr/bin/no-python"))
    with pytest.raises(MissingError) as error:
        device.runtime_command("litert")
    device.close()
    assert str(error.value) == (
        "device 'board' has no Python with litert (/usr/bin/no-python: not there); install it there with "
        "pip install ai-edge-litert numpy, or name one that has it as `python:` in devices/board.yaml"
    )
    with pytest.raises(InputError, match="there is no runtime 'lite-rt'; did you mean 'litert'"):
        device.runtime_command("lite-rt")


def stand_in(folder, text):
    """A program in the place of a Python."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_python_that_breaks_is_told_with_its_last_words(server, tmp_path):
    python = stand_in(tmp_path, "echo 'Traceback:' >&2; echo 'ImportError: libgomp.so.1' >&2; exit 1")
    device = Ssh(DeviceSpec(name="board", driver="ssh", address=server.address, python=python))
    with pytest.raises(
        MissingError, match=r"no Python with onnxruntime \(/.*/python: ImportError: libgomp.so.1\); inst"
    ):
        device.runtime_command("onnxruntime")
    device.close()


def test_the_proof_of_tflite_runtime_gets_a_model_to_run(server, tmp_path):
    python = stand_in(tmp_path, "head -c 8 | tail -c 4 | grep -q TFL3 && echo edgebench can run here")
    device = Ssh(DeviceSpec(name="board", driver="ssh", address=server.address, python=python))
    assert device.runtime_command("tflite-runtime") == (python,)
    device.close()


def test_a_model_is_put_there_run_and_measured(shared, tmp_path):
    scores, measured = tiny_model.run_and_measure(shared, tmp_path / "run")
    host = Host(DeviceSpec(name="host", driver="host"))
    here, _ = tiny_model.run_and_measure(host, tmp_path / "run")
    host.close()
    np.testing.assert_array_equal(scores, here)
    assert 20 <= len(measured.latencies_ns) <= 30
    assert measured.affinity == shared.cpus()[:1]
    assert measured.before.at < measured.after.at


def test_an_unknown_host_key_says_how_to_add_it(server):
    known = server.known_hosts.read_text()
    server.known_hosts.write_text("")
    try:
        with pytest.raises(MissingError) as error:
            Ssh(board(server))
    finally:
        server.known_hosts.write_text(known)
    assert "device 'board' shows a host key that known_hosts lacks (ssh-ed25519 SHA256:" in str(error.value)
    assert f"ssh-keyscan -p {server.port} 127.0.0.1 >>~/.ssh/known_hosts" in str(error.value)


def test_another_host_key_than_the_known_one_is_refused(server):
    known = server.known_hosts.read_text()
    key = (server.home / ".ssh" / "id_ed25519.pub").read_text().split()[1]
    server.known_hosts.write_text(f"[127.0.0.1]:{server.port} ssh-ed25519 {key}\n")
    try:
        with pytest.raises(
            MissingError, match=r"has another host key than known_hosts: .*ssh-keygen -R '\[127.0.0.1\]:"
        ):
            Ssh(board(server))
    finally:
        server.known_hosts.write_text(known)


def test_a_machine_that_takes_none_of_our_keys_is_told(server):
    key = server.home / ".ssh" / "id_ed25519"
    key.rename(key.with_name("away"))
    try:
        with pytest.raises(
            MissingError, match=r"takes none of the keys of ~/\.ssh and of the agent: ssh-copy-id one there"
        ):
            Ssh(board(server))
    finally:
        key.with_name("away").rename(key)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("pi@127.0.0.1:1", "device 'board' at pi@127.0.0.1:1 can't be reached: check that it is on"),
        ("pi@no-such-host.invalid", "device 'board' at pi@no-such-host.invalid:22 can't be found: its host name"),
    ],
)
def test_a_machine_out_of_reach_is_one_line(server, address, message):
    with pytest.raises(MissingError) as error:
        Ssh(DeviceSpec(name="board", driver="ssh", address=address))
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_ssh_config_gives_host_port_user_and_key(server):
    config = server.home / ".ssh" / "config"
    user, _, _ = server.address.partition("@")
    config.write_text(f"Host my-board\n HostName 127.0.0.1\n Port {server.port}\n User {user}\n")
    try:
        device = Ssh(DeviceSpec(name="board", driver="ssh", address="my-board"))
        assert device.run(["true"], 30).exit_code == 0
        device.close()
        config.write_text("Host my-board\n Port many\n")
        with pytest.raises(ConfigError, match=r"~/.ssh/config: Port many of my-board is no number"):
            Ssh(DeviceSpec(name="board", driver="ssh", address="my-board"))
        config.write_text("Host my-board\n ProxyJump other\n")
        with pytest.raises(ConfigError, match="write: ProxyCommand ssh -W %h:%p other"):
            Ssh(DeviceSpec(name="board", driver="ssh", address="my-board"))
    finally:
        config.unlink()


@pytest.mark.parametrize(
    "address", [None, "", "pi@", "pi@host:0", "pi@host:99999", "pi@-oProxyCommand=x", "a b@c", "@x"]
)
def test_an_address_of_no_form_is_refused(address):
    with pytest.raises(ConfigError, match="needed: USER@HOST or USER@HOST:PORT"):
        ssh_address.parse(address, "board")


def test_an_address_is_taken_apart():
    found = ssh_address.parse("pi@[fe80::1]:2222", "board")
    assert (found.user, found.host, found.port) == ("pi", "fe80::1", 2222)
