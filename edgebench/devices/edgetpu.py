"""A Coral Edge TPU on this machine, over USB or PCIe: the host, with the delegate of libedgetpu.

The runner loads the delegate, in the process that it measures. Nothing here opens the Edge TPU, so that it is free for
that process, and no library of a vendor's is loaded into edgebench itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgebench.devices import edgetpu_address
from edgebench.devices.host import Host
from edgebench.errors import MissingError
from edgebench.types import Conditions, DeviceSpec

# A USB Accelerator before and after its firmware is loaded, which is at its first use after it was plugged in.
_USB_IDS = (("1a6e", "089a"), ("18d1", "9302"))


class EdgeTpu(Host):
    """This machine with an Edge TPU. Only files compiled for it run here; `session.deploy` refuses others."""

    def __init__(self, spec: DeviceSpec, root: Path = Path("/")) -> None:
        """`root` is the folder that holds the machine's `sys`.

        Raises:
            ConfigError: the address is no Edge TPU's.
            MissingError: there is none at it.
        """
        self._address = edgetpu_address.parse(spec.address, spec.name)
        self._root = root
        _check_attached(root, self._address, spec.name)
        super().__init__(replace(spec, address=None))
        self.spec = spec

    def identity(self) -> dict[str, str]:
        return {**super().identity(), "edge_tpu": self._address}

    def conditions(self) -> Conditions:
        """The host's, with the Edge TPU's temperature instead of the processor's: USB ones do not tell theirs."""
        return replace(super().conditions(), temperature_c=self._temperature_c())

    def runtime_command(self, runtime: str) -> Sequence[str]:
        """The Python that the device's file names, because libedgetpu fits few TFLite versions; else the host's."""
        return (self.spec.python,) if self.spec.python else super().runtime_command(runtime)

    def _temperature_c(self) -> float | None:
        name = edgetpu_address.apex(self._address)
        if name is None:
            return None
        text = _text(self._root / "sys/class/apex" / name / "temp")
        return int(text) / 1000 if text.lstrip("-").isdecimal() else None


def _check_attached(root: Path, address: str, device: str) -> None:
    name = edgetpu_address.apex(address)
    if name is not None:
        if not (root / "sys/class/apex" / name).exists():
            raise MissingError(
                f"device '{device}': there is no /sys/class/apex/{name}; install the driver gasket-dkms, and see "
                "with `lspci -nn` whether the Edge TPU (1ac1:089a) is there"
            )
        return
    found = {
        (_text(entry / "idVendor"), _text(entry / "idProduct")) for entry in (root / "sys/bus/usb/devices").glob("*")
    }
    if not found & set(_USB_IDS):
        raise MissingError(
            f"device '{device}': no Coral USB Accelerator is attached (1a6e:089a or 18d1:9302 in `lsusb`); plug it in"
        )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
