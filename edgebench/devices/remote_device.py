"""A device behind a link: its work folder, proven file transfers, limited commands and its Python."""

from __future__ import annotations

import shlex
import tempfile
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from edgebench.devices import local_runtimes, remote_linux, remote_report
from edgebench.devices.protocol import CommandResult
from edgebench.devices.remote_link import Link
from edgebench.devices.remote_shell import RemoteShell
from edgebench.errors import InputError, MissingError, StageError
from edgebench.hashing import file_sha256
from edgebench.types import Conditions, DeviceSpec, Origin

_PROBE_LIMIT_S = 60.0
_WORKS = "edgebench can run here"
_CANNOT_START = {126: "it may not be executed there", 127: "it is not there"}


class RemoteDevice:
    """A Linux machine behind a link, as a `devices.protocol.Device`.

    `connect` makes a link; after a broken one it is asked again, so that a lost connection costs one cell. The work
    folder is made in `parent`, or where None in the device's own temporary folder. `pythons` are tried in this order.
    """

    def __init__(
        self, spec: DeviceSpec, connect: Callable[[], Link], parent: str | None, pythons: Sequence[str]
    ) -> None:
        self.spec = spec
        self.origin = Origin.MEASURED
        self._pythons = (spec.python,) if spec.python else tuple(pythons)
        self._commands: dict[str, tuple[str, ...]] = {}
        self._shell = RemoteShell(spec.name, connect)
        self._folder = ""
        try:
            self._folder = self._make_folder(spec.folder or parent or self._temporary_folder())
        except BaseException:
            self._shell.close()
            raise

    def identity(self) -> dict[str, str]:
        return remote_linux.read_identity(self._report(remote_linux.IDENTITY_SCRIPT))

    def conditions(self) -> Conditions:
        return remote_linux.read_conditions(self._report(remote_linux.CONDITIONS_SCRIPT))

    def cpus(self) -> tuple[int, ...]:
        """The allowed CPUs, one of every core before any core's second thread, and fastest first."""
        cpus = remote_linux.read_cpus(self._report(remote_linux.CPUS_SCRIPT))
        if not cpus:
            raise StageError(f"device '{self.spec.name}' does not say which CPUs may be used (/proc/self/status)")
        return cpus

    def push(self, local: Path, remote: str) -> None:
        """Copy a file to the device unless it is there already, and compare size and hash with the device's own.

        Raises:
            InputError: `local` is no file, or `remote` leaves the work folder.
            MissingError: the device has no space for it, or can't hash files.
            StageError: the folder can't be written, or the file did not arrive whole.
        """
        if not local.is_file():
            raise InputError(f"{local} can't be put on device '{self.spec.name}': it is not a file")
        target = self._inside(remote)
        size, sha256 = local.stat().st_size, file_sha256(local)
        free, present = self._prepare(target)
        if present == (size, sha256):
            return
        if free is not None and free < size:
            raise MissingError(
                f"device '{self.spec.name}' has {free:,} bytes free in {self._folder}, '{remote}' needs {size:,}; "
                "free some, or name another `folder:` in its file"
            )
        mode = 0o755 if local.stat().st_mode & 0o100 else 0o644
        self._shell.push(local, f"{self._folder}/{target}", mode)
        arrived = self._size_and_sha256(target)
        if arrived != (size, sha256):
            found = "is not there" if arrived is None else f"has {arrived[0]:,} bytes there"
            if arrived is not None and arrived[0] == size:
                found = "has another content there"
            raise StageError(
                f"'{remote}' did not arrive whole on device '{self.spec.name}': {size:,} bytes were sent, it {found}; "
                "check its free space and its cable"
            )

    def pull(self, remote: str, local: Path) -> None:
        target = self._inside(remote)
        there = self._size_and_sha256(target)
        if there is None:
            raise StageError(f"device '{self.spec.name}' has no file '{remote}' to fetch")
        local.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._shell.pull(f"{self._folder}/{target}", local)
            if (local.stat().st_size, file_sha256(local)) != there:
                raise StageError(
                    f"'{remote}' did not arrive whole from device '{self.spec.name}': it has {there[0]:,} bytes there, "
                    f"{local.stat().st_size:,} arrived"
                )
        except BaseException:
            local.unlink(missing_ok=True)
            raise

    def runtime_command(self, runtime: str) -> Sequence[str]:
        local_runtimes.check_known(runtime)
        if runtime not in self._commands:
            self._commands[runtime] = (self._python_with(runtime),)
        return self._commands[runtime]

    def run(self, argv: Sequence[str], timeout_s: float) -> CommandResult:
        done = self._shell.run(argv, timeout_s, self._folder)
        if done.exit_code in _CANNOT_START:
            why = _CANNOT_START[done.exit_code]
            raise MissingError(f"device '{self.spec.name}' can't start '{argv[0]}': {why} ({_last_line(done)})")
        return done

    def close(self) -> None:
        """Remove the work folder; StageError when that failed, so that nothing is left behind in silence."""
        if not self._folder:
            return
        folder, self._folder = self._folder, ""
        try:
            done = self._shell.script(f"rm -rf {shlex.quote(folder)}")
            if done.exit_code != 0:
                raise StageError(f"device '{self.spec.name}': {folder} could not be removed: {_last_line(done)}")
        finally:
            self._shell.close()

    def _report(self, script: str) -> dict[str, str]:
        return remote_report.read(self._shell.script(script).stdout)

    def _temporary_folder(self) -> str:
        said = self._shell.script('cd "${TMPDIR:-/tmp}" && pwd').stdout.strip()
        return said if said.startswith("/") else "/tmp"

    def _make_folder(self, parent: str) -> str:
        folder = f"{parent.rstrip('/')}/edgebench-{uuid.uuid4().hex[:8]}"
        done = self._shell.script(f"command -v sha256sum >/dev/null || exit 3; umask 077; mkdir {shlex.quote(folder)}")
        if done.exit_code == 3:
            raise MissingError(f"device '{self.spec.name}' has no sha256sum to prove files with; install it there")
        if done.exit_code != 0:
            raise MissingError(
                f"device '{self.spec.name}': no work folder could be made in {parent} ({_last_line(done)}); "
                "name another `folder:` in its file"
            )
        return folder

    def _inside(self, remote: str) -> PurePosixPath:
        path = PurePosixPath(remote)
        if path.is_absolute() or not path.parts or ".." in path.parts or "\n" in remote or "\0" in remote:
            raise InputError(f"{remote!r} is not a path inside the work folder of device '{self.spec.name}'")
        return path

    def _prepare(self, target: PurePosixPath) -> tuple[int | None, tuple[int, str] | None]:
        """The free bytes for a file (None when the device does not say), and size and hash of the one there now."""
        parent = shlex.quote(str(target.parent))
        done = self._shell.script(
            f"mkdir -p -- {parent} && [ -w {parent} ] || {{ echo {parent} is not writable >&2; exit 1; }}\n"
            f"df -Pk {parent} 2>/dev/null | tail -n 1; echo; {_hash_script(target)}",
            self._folder,
        )
        if done.exit_code != 0:
            raise StageError(f"'{target}' can't be written on device '{self.spec.name}': {_last_line(done)}")
        first, _, rest = done.stdout.partition("\n")
        columns = first.split()
        free = int(columns[3]) * 1024 if len(columns) > 3 and columns[3].isdecimal() else None
        return free, _parse_hash(rest)

    def _size_and_sha256(self, target: PurePosixPath) -> tuple[int, str] | None:
        return _parse_hash(self._shell.script(_hash_script(target), self._folder).stdout)

    def _python_with(self, runtime: str) -> str:
        """The first of the Pythons that runs a program of this runtime."""
        # Its own word at the end: a program that is no Python may end well too.
        probe = f"-c {shlex.quote(local_runtimes.PROBES[runtime] + f'; print({_WORKS!r})')}"
        if runtime == "tflite-runtime":
            with tempfile.TemporaryDirectory(prefix="edgebench-probe-") as folder:
                model = Path(folder) / "probe.tflite"
                model.write_bytes(local_runtimes.smallest_model())
                self.push(model, "probe.tflite")
            probe += " <probe.tflite"
        reasons = []
        for python in self._pythons:
            line = f'p=$(command -v {shlex.quote(python)}) && echo "$p" && "$p" {probe}'
            done = self._shell.run(["sh", "-c", line], _PROBE_LIMIT_S, self._folder)
            said = done.stdout.splitlines()
            if done.exit_code == 0 and said[-1] == _WORKS:
                return said[0]
            reason = "it is no Python" if done.exit_code == 0 else _last_line(done)
            reasons.append(f"{python}: {reason if said else 'not there'}")
        raise MissingError(
            f"device '{self.spec.name}' has no Python with {runtime} ({'; '.join(reasons)}); install it there with "
            f"{_PACKAGES[runtime]}, or name one that has it as `python:` in devices/{self.spec.name}.yaml"
        )


_PACKAGES = {
    "litert": "pip install ai-edge-litert numpy",
    "onnxruntime": "pip install onnxruntime numpy",
    "tflite-runtime": "pip install tflite-runtime 'numpy<2'",
}


def _hash_script(target: PurePosixPath) -> str:
    path = shlex.quote(str(target))
    return f"if [ -f {path} ]; then wc -c <{path}; sha256sum <{path}; fi"


def _parse_hash(text: str) -> tuple[int, str] | None:
    words = text.split()
    return (int(words[0]), words[1]) if len(words) >= 2 and words[0].isdecimal() else None


def _last_line(done: CommandResult) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return " ".join(lines[-1].split())[:200] if lines else f"status {done.exit_code}, and no word"
