"""Inside the virtual machine: a virtual phone on loopback, and a relay to it from the machine's network.

It is the machine's first program once /init has mounted what it needs, and runs until the machine is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

from edgebench.devices.virtual import Battery, Profile, VirtualPhone
from edgebench.types import Origin

PORT = 5037  # of the guest; the host's is another


async def main() -> None:
    clocks_khz = (1_000_000,) * (os.cpu_count() or 1)
    profile = Profile(
        model="arm64 virtual machine",
        name="arm64_vm",
        soc="QEMU virt",
        abis=("arm64-v8a",),
        cpu_max_khz=clocks_khz,
        free_bytes=1_000_000_000,
        battery=Battery(level_percent=100),
    )
    with VirtualPhone(profile, authorized_keys=[Path("/adbkey.pub")], origin=Origin.EMULATED) as phone:
        host, _, port = phone.address.partition(":")

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            # The phone listens on loopback only, which no network reaches.
            from_phone, to_phone = await asyncio.open_connection(host, int(port))
            await asyncio.gather(_copy(reader, to_phone), _copy(from_phone, writer))

        server = await asyncio.start_server(relay, "0.0.0.0", PORT)
        print(f"phone ready: Python {sys.version.split()[0]} on {os.uname().machine}", flush=True)
        await server.serve_forever()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    target.close()


asyncio.run(main())
