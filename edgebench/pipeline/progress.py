"""What a pipeline tells while it works; the command line decides how to show it."""

from __future__ import annotations

from typing import Protocol


class Reporter(Protocol):
    def phase(self, text: str, steps: int | None) -> None:
        """A new phase begins, of so many steps (None: unknown)."""

    def step(self, text: str) -> None:
        """One step of the phase is done; `text` says what came out."""

    def detail(self, text: str) -> None:
        """Something is about to be worked on."""

    def notice(self, text: str) -> None:
        """The user should know this now: the work waits, and why."""


class Silent:
    """Tells nothing."""

    def phase(self, text: str, steps: int | None) -> None:
        pass

    def step(self, text: str) -> None:
        pass

    def detail(self, text: str) -> None:
        pass

    def notice(self, text: str) -> None:
        pass
