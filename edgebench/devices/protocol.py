"""The narrow seam between edgebench and a device: what every driver must do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edgebench.types import Conditions, DeviceSpec, Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What a command on the device did. `exit_code` is the device's own; negative is a signal's number."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float


class Device(Protocol):
    """A machine that runs models. Remote paths are relative to a work folder of this session, removed by `close`."""

    spec: DeviceSpec
    origin: Origin

    def identity(self) -> dict[str, str]:
        """What the device is: model, SoC, OS, ABI, cores, memory ... for the record's environment."""

    def conditions(self) -> Conditions:
        """The device's state now."""

    def cpus(self) -> tuple[int, ...]:
        """The CPUs that a process may use, fastest first."""

    def push(self, local: Path, remote: str) -> None:
        """Copy a file to the device and prove by its hash that it arrived whole."""

    def pull(self, remote: str, local: Path) -> None:
        """Copy a file from the device and prove it likewise."""

    def runtime_command(self, runtime: str) -> Sequence[str]:
        """The command of a Python that has `runtime` on this device; MissingError says how to get it."""

    def run(self, argv: Sequence[str], timeout_s: float) -> CommandResult:
        """Run a command in the work folder; ChildTimeoutError when it had to be ended after `timeout_s`."""

    def close(self) -> None:
        """Remove the work folder and restore what was changed."""
