"""Where an Edge TPU is on this machine: `usb`, `usb:N`, `pci` or `pci:N`, as libedgetpu counts them."""

from __future__ import annotations

import re

from edgebench.errors import ConfigError

_ADDRESS = re.compile(r"(usb|pci)(:\d{1,2})?")


def parse(address: str | None, device: str) -> str:
    """The `device` option of libedgetpu.

    Raises:
        ConfigError: it is none of the four forms.
    """
    if address is None or not _ADDRESS.fullmatch(address):
        raise ConfigError(
            f"device '{device}': address '{address or ''}' is no Edge TPU; use usb:0 (USB Accelerator) or pci:0 "
            "(PCIe, M.2)"
        )
    return address


def apex(address: str) -> str | None:
    """The kernel's name of the PCIe Edge TPU at an address, None for USB."""
    bus, _, number = address.partition(":")
    return f"apex_{number or 0}" if bus == "pci" else None
