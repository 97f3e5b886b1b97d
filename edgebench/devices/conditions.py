"""The state of a Linux machine, read from /proc and /sys; what can't be read is None, never a guess or a crash."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from edgebench.types import Conditions

# hwmon chips that sit in the processor; others (disks, network cards) say nothing about its throttling.
_CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal", "soc_thermal", "scpi_sensors")
_MOST_CPUS = 8192  # what a Linux kernel can be built for
_PLAUSIBLE_C = (1.0, 150.0)  # firmware reports 0, -274 or 255 for a sensor that is absent


def read(root: Path = Path("/")) -> Conditions:
    """The conditions of this machine now. `root` is the folder that holds its `proc` and `sys`."""
    capacity, is_charging = _battery(root)
    return Conditions(
        at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        temperature_c=_temperature_c(root),
        cpu_clocks_mhz=_cpu_clocks_mhz(root),
        governor=_governor(root),
        load_1min=_load_1min(root),
        free_memory_bytes=_free_memory_bytes(root),
        battery_fraction=capacity,
        is_charging=is_charging,
    )


def max_clocks(root: Path, cpus: tuple[int, ...]) -> dict[int, int]:
    """The highest clock of each CPU in kHz, or its relative capacity where clocks are hidden; 0 is unknown."""
    folder = root / "sys/devices/system/cpu"
    return {
        cpu: _number(folder / f"cpu{cpu}/cpufreq/cpuinfo_max_freq") or _number(folder / f"cpu{cpu}/cpu_capacity") or 0
        for cpu in cpus
    }


def core_mates(root: Path, cpu: int) -> tuple[int, ...]:
    """The CPUs that share a physical core with `cpu`, itself included, ascending."""
    text = _text(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    return tuple(sorted({cpu, *cpu_list(text or "")}))


def cpu_list(text: str) -> tuple[int, ...]:
    """The CPUs of a kernel's list such as "0-3,7", ascending; what is no list is empty."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal() and (not last or last.isdecimal()) and int(last or first) < _MOST_CPUS:
            cpus.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(cpus))


def fastest_first(root: Path, cpus: tuple[int, ...]) -> tuple[int, ...]:
    """These CPUs, one of every core before any core's second thread, and fastest first."""
    clocks = max_clocks(root, cpus)
    place_in_core = {cpu: core_mates(root, cpu).index(cpu) for cpu in cpus}
    return tuple(sorted(cpus, key=lambda cpu: (place_in_core[cpu], -clocks[cpu], cpu)))


def _temperature_c(root: Path) -> float | None:
    """The hottest processor sensor; without one, the hottest thermal zone."""
    sensors = [
        value
        for chip in _glob(root / "sys/class/hwmon", "*")
        if _text(chip / "name") in _CPU_SENSORS
        for value in _degrees(_glob(chip, "temp*_input"))
    ]
    return max(sensors or _degrees(_glob(root / "sys/class/thermal", "thermal_zone*/temp")), default=None)


def _degrees(files: Iterator[Path]) -> list[float]:
    values = [value / 1000 for value in map(_number, files) if value is not None]
    return [value for value in values if _PLAUSIBLE_C[0] <= value <= _PLAUSIBLE_C[1]]


def _cpu_clocks_mhz(root: Path) -> tuple[float, ...] | None:
    files = _glob(root / "sys/devices/system/cpu", "cpu[0-9]*/cpufreq/scaling_cur_freq")
    by_cpu = sorted((int(file.parent.parent.name[3:]), _number(file)) for file in files)
    clocks = [khz / 1000 for _, khz in by_cpu if khz is not None]
    if not clocks:
        lines = (_text(root / "proc/cpuinfo") or "").splitlines()
        clocks = [float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]
    return tuple(clocks) or None


def _governor(root: Path) -> str | None:
    files = _glob(root / "sys/devices/system/cpu", "cpu[0-9]*/cpufreq/scaling_governor")
    names = {name for name in map(_text, files) if name}
    return "+".join(sorted(names)) or None


def _load_1min(root: Path) -> float | None:
    fields = (_text(root / "proc/loadavg") or "").split()
    try:
        return float(fields[0])
    except (IndexError, ValueError):
        return None


def _free_memory_bytes(root: Path) -> int | None:
    for line in (_text(root / "proc/meminfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable" and value.split():
            return int(value.split()[0]) * 1024
    return None


def _battery(root: Path) -> tuple[float | None, bool | None]:
    for supply in _glob(root / "sys/class/power_supply", "*"):
        if _text(supply / "type") == "Battery" and _text(supply / "scope") != "Device":  # not a mouse's
            capacity, status = _number(supply / "capacity"), _text(supply / "status")
            return (
                None if capacity is None else capacity / 100,
                None if status in (None, "Unknown") else status != "Discharging",
            )
    return None, None


def _glob(folder: Path, pattern: str) -> Iterator[Path]:
    try:
        yield from sorted(folder.glob(pattern))
    except OSError:
        return


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _number(path: Path) -> int | None:
    try:
        return int(_text(path) or "")
    except ValueError:
        return None
