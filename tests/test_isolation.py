from __future__ import annotations

import mmap
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from edgebench.errors import ChildDiedError, ChildTimeoutError, ModelError, StageError
from edgebench.isolation import Worker, tell


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    with Worker(tmp_path / "log") as worker:
        yield worker


def wrong_model() -> None:
    raise ModelError("the model is wrong")


def kill_me() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def unpicklable() -> object:
    return lambda: None


def allocate(size: int) -> int:
    return len(bytearray(size))


def say(text: str) -> None:
    print(text)


def count_aloud(n: int) -> int:
    for number in range(n):
        tell(number)
    return n


def test_what_a_call_tells_arrives_in_order_and_before_its_value(tmp_path: Path) -> None:
    heard: list[int] = []
    with Worker(tmp_path / "log", on_told=heard.append) as worker:
        assert worker.call("counting", 30, count_aloud, 3).value == 3
        assert heard == [0, 1, 2]


def test_what_a_call_tells_is_dropped_where_nobody_listens(worker: Worker) -> None:
    assert worker.call("counting", 30, count_aloud, 3).value == 3
    assert count_aloud(2) == 2


def tell_forever() -> None:
    while True:
        tell("still here")


def test_a_call_that_goes_on_telling_is_ended_at_its_limit_too(worker: Worker) -> None:
    with pytest.raises(ChildTimeoutError, match=r"talking was ended after its limit of 0\.2 s"):
        worker.call("talking", 0.2, tell_forever)
    assert worker.call("again", 30, abs, -1).value == 1


def test_a_call_gives_its_value_and_its_peak_memory(worker: Worker) -> None:
    done = worker.call("allocating", 30, allocate, 64_000_000)
    assert done.value == 64_000_000
    assert done.peak_rss_bytes is not None
    assert done.peak_rss_bytes > 64_000_000


def test_peak_memory_is_that_of_the_call_alone(worker: Worker) -> None:
    worker.call("a large call", 30, allocate, 256_000_000)
    small = worker.call("a small call", 30, allocate, 1_000)
    assert small.peak_rss_bytes is not None
    assert small.peak_rss_bytes < 128_000_000


def test_calls_share_one_process(worker: Worker) -> None:
    assert worker.call("a", 30, os.getpid).value == worker.call("b", 30, os.getpid).value != os.getpid()


def test_our_errors_come_back_as_they_are(worker: Worker) -> None:
    with pytest.raises(ModelError, match=r"^the model is wrong$"):
        worker.call("loading", 30, wrong_model)


def test_other_errors_are_told_in_one_line_that_names_the_log(worker: Worker, tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"^converting failed: ValueError: invalid literal") as caught:
        worker.call("converting", 30, int, "twelve")
    assert str(tmp_path / "log") in str(caught.value)
    assert "Traceback" in (tmp_path / "log").read_text()


def test_a_signal_is_named_and_the_next_call_works(worker: Worker) -> None:
    with pytest.raises(ChildDiedError, match="converting was ended by SIGKILL"):
        worker.call("converting", 30, kill_me)
    assert worker.call("again", 30, abs, -1).value == 1


def write_beyond_the_end_of_a_mapped_file(path: str) -> None:
    with open(path, "wb+") as stream:
        stream.truncate(4096)
        with mmap.mmap(stream.fileno(), 4096) as mapped:
            stream.truncate(0)
            mapped[0] = 1


def test_a_mapped_file_that_can_not_be_written_hints_at_a_full_disk(worker: Worker, tmp_path: Path) -> None:
    with pytest.raises(ChildDiedError, match=r"preparing was ended by SIGBUS \(often: a full disk\)"):
        worker.call("preparing", 30, write_beyond_the_end_of_a_mapped_file, str(tmp_path / "mapped"))


def test_an_exit_in_the_middle_is_told_with_its_status(worker: Worker) -> None:
    with pytest.raises(ChildDiedError, match="ended its process with status 7"):
        worker.call("converting", 30, os._exit, 7)


def test_a_hang_is_ended_at_its_limit(worker: Worker) -> None:
    with pytest.raises(ChildTimeoutError, match=r"converting was ended after its limit of 0\.2 s"):
        worker.call("converting", 0.2, time.sleep, 600)
    assert worker.call("again", 30, abs, -1).value == 1


def test_a_result_that_cannot_travel_is_an_error_not_a_hang(worker: Worker) -> None:
    with pytest.raises(StageError, match="converting failed"):
        worker.call("converting", 30, unpicklable)
    assert worker.call("again", 30, abs, -1).value == 1


def test_output_of_a_call_goes_to_the_log(worker: Worker, tmp_path: Path) -> None:
    worker.call("talking", 30, say, "hello")
    assert (tmp_path / "log").read_text() == "=== talking\nhello\n"


def test_closing_ends_the_child(tmp_path: Path) -> None:
    with Worker(tmp_path / "log") as worker:
        pid = worker.call("a", 30, os.getpid).value
    assert not psutil.pid_exists(pid)
