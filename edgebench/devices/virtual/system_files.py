"""The texts of a phone's system: properties, settings, dumpsys, sysfs and proc files, made from its profile."""

from __future__ import annotations

from pathlib import Path

from edgebench.devices.virtual.profile import Profile, ThermalStep

_SLOWED = (1.0, 0.95, 0.85, 0.7, 0.5, 0.4, 0.3)  # a CPU's clock at each thermal status; made up, falling as on phones


def write_settings(folder: Path, profile: Profile, origin: str) -> None:
    """What shims read and change: one file a property, setting and switch."""
    _write_all(folder / "props", properties(profile, origin))
    settings = {"low_power": str(int(profile.is_low_power)), "stay_on_while_plugged_in": "0", "airplane_mode_on": "0"}
    _write_all(folder / "settings", {f"global.{name}": value for name, value in settings.items()})
    _write_all(folder / "power", {"screen": str(int(profile.is_screen_on)), "fixed_performance": "0"})
    facts = {"cpus": str(len(profile.cpu_max_khz)), "page_size": str(profile.page_size_bytes)}
    _write_all(folder / "facts", facts)


def write_state(root: Path, folder: Path, profile: Profile, thermal: ThermalStep) -> None:
    """What changes by itself: heat and clocks; and the rest of /sys and /proc beside it."""
    services = {"thermalservice": thermal_text(profile, thermal), "battery": battery_text(profile), "cpuinfo": _CPUINFO}
    _write_all(folder / "dumpsys", services)
    for path, text in {**_cpu_files(profile, thermal), **_sensor_files(profile, thermal)}.items():
        _write(root / "sys" / path, text + "\n")
    for name, text in _proc_files(profile).items():
        _write(root / "proc" / name, text)


def write_free(folder: Path, free_bytes: int) -> None:
    """What `df` tells."""
    _write(folder / "facts/free_kib", str(free_bytes // 1024))


def properties(profile: Profile, origin: str) -> dict[str, str]:
    return {
        "ro.build.characteristics": "nosdcard",
        "ro.build.fingerprint": profile.fingerprint,
        "ro.build.type": "user",
        "ro.build.version.release": profile.android_release,
        "ro.build.version.sdk": str(profile.sdk),
        "ro.debuggable": "0",
        "ro.edgebench.origin": origin,
        "ro.hardware": profile.name,
        "ro.product.brand": profile.manufacturer,
        "ro.product.cpu.abi": profile.abis[0],
        "ro.product.cpu.abilist": ",".join(profile.abis),
        "ro.product.device": profile.name,
        "ro.product.manufacturer": profile.manufacturer,
        "ro.product.model": profile.model,
        "ro.product.name": profile.name,
        "ro.serialno": profile.serial,
        "ro.soc.manufacturer": profile.manufacturer,
        "ro.soc.model": profile.soc,
        "sys.boot_completed": "1",
    }


def thermal_text(profile: Profile, thermal: ThermalStep) -> str:
    """As `dumpsys thermalservice` of Android 11 and later."""
    battery_c = profile.battery.temperature_c
    values = ((thermal.temperature_c, 0, "CPU"), (battery_c, 2, "BATTERY"), (thermal.temperature_c, 3, "SKIN"))
    lines = [
        f"\tTemperature{{mValue={value:.1f}, mType={kind}, mName={name}, mStatus={thermal.status if kind != 2 else 0}}}"
        for value, kind, name in values
    ]
    temperatures = "\n".join(lines)
    return f"""IsStatusOverride: false
ThermalEventListeners:
	callbacks: 1
	killed: false
	broadcasts count: -1
ThermalStatusListeners:
	callbacks: 1
	killed: false
	broadcasts count: -1
Thermal Status: {thermal.status}
Cached temperatures:
{temperatures}
HAL Ready: true
HAL connection:
	ThermalHAL 2.0 connected: yes
Current temperatures from HAL:
{temperatures}
Current cooling devices from HAL:
	CoolingDevice{{mValue={thermal.status}, mType=2, mName=thermal-cpufreq-0}}
Temperature static thresholds from HAL:
"""


def battery_text(profile: Profile) -> str:
    """As `dumpsys battery`: the temperature in tenths of a degree, the voltage in millivolts."""
    battery = profile.battery
    status = 5 if battery.level_percent == 100 else 2 if battery.is_charging else 3  # full, charging, discharging
    return f"""Current Battery Service state:
  AC powered: false
  USB powered: {str(battery.is_charging).lower()}
  Wireless powered: false
  Max charging current: {500000 if battery.is_charging else 0}
  Max charging voltage: {5000000 if battery.is_charging else 0}
  Charge counter: {battery.level_percent * 40000}
  status: {status}
  health: 2
  present: true
  level: {battery.level_percent}
  scale: 100
  voltage: {3500 + 7 * battery.level_percent}
  temperature: {round(battery.temperature_c * 10)}
  technology: Li-ion
"""


_CPUINFO = """Load: 0.2 / 0.2 / 0.2
CPU usage from 30000ms to 0ms ago:
1.0% TOTAL: 0.6% user + 0.4% kernel
"""


def _cpu_files(profile: Profile, thermal: ThermalStep) -> dict[str, str]:
    all_cpus = f"0-{len(profile.cpu_max_khz) - 1}"
    files = {f"devices/system/cpu/{name}": all_cpus for name in ("possible", "present", "online")}
    for number, max_khz in enumerate(profile.cpu_max_khz):
        now = str(max(profile.cpu_min_khz, int(max_khz * _SLOWED[thermal.status])))
        values = {"cpuinfo_min_freq": str(profile.cpu_min_khz), "cpuinfo_max_freq": str(max_khz)}
        values |= {"scaling_min_freq": str(profile.cpu_min_khz), "scaling_max_freq": now, "scaling_cur_freq": now}
        values["scaling_governor"] = profile.governor
        values["scaling_available_governors"] = f"{profile.governor} performance"
        files |= {f"devices/system/cpu/cpu{number}/cpufreq/{name}": value for name, value in values.items()}
    return files


def _sensor_files(profile: Profile, thermal: ThermalStep) -> dict[str, str]:
    """Thermal zones (thousandths of a degree) and the battery."""
    zones = (
        ("cpu", thermal.temperature_c),
        ("skin", thermal.temperature_c),
        ("battery", profile.battery.temperature_c),
    )
    files = {}
    for number, (name, temperature_c) in enumerate(zones):
        files[f"class/thermal/thermal_zone{number}/type"] = name
        files[f"class/thermal/thermal_zone{number}/temp"] = str(round(temperature_c * 1000))
    battery = {"type": "Battery", "scope": "System", "capacity": str(profile.battery.level_percent)}
    battery["status"] = "Charging" if profile.battery.is_charging else "Discharging"
    battery["temp"] = str(round(profile.battery.temperature_c * 10))  # tenths of a degree
    files |= {f"class/power_supply/battery/{name}": value for name, value in battery.items()}
    return files


def _proc_files(profile: Profile) -> dict[str, str]:
    features = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp"
    cpus = "".join(
        f"processor\t: {number}\nBogoMIPS\t: 49.15\nFeatures\t: {features}\nCPU implementer\t: 0x41\n"
        f"CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n"
        for number in range(len(profile.cpu_max_khz))
    )
    total = profile.memory_bytes // 1024
    memory = f"MemTotal: {total:>15} kB\nMemFree: {total // 4:>16} kB\nMemAvailable: {total // 2:>11} kB\n"
    version = f"Linux version 5.15.110-edgebench-virtual (Android {profile.android_release})\n"
    return {"cpuinfo": cpus, "meminfo": memory, "loadavg": "0.20 0.20 0.20 1/900 4000\n", "version": version}


def _write_all(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        _write(folder / name, text)


def _write(path: Path, text: str) -> None:
    """Whole or not at all for a reader; not for a power cut, which a phone's state does not outlive."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
