"""Linux machines over SSH: boards and servers."""

from __future__ import annotations

from edgebench.devices import ssh_address, ssh_link
from edgebench.devices.remote_device import RemoteDevice
from edgebench.devices.remote_link import Link
from edgebench.types import DeviceSpec

_PYTHONS = ("python3",)


class Ssh(RemoteDevice):
    """A Linux machine that lets us in over SSH with a key."""

    def __init__(self, spec: DeviceSpec) -> None:
        address = ssh_address.parse(spec.address, spec.name)

        def connect() -> Link:
            return ssh_link.connect(address, spec.name)

        super().__init__(spec, connect, None, _PYTHONS)
