"""The machine that edgebench runs on, as a device."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from edgebench.devices import conditions, local_runtimes
from edgebench.devices.protocol import CommandResult
from edgebench.errors import ChildTimeoutError, ConfigError, InputError, MissingError, StageError
from edgebench.hashing import file_sha256
from edgebench.types import Conditions, DeviceSpec, Origin

# What the speed of int8, fp16 and bf16 kernels hangs on.
TELLING_FLAGS = (
    *("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "avx512_fp16", "amx_int8", "amx_bf16"),
    *("asimddp", "i8mm", "asimdhp", "bf16", "sve", "sve2", "sme"),
)


class Host:
    """This machine. Its work folder is a temporary folder; commands run in their own process group and die with us."""

    def __init__(self, spec: DeviceSpec) -> None:
        if spec.address is not None:
            raise ConfigError(f"device '{spec.name}': driver host takes no `address` (found '{spec.address}'); drop it")
        self.spec = spec
        self.origin = Origin.MEASURED
        self._folder = Path(tempfile.mkdtemp(prefix="edgebench-host-"))

    def identity(self) -> dict[str, str]:
        cpuinfo = _cpuinfo()
        flags = (cpuinfo.get("flags") or cpuinfo.get("Features") or "").split()
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        facts = {
            "cpu": cpuinfo.get("model name") or cpuinfo.get("Model") or platform.processor() or platform.machine(),
            "cpus_allowed": str(len(os.sched_getaffinity(0))),
            "cpus": str(os.cpu_count()),
            "cpu_flags": " ".join(flag for flag in TELLING_FLAGS if flag in flags),
            "memory_bytes": str(memory_bytes),
            "abi": platform.machine(),
            "os": _os_name(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "virtual_machine": "yes" if "hypervisor" in flags else "",
        }
        return {name: value for name, value in facts.items() if value}

    def conditions(self) -> Conditions:
        return conditions.read()

    def cpus(self) -> tuple[int, ...]:
        """The allowed CPUs, one of every core before any core's second thread, and fastest first."""
        return conditions.fastest_first(Path("/"), tuple(sorted(os.sched_getaffinity(0))))

    def push(self, local: Path, remote: str) -> None:
        """A hard link where the file system allows one, which is the same file; else a copy, proven by its hash."""
        target = self._inside(remote)
        if not local.is_file():
            raise InputError(f"{local} can't be put on device '{self.spec.name}': it is not a file")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        try:
            target.hardlink_to(local.resolve())
        except OSError:
            self._copy(local, target)

    def pull(self, remote: str, local: Path) -> None:
        source = self._inside(remote)
        if not source.is_file():
            raise StageError(f"device '{self.spec.name}' has no file '{remote}' to fetch")
        local.parent.mkdir(parents=True, exist_ok=True)
        self._copy(source, local)

    def runtime_command(self, runtime: str) -> Sequence[str]:
        return (local_runtimes.python_with(runtime),)

    def run(self, argv: Sequence[str], timeout_s: float) -> CommandResult:
        started = time.monotonic()
        try:
            # Asked for in the child, where it holds for its whole life: the kernel kills it when the *thread* that
            # started it ends, and this one waits here until the child has ended.
            child = subprocess.Popen(
                list(argv),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
                preexec_fn=_end_with(os.getpid()),
            )
        except OSError as error:
            raise MissingError(f"device '{self.spec.name}' can't start '{argv[0]}': {error.strerror}") from error
        try:
            stdout, stderr = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _end_group(child)
            raise ChildTimeoutError(
                f"'{Path(argv[0]).name}' on device '{self.spec.name}' was ended after its limit of {timeout_s:g} s"
            ) from None
        except BaseException:  # Ctrl-C most of all
            _end_group(child)
            raise
        return CommandResult(
            exit_code=child.returncode, stdout=stdout, stderr=stderr, seconds=time.monotonic() - started
        )

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _inside(self, remote: str) -> Path:
        path = (self._folder / remote).resolve()
        if path == self._folder.resolve() or not path.is_relative_to(self._folder.resolve()):
            raise InputError(f"'{remote}' is not a path inside the work folder of device '{self.spec.name}'")
        return path

    def _copy(self, source: Path, target: Path) -> None:
        try:
            shutil.copyfile(source, target)
        except OSError as error:
            raise StageError(f"{source} could not be copied to {target}: {error.strerror}") from error
        if file_sha256(source) != file_sha256(target):
            raise StageError(f"{target} is not what {source} is after copying; check the disk and its free space")


def _end_group(child: subprocess.Popen[str]) -> None:
    """Kill a child that still runs, and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def _end_with(parent: int) -> Callable[[], None]:
    """What a child does before its exec to be killed when this process is; the library is opened beforehand, because
    the child of a threaded process must not take locks."""
    pr_set_pdeathsig = 1
    prctl = ctypes.CDLL(None).prctl

    def in_child() -> None:
        prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the kernel knew
            os._exit(1)

    return in_child


def _cpuinfo() -> dict[str, str]:
    """The first CPU's fields of /proc/cpuinfo."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    return fields


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()
