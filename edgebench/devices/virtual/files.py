"""The phone's files: a folder that stands for its root, which no path leaves, and the space that is left in it."""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

from edgebench.errors import InputError

WRITABLE = ("data/local/tmp", "sdcard")
_FOLDERS = (
    *WRITABLE,
    "system/bin",
    "storage/emulated",
    "vendor",
    "sys/class/thermal",
    "sys/devices/system/cpu",
    "proc",
)

# Phone paths that a shell command may name. Of /proc only what the profile says: the rest (/proc/PID, /proc/self) is
# this machine's, as the processes are; so the CPUs that a process may use are this machine's too, as by a cpuset.
_MAPPED = re.compile(
    r"(?<![\w./}~@+-])"
    r"(/(?:data|sdcard|storage|system|vendor|etc|sys|proc/(?:cpuinfo|meminfo|loadavg|version|device-tree)))(?![\w.-])"
)
_PLAIN_PATH = re.compile(r"[\w./@+-]+", re.ASCII)


class Jail:
    """A folder of this machine as the phone's root."""

    def __init__(self, root: Path) -> None:
        """Make the phone's standard folders in `root`.

        Raises:
            InputError: the path has characters that a shell could read as its own; it is put into commands as it is.
        """
        root.mkdir(parents=True, exist_ok=True)
        self.root = root.resolve()
        if not _PLAIN_PATH.fullmatch(str(self.root)):
            raise InputError(f"the phone's root {self.root} must have letters, digits and ._/@+- only; choose another")
        for folder in _FOLDERS:
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        storage = self.root / "storage/emulated/0"
        if not storage.is_symlink():
            storage.symlink_to("../../sdcard")

    def locate(self, path: str, *, follow: bool = True) -> Path:
        """Where the phone's `path` lies on this machine; the last part may be absent, and stays a link if not `follow`.

        Raises:
            PermissionError: the path has `..` or leaves the root through a link.
            OSError: ELOOP, links that go in a circle.
        """
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts or "\0" in path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        plain = self.root.joinpath(*parts)
        try:
            real = plain.resolve() if follow or not parts else plain.parent.resolve() / plain.name
        except RuntimeError as error:  # Python's word, before 3.13, for links that go in a circle
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from error
        if not real.is_relative_to(self.root):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real

    def locate_writable(self, path: str) -> Path:
        """As `locate`, for a file to be written.

        Raises:
            PermissionError: as `locate`, or the path lies in /data outside /data/local/tmp.
            OSError: EROFS outside /data and the shared storage.
        """
        real = self.locate(path)
        if any(real.is_relative_to(self.root / folder) for folder in WRITABLE):
            return real
        code = errno.EACCES if real.is_relative_to(self.root / "data") else errno.EROFS
        raise OSError(code, os.strerror(code))

    def map_command(self, command: str) -> str:
        """`command` with the phone's absolute paths in it turned into this machine's.

        A textual rule: a known prefix counts where a word, or a part after `=`, `:`, a quote or an operator begins.
        Paths that a command puts together at run time, or that stand in a pushed script, are not seen.
        """
        return _MAPPED.sub(lambda match: f"{self.root}{match[1]}", command)

    def has_executable_storage(self, path: Path) -> bool:
        """Whether a file at `path` may be executable: shared storage is mounted noexec."""
        return not path.is_relative_to(self.root / "sdcard")

    def stored_files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Every plain file where a client may write, and its numbers; links are left out."""
        for folder in WRITABLE:
            for parent, _, names in os.walk(self.root / folder):
                for name in names:
                    path = Path(parent, name)
                    try:
                        found = path.lstat()
                    except FileNotFoundError:
                        continue  # a command removed it meanwhile
                    if stat.S_ISREG(found.st_mode):
                        yield path, found


class Space:
    """How many bytes pushes may still store. What shell commands write counts too, but is not limited."""

    def __init__(self, jail: Jail, free_bytes: int) -> None:
        self._jail = jail
        self._lock = threading.Lock()
        self._used_bytes = 0
        self._is_stale = True
        self._whole_bytes = self._used() + free_bytes
        self._capacity_bytes = self._whole_bytes

    def leave(self, free_bytes: int | None) -> None:
        """Let only `free_bytes` more be stored from now on; None: as much as the phone has."""
        with self._lock:
            self._capacity_bytes = self._whole_bytes if free_bytes is None else self._used() + free_bytes

    def free_bytes(self) -> int:
        with self._lock:
            return max(0, self._capacity_bytes - self._used())

    def take(self, size_bytes: int) -> None:
        """Count `size_bytes` as stored; negative gives back.

        Raises:
            OSError: ENOSPC, and nothing is counted.
        """
        with self._lock:
            if size_bytes > 0 and self._used() + size_bytes > self._capacity_bytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._used_bytes += size_bytes

    def count_again(self) -> None:
        """A shell command may have changed files: look at them before the next answer."""
        with self._lock:
            self._is_stale = True

    def _used(self) -> int:
        if self._is_stale:
            self._used_bytes = sum(found.st_size for _, found in self._jail.stored_files())
            self._is_stale = False
        return self._used_bytes
