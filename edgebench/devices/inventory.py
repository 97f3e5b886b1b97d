"""The inventory: one YAML file a device, and the driver that each one asks for."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from edgebench import catalogue_files
from edgebench.devices.host import Host
from edgebench.devices.protocol import Device
from edgebench.errors import ConfigError, InputError, MissingError
from edgebench.types import DeviceSpec
from edgebench.yaml_files import load

Driver = Callable[[DeviceSpec], Device]

_DRIVERS: dict[str, Driver] = {"host": Host}
_ENTRY_POINTS = "edgebench.drivers"  # NAME = "package.module:function"; the function makes a Device from a DeviceSpec


@dataclasses.dataclass(frozen=True, kw_only=True)
class _DeviceFile:
    """What a device's file may hold: a DeviceSpec without its name, which is the file's."""

    driver: str
    address: str | None = None
    description: str = ""


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


def check(name: str) -> None:
    """Raise what `open_device` would raise for a name that the inventory does not have, or whose file is wrong."""
    _read(_find(name))


def _find(name: str) -> Path:
    files = _files()
    if name not in files:
        hint = _hint(name, files)
        raise InputError(f"there is no device '{name}'; {hint}; add one as devices/{name}.yaml")
    return files[name]


def _files() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in catalogue_files.folders("devices"):
        for path in sorted(folder.glob("*.yaml")):
            found.setdefault(path.stem, path)
    return found


def _read(path: Path) -> DeviceSpec:
    said = load(path, _DeviceFile)
    return DeviceSpec(name=path.stem, driver=said.driver, address=said.address, description=said.description)


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
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean '{near[0]}'?" if near else f"known: {', '.join(sorted(known))}"
