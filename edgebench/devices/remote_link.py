"""The narrow seam under every remote device: a shell and two file transfers over some connection."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellResult:
    """What the device's shell said. `exit_code` is the one that it reported itself, 0-255."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class Link(Protocol):
    """One connection to a device. Whatever goes wrong is a StageError of one line, and the link is then of no more use.

    Remote paths are absolute. Nothing is proven here: `remote_device` compares what arrived.
    """

    def shell(self, command: str, timeout_s: float) -> ShellResult:
        """Run a line of POSIX shell; a result whose end did not arrive within `timeout_s` is an error."""

    def push(self, local: Path, remote: str, mode: int) -> None:
        """Copy a file to the device, with the permission bits `mode`."""

    def pull(self, remote: str, local: Path) -> None:
        """Copy a file from the device."""

    def close(self) -> None:
        """End the connection; never raises."""
