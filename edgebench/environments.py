"""Side environments: Pythons with tools that pin other versions than edgebench has, each in a folder of its own.

They lie in `$EDGEBENCH_HOME/envs`, or the user's cache folder. A virtual environment can't be moved, so it is built
where it stays; a marker file, written last, says that it is whole.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgebench.cache_folder import cache_folder
from edgebench.errors import InputError, MissingError, StageError

_MARKER = "edgebench-complete"
_LIMIT_S = 3600


@dataclass(frozen=True, slots=True)
class _Environment:
    """`newest_python` is the last minor version of Python 3 that the packages have wheels for."""

    requirements: tuple[str, ...]
    newest_python: int
    needed_for: str


_ENVIRONMENTS = {
    "onnx2tf": _Environment(("onnx2tf==1.29.24",), 12, "ONNX to .tflite"),
    "tflite-runtime": _Environment(("tflite-runtime==2.14.0", "numpy<2"), 11, "the runtime tflite-runtime"),
}


def names() -> tuple[str, ...]:
    """The side environments that `make` can build."""
    return tuple(_ENVIRONMENTS)


def requirements(name: str) -> tuple[str, ...]:
    """What pip is asked to install there, with pinned versions; raises InputError as `python_of` does."""
    return _known(name).requirements


def python_of(name: str) -> Path:
    """The Python of a side environment that was made.

    Raises:
        MissingError: it was not made, or not with the versions of this edgebench; the message names the command.
        InputError: there is no side environment of this name.
    """
    environment = _known(name)
    folder = _folder(name)
    if not _is_complete(folder, environment):
        raise MissingError(f"{environment.needed_for} needs a side environment: edgebench env make {name}")
    return folder / "bin" / "python"


def make(name: str) -> Path:
    """The Python of a side environment, built with pip from the network where it is not there yet (111 MB to 3 GB).

    Only one process builds; others wait for it and take what it made. A build that broke off is started anew.

    Raises:
        MissingError: no Python that the packages support is on PATH, or the disk is full.
        StageError: pip failed; its output is in the log that the message names.
    """
    environment = _known(name)
    folder = _folder(name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _only_one_maker(folder):
        if not _is_complete(folder, environment):
            shutil.rmtree(folder, ignore_errors=True)
            _build(name, folder, environment)
            (folder / _MARKER).write_text(_identity(environment))
    return folder / "bin" / "python"


def _known(name: str) -> _Environment:
    if name not in _ENVIRONMENTS:
        raise InputError(f"there is no side environment '{name}'; there are {', '.join(_ENVIRONMENTS)}")
    return _ENVIRONMENTS[name]


def _folder(name: str) -> Path:
    return cache_folder("envs") / name


def _identity(environment: _Environment) -> str:
    return "\n".join(environment.requirements)


def _is_complete(folder: Path, environment: _Environment) -> bool:
    marker = folder / _MARKER
    return marker.is_file() and marker.read_text() == _identity(environment) and (folder / "bin" / "python").exists()


@contextmanager
def _only_one_maker(folder: Path) -> Iterator[None]:
    """Hold the lock file beside the folder; the kernel lets go of it when the process ends, however it ends."""
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(name: str, folder: Path, environment: _Environment) -> None:
    log = folder.with_name(f"{name}.log")
    commands = (
        [_base_python(name, environment), "-m", "venv", str(folder)],
        [
            str(folder / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            *environment.requirements,
        ],
    )
    with log.open("wb") as output:
        for command in commands:
            try:
                done = subprocess.run(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=_LIMIT_S, check=False
                )
            except subprocess.TimeoutExpired as error:
                raise StageError(f"making the side environment '{name}' took over {_LIMIT_S} s; see {log}") from error
            if done.returncode != 0:
                raise StageError(
                    f"making the side environment '{name}' failed with status {done.returncode}; see {log}, "
                    f"then again: edgebench env make {name}"
                )


def _base_python(name: str, environment: _Environment) -> str:
    """A Python 3.11 or the newest that the packages have wheels for: this one where it fits, else one on PATH."""
    if sys.version_info[1] <= environment.newest_python:
        return sys.executable
    for minor in range(environment.newest_python, 10, -1):
        found = shutil.which(f"python3.{minor}")
        if found:
            return found
    raise MissingError(
        f"the side environment '{name}' needs Python 3.{environment.newest_python} or older on PATH; install one, "
        f"then: edgebench env make {name}"
    )
