"""How an Android device is addressed, and what each way means."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from edgebench.errors import ConfigError


class Route(StrEnum):
    """TCP and USB go straight to the device; SERVER goes through the adb server, which other tools may use too."""

    TCP = "tcp"
    USB = "usb"
    SERVER = "server"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdbAddress:
    """`serial` is the device's for USB and SERVER; None there is the only one attached. `host` and `port` are TCP's."""

    route: Route
    serial: str | None = None
    host: str = ""
    port: int = 0


def parse(address: str | None, device: str) -> AdbAddress:
    """The address in the file of `device`: "HOST:PORT", "usb:SERIAL", "server:SERIAL", or none at all.

    Raises:
        ConfigError: it is none of these.
    """
    if address is None:
        return AdbAddress(route=Route.SERVER)
    kind, colon, rest = address.partition(":")
    if kind in (Route.USB, Route.SERVER) and colon:
        if not rest or rest != rest.strip() or any(not character.isprintable() for character in rest):
            raise ConfigError(f"device '{device}': address '{address}' names no serial; see: adb devices")
        return AdbAddress(route=Route(kind), serial=rest)
    host, colon, port = address.rpartition(":")
    if colon and host and port.isdecimal() and 0 < int(port) < 65536:
        return AdbAddress(route=Route.TCP, host=host.strip("[]"), port=int(port))
    raise ConfigError(
        f"device '{device}': address '{address}' is none of HOST:PORT, usb:SERIAL and server:SERIAL; "
        f"for a serial of `adb devices`: server:{address}"
    )
