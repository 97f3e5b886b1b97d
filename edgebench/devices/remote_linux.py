"""A remote Linux machine's state and identity: one shell command each, whose text is read here.

The files of /proc and /sys are laid down in a temporary folder, and read there by the code that reads this machine's.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from edgebench.devices import conditions, remote_report
from edgebench.devices.host import TELLING_FLAGS
from edgebench.types import Conditions

_CPU = "/sys/devices/system/cpu"
_ALLOWED = remote_report.section("allowed", "grep -s '^Cpus_allowed_list' /proc/self/status")

CONDITIONS_SCRIPT = (
    remote_report.section("proc/loadavg", "cat /proc/loadavg")
    + remote_report.section("proc/meminfo", "grep -s MemAvailable /proc/meminfo")
    + remote_report.section("proc/cpuinfo", "grep -s '^cpu MHz' /proc/cpuinfo")
    + remote_report.files(_CPU, "cpu[0-9]*/cpufreq/scaling_cur_freq", "cpu[0-9]*/cpufreq/scaling_governor")
    + remote_report.files("/sys/class/hwmon", "hwmon*/name", "hwmon*/temp*_input")
    + remote_report.files("/sys/class/thermal", "thermal_zone*/temp")
    + remote_report.files("/sys/class/power_supply", "*/type", "*/scope", "*/capacity", "*/status")
)
CPUS_SCRIPT = _ALLOWED + remote_report.files(
    _CPU,
    *("online", "cpu[0-9]*/cpu_capacity", "cpu[0-9]*/cpufreq/cpuinfo_max_freq"),
    "cpu[0-9]*/topology/thread_siblings_list",
)
IDENTITY_SCRIPT = (
    _ALLOWED
    + remote_report.section("cpuinfo", "cat /proc/cpuinfo")
    + remote_report.section("release", "cat /etc/os-release")
    + remote_report.section("memory", "grep -s MemTotal /proc/meminfo")
    + remote_report.section("model", "echo $(tr -d '\\000' </proc/device-tree/model)")
    + remote_report.section("kernel", "uname -r")
    + remote_report.section("abi", "uname -m")
    + remote_report.section("page_size_bytes", "getconf PAGESIZE")
)

# What may become a file below the temporary folder; anything else that a device says is left out.
_PATH = re.compile(r"(?:proc|sys)(?:/(?!\.)[\w.,@+-]+)+")


def read_conditions(sections: Mapping[str, str]) -> Conditions:
    """The conditions in what CONDITIONS_SCRIPT printed; None for what was unreadable there."""
    with _tree(sections) as root:
        return conditions.read(root)


def read_cpus(sections: Mapping[str, str]) -> tuple[int, ...]:
    """The allowed and running CPUs in what CPUS_SCRIPT printed: one of every core first, then fastest first.

    Empty when the device does not say.
    """
    with _tree(sections) as root:
        running = conditions.cpu_list(_text(root / _CPU[1:] / "online"))
        return conditions.fastest_first(root, tuple(cpu for cpu in _allowed(sections) if cpu in running or not running))


def read_identity(sections: Mapping[str, str]) -> dict[str, str]:
    """What the machine is, from what IDENTITY_SCRIPT printed; keys as `Host.identity` has them."""
    lines = sections.get("cpuinfo", "").splitlines()
    cpuinfo = _fields(lines, ":")
    release = _fields(sections.get("release", "").splitlines(), "=")
    memory = sections.get("memory", "").split()
    flags = (cpuinfo.get("flags") or cpuinfo.get("Features") or "").split()
    model = sections.get("model", "").strip()
    facts = {
        "model": model,
        "cpu": cpuinfo.get("model name") or cpuinfo.get("Hardware") or cpuinfo.get("Model") or model,
        "cpus_allowed": str(len(_allowed(sections)) or ""),
        "cpus": str(sum(line.startswith("processor") for line in lines) or ""),
        "cpu_flags": " ".join(flag for flag in TELLING_FLAGS if flag in flags),
        "memory_bytes": str(int(memory[1]) * 1024) if len(memory) > 1 and memory[1].isdecimal() else "",
        "os": release.get("PRETTY_NAME", "").strip('"'),
        **{key: sections.get(key, "") for key in ("abi", "kernel", "page_size_bytes")},
        "virtual_machine": "yes" if "hypervisor" in flags else "",
    }
    return {name: value.strip() for name, value in facts.items() if value.strip()}


@contextmanager
def _tree(sections: Mapping[str, str]) -> Iterator[Path]:
    """A temporary folder with the `proc` and `sys` of the sections."""
    with tempfile.TemporaryDirectory(prefix="edgebench-state-") as folder:
        root = Path(folder)
        for path, content in _file_contents(sections):
            if _PATH.fullmatch(path):
                file = root / path
                try:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(content, encoding="utf-8")
                except OSError:  # a path that is both a file and a folder is no state of a machine
                    continue
        yield root


def _file_contents(sections: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, text in sections.items():
        if name.startswith("proc/"):
            yield name, text
        elif name.startswith("sys/"):
            for line in text.splitlines():
                path, _, content = line.partition(":")
                yield f"{name}/{path}", content


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _allowed(sections: Mapping[str, str]) -> tuple[int, ...]:
    return conditions.cpu_list(sections.get("allowed", "").partition(":")[2])


def _fields(lines: list[str], separator: str) -> dict[str, str]:
    """The first value of each name."""
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(separator)
        fields.setdefault(name.strip(), value.strip())
    return fields
