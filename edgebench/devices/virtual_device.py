"""A virtual phone as a device: started when it is opened, driven by the adb driver, ended when it is closed."""

from __future__ import annotations

import sys
from dataclasses import replace

from edgebench.devices import adb_keys
from edgebench.devices.adb import Adb
from edgebench.devices.virtual import VirtualPhone
from edgebench.devices.virtual.profile import load_profile
from edgebench.types import DeviceSpec

_DEFAULT_PROFILE = "pixel-like"


class VirtualDevice(Adb):
    """The phone of the profile that `address` names, or of the usual one, reached through a real ADB connection.

    Its programs run on this machine, by default with this Python, so its outputs are true and its latencies are not
    those of any phone.
    """

    def __init__(self, spec: DeviceSpec) -> None:
        self._phone = VirtualPhone(load_profile(spec.address or _DEFAULT_PROFILE))
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
