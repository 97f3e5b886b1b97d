"""One edgebench process measures on a device at a time: a lock file for each device."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from edgebench.cache_folder import cache_folder
from edgebench.naming import file_name


@contextmanager
def lease(name: str, on_wait: Callable[[str], None]) -> Iterator[None]:
    """Hold the device `name` inside the block; the kernel frees it even when this process is killed.

    While another process (or thread) holds it, `on_wait` is told once, in one line, who does, and then this waits. The
    lock is this user's: two users of one machine do not see each other's.
    """
    path = cache_folder("locks") / f"{file_name(name)}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            on_wait(
                f"device '{name}' is in use by process {lock.read().strip() or 'unknown'}; waiting for it to finish"
            )
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield
