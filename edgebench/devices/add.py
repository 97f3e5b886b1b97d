"""A new device of the inventory, from what it says itself when it is connected."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from edgebench.atomic import replacing
from edgebench.devices import adb_address, adb_server_link, ssh_address
from edgebench.devices.adb import Adb
from edgebench.devices.ssh import Ssh
from edgebench.errors import ConfigError
from edgebench.naming import file_name, printable
from edgebench.types import DeviceSpec


def add(name: str, address: str | None, folder: Path) -> tuple[Path, str]:
    """Connect to the device, and write `folder`/NAME.yaml; gives the file and a description of the device.

    `address` with an @ is SSH's; any other is ADB's; None is the only phone that the adb server sees.

    Raises:
        ConfigError: the name can't be a file's, is taken, or the address has no known form.
        InputError, MissingError, StageError: the device can't be reached or chosen.
    """
    if file_name(name) != name:
        raise ConfigError(f"'{name}' can't name a device: use letters, digits, '.', '_' and '-'")
    path = folder / f"{name}.yaml"
    if path.exists():
        raise ConfigError(f"{path} is there already; remove it, or choose another name")
    if address is not None and "@" in address:
        ssh_address.parse(address, name)
        spec = DeviceSpec(name=name, driver="ssh", address=address)
    else:
        adb_address.parse(address, name)
        spec = DeviceSpec(name=name, driver="adb", address=address or f"server:{adb_server_link.only_serial(name)}")
    with closing(Ssh(spec) if spec.driver == "ssh" else Adb(spec)) as device:
        facts = device.identity()
    description = _described(facts)
    _write(path, spec, description)
    return path, description


def _described(facts: dict[str, str]) -> str:
    words = [facts[key] for key in ("manufacturer", "model", "soc", "cpu", "os", "abi") if facts.get(key)]
    return printable(", ".join(dict.fromkeys(words)))[:200] or "it did not say what it is"


def _write(path: Path, spec: DeviceSpec, description: str) -> None:
    import yaml

    path.parent.mkdir(parents=True, exist_ok=True)
    said = {"driver": spec.driver, "description": description, "address": spec.address}
    with replacing(path) as half:
        half.write_text(yaml.safe_dump(said, sort_keys=False, allow_unicode=True), encoding="utf-8")
