"""Which runner does a device's jobs: the Python file where a Python has the runtime, else the kit.

A runtime that is an official program runs by itself: `edgebench.measure.tool_session` drives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.devices.kit import build as kit
from edgebench.devices.official import program_files
from edgebench.errors import MissingError
from edgebench.runner import RUNNER
from edgebench.types import OfficialTools

if TYPE_CHECKING:
    from edgebench.devices.protocol import Device

_KIT_ABIS = ("aarch64", "arm64-v8a", "arm64")
_KIT_RUNTIMES = ("litert", "onnxruntime")
_OFFICIAL = tuple(field.name for field in fields(OfficialTools))


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """How jobs are run on a device: the job's and the result's path are appended to `command`.

    `files` are what it needs there, local files by their path in the work folder. `kind` is python, kit, or the name of
    an official program, which takes arguments of its own; `version` is that program's or the kit's hash.
    """

    kind: str
    command: tuple[str, ...]
    files: Mapping[str, Path]
    version: str = ""

    @property
    def is_official(self) -> bool:
        return self.kind in _OFFICIAL


def choose(device: Device, runtime: str) -> Runner:
    """The runner for `runtime`: the one that the device's file asks for, else Python, else the kit.

    Raises:
        InputError: there is no such runtime.
        MissingError: the device has no Python with the runtime, and the kit does not run there or can't be built.
    """
    if runtime in _OFFICIAL:
        return _official(device, runtime)
    if device.spec.runner == "kit":
        return _kit(device, runtime)
    try:
        python = device.runtime_command(runtime)
    except MissingError:
        is_asked_for = device.spec.runner == "python" or device.spec.python is not None
        if is_asked_for or not _fits_kit(device, runtime):
            raise
        return _kit(device, runtime)
    return Runner(kind="python", command=(*python, "runner.py"), files={"runner.py": RUNNER})


def _official(device: Device, program: str) -> Runner:
    tool = getattr(device.spec.tools, program)
    if tool is None:
        name = device.spec.name
        raise MissingError(
            f"device '{name}' has no {program}; name its file in devices/{name}.yaml: "
            f"tools: {{{program}: {{path: FILE}}}}"
        )
    file = program_files.bring(tool, program, device.spec.name)
    place = f"official/{file.sha256[:16]}/{program}"
    return Runner(kind=program, command=(place,), files={place: file.path}, version=file.sha256)


def _fits_kit(device: Device, runtime: str) -> bool:
    return runtime in _KIT_RUNTIMES and any(abi in _KIT_ABIS for abi in device.identity().get("abi", "").split(","))


def _kit(device: Device, runtime: str) -> Runner:
    if not _fits_kit(device, runtime):
        abi = device.identity().get("abi", "unknown")
        raise MissingError(
            f"device '{device.spec.name}': the kit runs {' and '.join(_KIT_RUNTIMES)} on aarch64, "
            f"not {runtime} on {abi}; drop `runner: kit` from its file"
        )
    folder = kit.kit_folder()
    return Runner(
        kind="kit",
        command=kit.command("kit"),
        files={f"kit/{place}": path for place, path in kit.files(folder).items()},
        version=folder.name,
    )
