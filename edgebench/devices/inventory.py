"""The inventory: one YAML file a device, and the driver that each one asks for."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Literal

from edgebench import catalogue_files
from edgebench.devices import adb_address, edgetpu_address, ssh_address
from edgebench.devices.adb import Adb
from edgebench.devices.edgetpu import EdgeTpu
from edgebench.devices.host import Host
from edgebench.devices.official import program_files
from edgebench.devices.protocol import Device
from edgebench.devices.ssh import Ssh
from edgebench.devices.virtual_device import VirtualDevice
from edgebench.errors import ConfigError, InputError, MissingError
from edgebench.types import DeviceSpec, OfficialTools, Target
from edgebench.yaml_files import load

Driver = Callable[[DeviceSpec], Device]

_DRIVERS: dict[str, Driver] = {"host": Host, "adb": Adb, "ssh": Ssh, "edgetpu": EdgeTpu, "virtual": VirtualDevice}
# What a file's address must satisfy, so that a wrong one is told before anything is opened.
_ADDRESS_CHECKS: dict[str, Callable[[str | None, str], object]] = {
    "adb": adb_address.parse,
    "edgetpu": edgetpu_address.parse,
    "ssh": ssh_address.parse,
}
# What drivers run models by; the others run them on the CPU.
_DELEGATES = {"edgetpu": "edgetpu"}
_ON_THIS_MACHINE = ("host", "edgetpu")
_ENTRY_POINTS = "edgebench.drivers"  # NAME = "package.module:function"; the function makes a Device from a DeviceSpec


@dataclasses.dataclass(frozen=True, kw_only=True)
class _DeviceFile:
    """What a device's file may hold: a DeviceSpec without its name, which is the file's."""

    driver: str
    address: str | None = None
    description: str = ""
    python: str | None = None
    folder: str | None = None
    runner: Literal["python", "kit"] | None = None
    tools: OfficialTools = dataclasses.field(default_factory=OfficialTools)

    def __post_init__(self) -> None:
        for name in ("address", "python", "folder"):
            value = getattr(self, name)
            if value is not None and not (value.isprintable() and value == value.strip() and value):
                raise ValueError(f"{name}: {value!r} is empty, or holds characters that no {name} has")
        if self.folder is not None and not self.folder.startswith("/"):
            raise ValueError(f"folder: '{self.folder}' must be an absolute path on the device")
        for name in ("python", "folder", "runner"):
            if self.driver == "host" and getattr(self, name):
                raise ValueError(f"driver host takes no `{name}`; drop it")
        for name in ("folder", "runner"):
            if self.driver == "edgetpu" and getattr(self, name):
                raise ValueError(f"driver edgetpu takes no `{name}`; drop it")


def list_devices() -> list[DeviceSpec]:
    """Every device by name: the user's `./devices/*.yaml`, then the shipped ones that it does not replace.

    Raises:
        ConfigError: a file is wrong; the message names it.
    """
    return [_read(path) for _, path in sorted(_files().items())]


def open_device(name: str) -> Device:
    """The device of that name, ready to use; close it when done.

    Raises:
        InputError: there is no such device.
        ConfigError: its file is wrong.
        MissingError: its driver's package can't be imported.
    """
    path = _find(name)
    spec = _read(path)
    return _driver(spec, path)(spec)


def check(name: str) -> DeviceSpec:
    """What its file says; raises what `open_device` would for a name that is not there, or whose file is wrong."""
    return _read(_find(name))


def is_this_machine(name: str) -> bool:
    """Whether what runs on the device takes the CPUs of this machine; raises as `check` does."""
    return _read(_find(name)).driver in _ON_THIS_MACHINE


def delegate(name: str) -> str:
    """What runs models on the device: cpu, or the accelerator that its driver is for; raises as `check` does."""
    return _DELEGATES.get(_read(_find(name)).driver, "cpu")


def completed(asked: Target) -> Target:
    """The target with its device's delegate, unless it asks for another than the CPU; raises as `check` does."""
    return asked if asked.delegate != "cpu" else dataclasses.replace(asked, delegate=delegate(asked.device))


def lease_name(name: str) -> str:
    """What to lease for the device: its address where it has one, so that two names for one phone are one device."""
    spec = _read(_find(name))
    return f"{spec.driver} {spec.address}" if spec.driver in _ADDRESS_CHECKS and spec.address else name


def _find(name: str) -> Path:
    files = _files()
    if name not in files:
        hint = _hint(name, files)
        raise InputError(f"there is no device '{name}'; {hint}; add it: edgebench devices add {name}")
    return files[name]


def _files() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in catalogue_files.folders("devices"):
        for path in sorted(folder.glob("*.yaml")):
            found.setdefault(path.stem, path)
    return found


def _read(path: Path) -> DeviceSpec:
    said = load(path, _DeviceFile)
    if said.driver in _ADDRESS_CHECKS:
        try:
            _ADDRESS_CHECKS[said.driver](said.address, path.stem)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error
    values = {field.name: getattr(said, field.name) for field in dataclasses.fields(said)}
    return DeviceSpec(name=path.stem, **values | {"tools": program_files.beside(said.tools, path.parent)})


def _driver(spec: DeviceSpec, path: Path) -> Driver:
    if spec.driver in _DRIVERS:
        return _DRIVERS[spec.driver]
    plugins: dict[str, EntryPoint] = {point.name: point for point in entry_points(group=_ENTRY_POINTS)}
    if spec.driver not in plugins:
        raise ConfigError(f"{path}: there is no driver '{spec.driver}'; {_hint(spec.driver, [*_DRIVERS, *plugins])}")
    try:
        driver: Driver = plugins[spec.driver].load()
    except (ImportError, AttributeError) as error:
        raise MissingError(f"driver '{spec.driver}' of device '{spec.name}' can't be loaded: {error}") from error
    return driver


def _hint(word: str, known: list[str] | dict[str, Path]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    return f"did you mean '{near[0]}'?" if near else f"known: {', '.join(sorted(known))}"
