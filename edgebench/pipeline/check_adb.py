"""What this machine's side of ADB does to a device: packages, the adb program and its server, the key, two routes."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from edgebench.devices import adb_address, adb_keys
from edgebench.devices.adb_address import Route
from edgebench.errors import ConfigError, one_line
from edgebench.pipeline.finding import Finding, Level, from_error, warned

if TYPE_CHECKING:
    from edgebench.devices.protocol import Device
    from edgebench.types import DeviceSpec

DRIVERS = ("adb", "virtual")
_SERVER_PORT = "5037"
_LIMIT_S = 10.0


def looks(spec: DeviceSpec) -> Iterator[Finding]:
    """What can be looked at without the device."""
    route = _route(spec)
    yield _package("adbutils" if route is Route.SERVER else "adb-shell")
    yield _program(route)
    if route is not Route.SERVER:  # the server signs with a key of its own
        yield _key(spec.name)


def absent_server(spec: DeviceSpec) -> Finding | None:
    """A failure where the device is reached through an adb server and none runs: connecting would start one."""
    if _route(spec) is not Route.SERVER or _is_server_running():
        return None
    fix = f"start it: adb start-server, then: edgebench devices check {spec.name}"
    return Finding(item="connection", level=Level.FAIL, value="no adb server runs here", fix=fix)


def second_route(device: Device) -> Finding:
    """Whether the adb server holds the same phone too, where other tools may disturb it. Starts no server."""
    item = "routes"
    if _route(device.spec) is Route.SERVER:
        return Finding(item=item, level=Level.OK, value="through the adb server, which other tools may use too")
    serial = device.run(("getprop", "ro.serialno"), _LIMIT_S).stdout.strip()
    if not serial or not _is_server_running():
        return Finding(item=item, level=Level.OK, value="one: no adb server runs here")
    try:
        twins = sorted(_attached_as(serial))
    except Exception as error:  # adbutils lets through errors of sockets and its own
        return Finding(item=item, level=Level.OK, value=f"one; the adb server does not tell ({one_line(error, 100)})")
    return warned(
        item,
        f"serial {serial} is also held by the adb server as {', '.join(twins)}" if twins else "one",
        bool(twins),
        f"use address server:{twins[0]}, or end it there: adb disconnect {twins[0]}" if twins else "",
    )


def _route(spec: DeviceSpec) -> Route:
    """The virtual driver's address is a profile; its phone is reached by TCP."""
    return Route.TCP if spec.driver == "virtual" else adb_address.parse(spec.address, spec.name).route


def _package(name: str) -> Finding:
    try:
        return Finding(item="package", level=Level.OK, value=f"{name} {version(name)}")
    except PackageNotFoundError:
        value = f"{name} is not installed"
        return Finding(item="package", level=Level.FAIL, value=value, fix="pip install 'edgebench[lab]'")


def _program(route: Route) -> Finding:
    """The adb program: not needed by us, but the one that users type, and that may fight with another's server."""
    path = shutil.which("adb")
    if path is None:
        return Finding(item="adb program", level=Level.OK, value="not on PATH, and not needed")
    try:
        done = subprocess.run([path, "version"], capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        value = f"{path} does not run ({one_line(error, 100)})"
        return Finding(item="adb program", level=Level.WARN, value=value, fix="install it again")
    protocol = _found(r"version 1\.0\.(\d+)", done.stdout)
    value = f"{path}, version {_found(r'^Version (.+)$', done.stdout) or 'unknown'}, protocol {protocol or 'unknown'}"
    server = _server_protocol() if route is Route.SERVER and _is_server_running() else None
    is_other = bool(protocol and server and protocol != server)
    return warned(
        "adb program",
        f"{value}; the server that runs speaks {server}" if is_other else value,
        is_other,
        "adb kill-server, and keep one adb on PATH: each version ends the other's server",
    )


def _key(device: str) -> Finding:
    path = adb_keys.key_file()
    try:
        adb_keys.signer()
    except ConfigError as error:
        return from_error("adb key", error, device)
    mode = stat.S_IMODE(path.stat().st_mode)
    return warned("adb key", f"{path}, mode {mode:04o}", bool(mode & 0o077), f"keep it to yourself: chmod 600 {path}")


def _found(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1].strip() if match else None


def _server_address() -> tuple[str, int]:
    port = os.environ.get("ANDROID_ADB_SERVER_PORT", _SERVER_PORT)
    return os.environ.get("ANDROID_ADB_SERVER_HOST", "127.0.0.1"), int(port) if port.isdecimal() else int(_SERVER_PORT)


def _is_server_running() -> bool:
    try:
        socket.create_connection(_server_address(), timeout=1.0).close()
    except OSError:
        return False
    return True


def _server_protocol() -> str | None:
    try:
        import adbutils

        return str(adbutils.AdbClient().server_version())
    except Exception:  # no figure, no comparison; the connection itself tells what is wrong
        return None


def _attached_as(serial: str) -> Iterator[str]:
    """What the server calls the ready devices that say this serial number."""
    import adbutils

    client = adbutils.AdbClient()
    for attached in client.list():
        if attached.state == "device":
            said = client.device(serial=attached.serial).shell(["getprop", "ro.serialno"], timeout=_LIMIT_S)
            if str(said).strip() == serial:
                yield str(attached.serial)
