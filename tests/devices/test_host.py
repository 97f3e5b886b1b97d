"""The host as a device: its work folder, its child processes and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from edgebench.devices import local_runtimes
from edgebench.devices.host import Host
from edgebench.errors import ChildTimeoutError, ConfigError, InputError, MissingError, StageError
from edgebench.types import DeviceSpec, Origin

SPEC = DeviceSpec(name="host", driver="host")


@pytest.fixture
def host():
    device = Host(SPEC)
    yield device
    device.close()


def python(code, *arguments):
    return [sys.executable, "-c", code, *arguments]


def has_ended(pid):
    """Whether the process is gone, or a zombie that only waits to be counted."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
    return False


def test_a_command_gives_its_own_exit_code_and_both_streams_apart(host):
    done = host.run(python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"), 30)
    assert (done.exit_code, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert 0 < done.seconds < 30


def test_a_signal_that_ended_a_command_is_a_negative_exit_code(host):
    assert host.run(python("import os; os.kill(os.getpid(), 11)"), 30).exit_code == -signal.SIGSEGV


def test_a_command_that_hangs_is_ended_with_everything_that_it_started(host, tmp_path):
    code = "import subprocess, sys; c = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)']); "
    code += "open('pids', 'w').write(str(c.pid)); c.wait()"
    with pytest.raises(ChildTimeoutError, match=r"on device 'host' was ended after its limit of 1 s$"):
        host.run(python(code), 1)
    host.pull("pids", tmp_path / "pids")
    assert has_ended(int((tmp_path / "pids").read_text()))


def test_a_command_dies_when_edgebench_is_killed(tmp_path):
    hang = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(100)"
    code = (
        "import sys; from edgebench.devices.host import Host; from edgebench.types import DeviceSpec\n"
        "Host(DeviceSpec(name='host', driver='host')).run([sys.executable, '-c', *sys.argv[1:]], 100)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    edgebench = subprocess.Popen(python(code, hang, str(tmp_path / "pid")), env=environment)
    deadline = time.monotonic() + 30
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
    edgebench.kill()
    edgebench.wait()
    assert has_ended(int((tmp_path / "pid").read_text()))


def test_commands_run_from_several_threads_at_once(host):
    results = []
    threads = [
        threading.Thread(target=lambda i=i: results.append(host.run(python(f"print({i})"), 30).stdout))
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["0\n", "1\n", "2\n", "3\n"]


def test_a_command_that_is_not_there_is_told(host):
    with pytest.raises(MissingError, match="device 'host' can't start 'no-such-command': No such file or directory"):
        host.run(["no-such-command"], 5)


def test_what_was_pushed_comes_back_whole_under_any_name(host, tmp_path):
    source = tmp_path / "süß; rm -rf $HOME.bin"
    source.write_bytes(os.urandom(100_000))
    host.push(source, "in here/ä 'b\".bin")
    host.pull("in here/ä 'b\".bin", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == source.read_bytes()


def test_a_push_takes_the_place_of_the_file_before_and_leaves_that_one_alone(host, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("first")
    second.write_text("second")
    host.push(first, "file")
    host.push(second, "file")
    assert host.run(python("print(open('file').read())"), 30).stdout == "second\n"
    assert first.read_text() == "first"


@pytest.mark.parametrize("remote", ["../out", "/etc/passwd", ".", "a/../../b"])
def test_no_path_leaves_the_work_folder(host, tmp_path, remote):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="not a path inside the work folder"):
        host.push(tmp_path / "file", remote)
    with pytest.raises(InputError, match="not a path inside the work folder"):
        host.pull(remote, tmp_path / "out")


def test_a_file_that_is_not_there_is_told_on_both_ways(host, tmp_path):
    with pytest.raises(InputError, match="it is not a file"):
        host.push(tmp_path / "nothing", "file")
    with pytest.raises(StageError, match="device 'host' has no file 'nothing' to fetch"):
        host.pull("nothing", tmp_path / "out")


def test_close_removes_the_work_folder():
    host = Host(SPEC)
    assert host._folder.is_dir()
    host.close()
    assert not host._folder.exists()


def test_the_host_says_what_it_is(host):
    identity = host.identity()
    assert identity["cpus_allowed"] == str(len(os.sched_getaffinity(0)))
    assert int(identity["memory_bytes"]) > 10**8
    assert identity["python"] == sys.version.split()[0]
    assert host.origin is Origin.MEASURED
    assert sorted(host.cpus()) == sorted(os.sched_getaffinity(0))
    assert host.conditions().free_memory_bytes is not None


def test_an_address_is_refused():
    with pytest.raises(ConfigError, match=r"device 'pc': driver host takes no `address` \(found '10.0.0.1'\); drop it"):
        Host(DeviceSpec(name="pc", driver="host", address="10.0.0.1"))


def test_the_core_runtimes_run_in_this_python(host):
    assert host.runtime_command("litert") == (sys.executable,)
    assert host.runtime_command("onnxruntime") == (sys.executable,)
    with pytest.raises(InputError, match=r"there is no runtime 'onnxrt'; did you mean 'onnxruntime'\?"):
        host.runtime_command("onnxrt")


def test_the_probe_model_of_tflite_runtime_is_one_that_runs():
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=local_runtimes.smallest_model())
    interpreter.allocate_tensors()
    assert interpreter.get_input_details()[0]["shape"].tolist() == [1]
    assert not local_runtimes._works(sys.executable + "-that-is-absent", "litert")
