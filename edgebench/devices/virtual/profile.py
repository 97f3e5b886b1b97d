"""What a virtual phone is: its model, CPUs, battery, thermal behaviour and the age of its ADB."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from edgebench.devices.virtual.wire import LARGEST_PAYLOAD, VERSION_WITH_CHECKSUM, VERSION_WITHOUT_CHECKSUM
from edgebench.errors import ConfigError

SHIPPED = Path(__file__).parent / "profiles"
NORMAL_TEMPERATURE_C = 30.0


class Age(StrEnum):
    """The generation of the ADB daemon: Android 5, Android 8, Android 11."""

    OLD = "old"
    MID = "mid"
    NEW = "new"

    @property
    def version(self) -> int:
        return VERSION_WITHOUT_CHECKSUM if self is Age.NEW else VERSION_WITH_CHECKSUM

    @property
    def max_payload(self) -> int:
        return {Age.OLD: 4096, Age.MID: 256 * 1024, Age.NEW: LARGEST_PAYLOAD}[self]

    @property
    def features(self) -> tuple[str, ...]:
        known = ("shell_v2", "cmd", "stat_v2", "ls_v2", "fixed_push_mkdir")
        return known[: {Age.OLD: 0, Age.MID: 3, Age.NEW: 5}[self]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThermalStep:
    """How warm the phone is once `at_s` seconds and `at_commands` shell commands have passed, both since the start.

    `status` is Android's: 0 none, 1 light, 2 moderate, 3 severe, 4 critical, 5 emergency, 6 shutdown.
    """

    at_s: float = 0.0
    at_commands: int = 0
    status: int
    temperature_c: float

    def __post_init__(self) -> None:
        if not 0 <= self.status <= 6:
            raise ConfigError(f"a thermal status is 0 (none) to 6 (shutdown), not {self.status}")
        if self.at_s < 0 or self.at_commands < 0:
            raise ConfigError("a thermal step begins at 0 or later: at_s and at_commands can't be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class Battery:
    level_percent: int = 80
    temperature_c: float = 28.0
    is_charging: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.level_percent <= 100:
            raise ConfigError(f"a battery's level is 0 to 100 percent, not {self.level_percent}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A phone. `cpu_max_khz` has one entry a CPU; CPUs of equal clock are one cluster."""

    model: str = "Virtual Phone"
    manufacturer: str = "edgebench"
    name: str = "virtual"
    soc: str = "Virtual SoC"
    serial: str = "EBVIRTUAL01"
    abis: tuple[str, ...] = ("arm64-v8a", "armeabi-v7a", "armeabi")
    sdk: int = 34
    android_release: str = "14"
    fingerprint: str = "edgebench/virtual/virtual:14/EB1A.000000.001/1:user/release-keys"
    page_size_bytes: int = 4096
    cpu_max_khz: tuple[int, ...] = (1_800_000,) * 4 + (2_400_000,) * 2 + (2_850_000,) * 2
    cpu_min_khz: int = 300_000
    governor: str = "schedutil"
    memory_bytes: int = 8 * 1024**3
    free_bytes: int = 20 * 1000**3
    thermal: tuple[ThermalStep, ...] = ()
    battery: Battery = Battery()
    is_screen_on: bool = True
    is_low_power: bool = False
    age: Age = Age.NEW

    def __post_init__(self) -> None:
        if not self.cpu_max_khz or min(self.cpu_max_khz) < self.cpu_min_khz:
            raise ConfigError("cpu_max_khz needs one clock a CPU, each at least cpu_min_khz")
        if not self.abis:
            raise ConfigError("abis needs at least one ABI, for example arm64-v8a")
        if self.page_size_bytes not in (4096, 16384):
            raise ConfigError(f"page_size_bytes of an Android device is 4096 or 16384, not {self.page_size_bytes}")
        words = (self.model, self.manufacturer, self.name, self.soc, self.serial, self.fingerprint, self.governor)
        for word in words:
            if not word.isprintable() or ";" in word:
                raise ConfigError(f"a profile's words are one line without ';', not {word!r:.60}")

    @property
    def banner(self) -> bytes:
        """What the phone says of itself when it connects."""
        facts = f"ro.product.name={self.name};ro.product.model={self.model};ro.product.device={self.name};"
        features = f"features={','.join(self.age.features)}" if self.age.features else ""
        return f"device::{facts}{features}".encode()


def load_profile(name: str) -> Profile:
    """The profile in the YAML file `name`, or the shipped one of that name.

    Raises:
        ConfigError: there is no such profile, or its file is wrong.
    """
    from edgebench.yaml_files import load

    shipped = {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}
    path = shipped.get(name) or Path(name)
    if not path.is_file():
        raise ConfigError(f"there is no phone profile '{name}'; shipped: {', '.join(shipped)}; or name a YAML file")
    return load(path, Profile)
