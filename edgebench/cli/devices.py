"""devices: what the inventory holds, how a device is, and new ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgebench.cli import options, results
from edgebench.cli.tables import print_table, row, table

if TYPE_CHECKING:
    from edgebench.pipeline.finding import Finding

devices_app = typer.Typer(no_args_is_help=True, help="List, check and add devices; the virtual phone.")
virtual_app = typer.Typer(no_args_is_help=True, help="A phone of software, for trying things out and for tests.")
kit_app = typer.Typer(no_args_is_help=True, help="The native runner for devices without Python.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A device of the inventory; see: edgebench devices list.")]


def add_to(app: typer.Typer) -> None:
    devices_app.command("list", epilog="Example:  edgebench devices list")(list_devices)
    devices_app.command("check", epilog="Example:  edgebench devices check pixel-8")(check)
    devices_app.command("info", epilog="Example:  edgebench devices info host")(info)
    devices_app.command("add", epilog="Example:  edgebench devices add my-phone 192.168.1.7:5555")(add)
    virtual_app.command("start", epilog="Example:  edgebench devices virtual start --port 5600")(start_virtual)
    devices_app.add_typer(virtual_app, name="virtual")
    kit_app.command("build", epilog="Example:  edgebench devices kit build")(build_kit)
    devices_app.add_typer(kit_app, name="kit")
    app.add_typer(devices_app, name="devices")


def list_devices(as_json: options.Json = False) -> None:
    """List the devices of the inventory: yours in ./devices first, then the shipped ones."""
    from edgebench.codec import to_plain
    from edgebench.devices import inventory

    specs = inventory.list_devices()
    if as_json:
        results.print_text(json.dumps([to_plain(spec) for spec in specs], indent=2))
        return
    found = table("device", "driver", "address", "what it is")
    for spec in specs:
        row(found, spec.name, spec.driver, spec.address or "", spec.description)
    print_table(found)


def check(name: Name, as_json: options.Json = False) -> None:
    """Look at everything about a device that can spoil a measurement. Exit status 1 when something fails."""
    from edgebench.codec import to_plain
    from edgebench.naming import printable
    from edgebench.pipeline import check_device
    from edgebench.pipeline.finding import Level

    def tell(finding: Finding) -> None:
        if not as_json:
            fix = f"  -> {finding.fix}" if finding.fix else ""
            print(printable(f"{finding.level:<5}{finding.item:<20}{finding.value}{fix}"), flush=True)

    health = check_device.check(name, tell, lambda text: print(printable(text), file=sys.stderr))
    if as_json:
        results.print_text(json.dumps(to_plain(health) | {"level": health.level}, indent=2))
    else:
        print(
            printable(
                f"{name}: {health.level}" + ("" if health.origin in (None, "measured") else f" ({health.origin})")
            )
        )
    raise typer.Exit(int(health.level == Level.FAIL))


def info(name: Name, as_json: options.Json = False) -> None:
    """What a device is and how it is now."""
    from contextlib import closing

    from edgebench.codec import to_plain
    from edgebench.devices import inventory

    inventory.check(name)
    with closing(inventory.open_device(name)) as device:
        said: dict[str, Any] = {
            "device": name,
            "origin": device.origin,
            "identity": device.identity(),
            "cpus": list(device.cpus()),
            "conditions": to_plain(device.conditions()),
        }
    if as_json:
        results.print_text(json.dumps(said, indent=2))
        return
    found = table("", "")
    row(found, "device", f"{name} ({said['origin']})")
    for part in ("identity", "conditions"):
        for key, value in said[part].items():
            row(found, key, "unreadable" if value is None else str(value))
    row(found, "cpus, fastest first", ", ".join(map(str, said["cpus"])))
    print_table(found)


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it.")],
    address: Annotated[
        str | None,
        typer.Argument(
            metavar="[ADDRESS]",
            help="HOST:PORT, usb:SERIAL or server:SERIAL for ADB, USER@HOST[:PORT] for SSH; "
            "without one, the only phone attached.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Connect to a device and write devices/NAME.yaml from what it says."""
    from edgebench.devices.add import add as add_device

    path, description = add_device(name, address, Path("devices"))
    if as_json:
        results.print_text(json.dumps({"device": name, "file": str(path), "description": description}))
    else:
        results.print_text(f"{path}: {description}\nNext: edgebench devices check {name}")


def start_virtual(
    profile: Annotated[str, typer.Option(help="A YAML file, or a shipped profile.")] = "pixel-like",
    port: Annotated[int, typer.Option(help="On 127.0.0.1; 0 takes a free one.", min=0, max=65535)] = 0,
    root: Annotated[
        Path | None, typer.Option(help="The folder that is the phone's root; else a temporary one.", show_default=False)
    ] = None,
    fault: Annotated[
        list[str] | None, typer.Option(help="What goes wrong, NAME or NAME=VALUE; again for more. See docs/devices.md.")
    ] = None,
    authorized_key: Annotated[
        list[Path] | None,
        typer.Option(help="One more public key that may connect, beside this user's; again for more.", metavar="FILE"),
    ] = None,
    accept_any_key: Annotated[
        bool, typer.Option("--accept-any-key", help="Let in every process of this machine, not only yours.")
    ] = False,
    emulated: Annotated[
        bool, typer.Option("--emulated", help="Say `emulated`, not `simulated`: for ARM programs under qemu.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Start a virtual phone: an Android device's side of ADB on loopback, until Ctrl-C.

    Its address is the only line on stdout. What a client sends to its shell runs on this machine with your rights.
    """
    from edgebench.devices import adb_keys
    from edgebench.devices.virtual import VirtualPhone, faults, serve
    from edgebench.devices.virtual.profile import load_profile
    from edgebench.types import Origin

    phone = VirtualPhone(
        load_profile(profile),
        root,
        faults.parse_faults(fault or ()),
        port=port,
        authorized_keys=authorized_key or (),
        accepts_any_key=accept_any_key,
        origin=Origin.EMULATED if emulated else Origin.SIMULATED,
    )
    phone.let_in(adb_keys.public_key())

    def tell(address: str) -> None:
        print(json.dumps({"address": address}) if as_json else address, flush=True)
        print(f"Ctrl-C ends it; next: edgebench devices add NAME {address}", file=sys.stderr, flush=True)

    serve.serve(phone, tell)


def build_kit(as_json: options.Json = False) -> None:
    """Build the native runner for aarch64 and fetch its libraries, once. Measuring does it by itself where needed."""
    from edgebench.codec import to_plain
    from edgebench.devices.kit import build, manifest

    print("Building the kit; the first time fetches about 35 MB ...", file=sys.stderr)
    folder = build.kit_folder()
    made = manifest.read(folder)
    if as_json:
        results.print_text(json.dumps({"folder": str(folder)} | to_plain(made), indent=2))
        return
    runtimes = ", ".join(f"{name} {version}" for name, version in made.runtimes.items())
    results.print_text(f"{folder}: {made.target}, {runtimes}, {made.size_bytes / 1e6:.1f} MB")
    found = table("file", "bytes", "from", "licence")
    for file in made.files:
        row(found, file.path, f"{file.size_bytes:,}", file.package, file.license)
    print_table(found)
