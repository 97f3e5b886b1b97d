"""An Android device's state and identity: one shell command each, whose text is read here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from edgebench.devices import remote_linux, remote_report
from edgebench.types import Conditions

_CPU, _BATTERY, _SKIN = "0", "2", "3"  # android.os.Temperature's types
_PLAUSIBLE_C = (1.0, 150.0)


CONDITIONS_SCRIPT = (
    remote_linux.CONDITIONS_SCRIPT
    + remote_report.section("thermal", "dumpsys thermalservice")
    + remote_report.section("battery", "dumpsys battery")
    + remote_report.section("power", "dumpsys power | grep -m1 mWakefulness=")
    + remote_report.section("low_power", "settings get global low_power")
)

# Names in the record, and the properties that hold them, best first.
_PROPERTIES = {
    "model": ("ro.product.model",),
    "manufacturer": ("ro.product.manufacturer",),
    "soc": ("ro.soc.model", "ro.board.platform", "ro.hardware"),
    "soc_manufacturer": ("ro.soc.manufacturer",),
    "build": ("ro.build.fingerprint",),
    "android": ("ro.build.version.release",),
    "sdk": ("ro.build.version.sdk",),
    "abi": ("ro.product.cpu.abi",),
    "abis": ("ro.product.cpu.abilist",),
}
ORIGIN_PROPERTY = "ro.edgebench.origin"
IDENTITY_SCRIPT = remote_linux.IDENTITY_SCRIPT + remote_report.section("properties", "getprop")


def read_conditions(sections: Mapping[str, str]) -> Conditions:
    """The conditions in what CONDITIONS_SCRIPT printed; None for what was unreadable there.

    The temperature is the hottest processor sensor of the thermal service ("from HAL", not its cached values); without
    one, what /sys says, the skin's, or the battery's.
    """
    seen = remote_linux.read_conditions(sections)
    thermal, battery = sections.get("thermal", ""), sections.get("battery", "")
    level, scale = _battery_number(battery, "level"), _battery_number(battery, "scale")
    tenths = _battery_number(battery, "temperature")
    by_type = _hal_temperatures(thermal)
    choices = (
        max(by_type.get(_CPU, ()), default=None),
        seen.temperature_c,
        max(by_type.get(_SKIN, ()), default=None),
        max(by_type.get(_BATTERY, ()), default=None),
        None if tenths is None else tenths / 10,
    )
    powered = re.findall(r"^\s*\w+ powered: (true|false)", battery, re.MULTILINE)
    status = re.search(r"^Thermal Status: (\d+)", thermal, re.MULTILINE)
    wakefulness = re.search(r"mWakefulness=(\w+)", sections.get("power", ""))
    low_power = sections.get("low_power", "").strip()
    return replace(
        seen,
        temperature_c=next((value for value in choices if value is not None), None),
        battery_fraction=level / scale if level is not None and scale else seen.battery_fraction,
        is_charging="true" in powered if powered else seen.is_charging,
        is_screen_on=None if wakefulness is None else wakefulness[1] == "Awake",
        is_low_power={"0": False, "1": True}.get(low_power),
        thermal_status=None if status is None else int(status[1]),
    )


def read_identity(sections: Mapping[str, str]) -> dict[str, str]:
    """What the device is, from what IDENTITY_SCRIPT printed."""
    properties = read_properties(sections.get("properties", ""))
    facts = remote_linux.read_identity(sections)
    for name, sources in _PROPERTIES.items():
        value = next((properties[source] for source in sources if properties.get(source)), None)
        if value is not None:
            facts[name] = value
    facts.setdefault("cpu", facts.get("soc", ""))
    if "android" in facts:
        facts["os"] = f"Android {facts.pop('android')}"
    return {name: value for name, value in facts.items() if value}


def read_properties(text: str) -> dict[str, str]:
    """What `getprop` printed, as a dict."""
    return dict(re.findall(r"^\[([^\]]+)\]: \[(.*)\]\r?$", text, re.MULTILINE))


def _hal_temperatures(thermal: str) -> dict[str, list[float]]:
    """Degrees Celsius by type, of the block that the hardware layer was asked for just now."""
    _, _, block = thermal.partition("Current temperatures from HAL:")
    block, _, _ = block.partition("Current cooling devices")
    found: dict[str, list[float]] = {}
    for value, kind in re.findall(r"Temperature\{mValue=([^,]+), mType=(-?\d+)", block):
        try:
            degrees = float(value)
        except ValueError:
            continue
        if _PLAUSIBLE_C[0] <= degrees <= _PLAUSIBLE_C[1]:
            found.setdefault(kind, []).append(degrees)
    return found


def _battery_number(battery: str, name: str) -> int | None:
    found = re.search(rf"^\s*{name}: (-?\d+)", battery, re.MULTILINE)
    return None if found is None else int(found[1])
