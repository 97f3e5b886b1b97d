"""A virtual phone as a device: started when it is opened, driven by the adb driver, ended when it is closed."""

from __future__ import annotations

import sys
from dataclasses import replace

from edgebench.devices import adb_keys
from edgebench.devices.adb import Adb
from edgebench.devices.virtual import VirtualPhone
from edgebench.devices.virtual.profile import load_profile
from edgebench.types import DeviceSpec, Origin

_DEFAULT_PROFILE = "pixel-like"


class VirtualDevice(Adb):
    """The phone of the profile that `address` names, or of the usual one, reached through a real ADB connection.

    Its programs run on this machine: with this Python, or the kit's ARM programs under qemu. Either way its outputs are
    true, and its latencies are those of no phone.
    """

    def __init__(self, spec: DeviceSpec) -> None:
        origin = Origin.EMULATED if spec.runner == "kit" else Origin.SIMULATED
        self._phone = VirtualPhone(load_profile(spec.address or _DEFAULT_PROFILE), origin=origin)
        self._phone.let_in(adb_keys.public_key())
        self._phone.start()
        try:
            super().__init__(replace(spec, address=self._phone.address, python=spec.python or sys.executable))
        except BaseException:
            self._phone.stop()
            raise

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._phone.stop()
