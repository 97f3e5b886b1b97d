"""What can go wrong with a virtual phone, on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.devices.virtual.profile import ThermalStep
from edgebench.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The faults that are on; a field at its default is a fault that is off.

    Transport: `is_offline` accepts a connection and never answers; `is_unauthorized` knows no key; `link_bytes_per_s`
    limits both directions.

    Push: `drop_push_after_bytes` cuts the connection, the first `drops` times that a push gets so far;
    `short_push_bytes` acknowledges a push and stores that many bytes fewer; `disk_full_after_bytes` leaves that much
    space (pushes and `df` know; what shell commands write is not limited); `is_read_only` refuses every push.

    Commands: `is_exec_denied` keeps files from becoming executable; `is_timeout_ignored` lets commands outlive their
    limit; `is_exit_code_lost` ends a shell (v2) without telling its status.

    Heat: `thermal_rise` happens after its `at_s` and `at_commands`, counted from when this fault was put in.
    """

    is_offline: bool = False
    is_unauthorized: bool = False
    link_bytes_per_s: float | None = None
    drop_push_after_bytes: int | None = None
    drops: int = 1
    short_push_bytes: int = 0
    disk_full_after_bytes: int | None = None
    is_read_only: bool = False
    is_exec_denied: bool = False
    is_timeout_ignored: bool = False
    is_exit_code_lost: bool = False
    thermal_rise: ThermalStep | None = None

    def __post_init__(self) -> None:
        if self.link_bytes_per_s is not None and self.link_bytes_per_s <= 0:
            raise ConfigError(f"link_bytes_per_s must be more than 0, not {self.link_bytes_per_s:g}; see is_offline")
        counts = (self.drop_push_after_bytes or 0, self.disk_full_after_bytes or 0, self.short_push_bytes, self.drops)
        if min(counts) < 0:
            raise ConfigError("a fault's bytes and counts can't be negative")


def parse_faults(words: Sequence[str]) -> Faults:
    """Faults said as `NAME` or `NAME=VALUE`, the value in YAML: `is_offline`, `thermal_rise={status: 3, ...}`.

    Raises:
        ConfigError: a fault is unknown or its value wrong.
    """
    import yaml

    from edgebench.yaml_files import Document, parse

    said: dict[str, Any] = {}
    for word in words:
        name, _, value = word.partition("=")
        try:
            said[name] = yaml.safe_load(value) if value else True
        except yaml.YAMLError as error:
            raise ConfigError(f"fault '{name}': the value {value!r:.60} is not YAML") from error
    return parse(Document(path=Path("faults"), content=said, lines={}), Faults)
