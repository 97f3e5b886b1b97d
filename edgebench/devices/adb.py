"""Android devices over ADB."""

from __future__ import annotations

from collections.abc import Callable

from edgebench.devices import adb_address, adb_server_link, adb_shell_link, android_state
from edgebench.devices.adb_address import AdbAddress, Route
from edgebench.devices.android_settings import SessionSettings
from edgebench.devices.remote_device import RemoteDevice
from edgebench.devices.remote_link import Link
from edgebench.types import Conditions, DeviceSpec, Origin

# The one folder of a phone that its shell user may write and execute in; shared storage is mounted noexec.
_PARENT = "/data/local/tmp"
_PYTHONS = ("python3", "/data/data/com.termux/files/usr/bin/python3")


class Adb(RemoteDevice):
    """An Android device. While it is open it stays awake and in fixed-performance mode; `close` puts both back."""

    def __init__(self, spec: DeviceSpec) -> None:
        address = adb_address.parse(spec.address, spec.name)
        super().__init__(spec, _connector(address, spec.name), _PARENT, _PYTHONS)
        self._settings = SessionSettings(self._shell.script, spec.name)
        try:
            self.origin = self._origin()
            self._in_force = self._settings.apply()
        except BaseException:
            self.close()
            raise

    def identity(self) -> dict[str, str]:
        found = android_state.read_identity(self._report(android_state.IDENTITY_SCRIPT))
        return found | self._in_force

    def conditions(self) -> Conditions:
        return android_state.read_conditions(self._report(android_state.CONDITIONS_SCRIPT))

    def close(self) -> None:
        try:
            self._settings.restore()
        finally:
            super().close()

    def _origin(self) -> Origin:
        said = self._shell.script(f"getprop {android_state.ORIGIN_PROPERTY}").stdout.strip()
        return Origin(said) if said in (Origin.SIMULATED, Origin.EMULATED) else Origin.MEASURED


def _connector(address: AdbAddress, name: str) -> Callable[[], Link]:
    if address.route is not Route.SERVER:
        return lambda: adb_shell_link.connect(address, name)
    # Asked once: when the connection broke, the only device attached may be another one.
    serial = address.serial or adb_server_link.only_serial(name)
    return lambda: adb_server_link.connect(serial, name)
