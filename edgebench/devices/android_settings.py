"""Settings of an Android device that a session changes and puts back."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from edgebench.devices.protocol import CommandResult
from edgebench.errors import EdgebenchError, StageError

Script = Callable[[str], CommandResult]

_STAY_ON = "stay_on_while_plugged_in"
_GET_STAY_ON = f"settings get global {_STAY_ON}"
_FIXED = "cmd power set-fixed-performance-mode-enabled"
_GET_FIXED = "dumpsys power | grep -m1 mFixedPerformanceModeEnabled="


class SessionSettings:
    """Keeps the device awake and its clocks steady while a session lasts.

    - stay-awake, while it is plugged in (`svc power stayon`): a sleeping phone parks its fast cores;
    - fixed-performance mode, where the device has it: clocks that it can hold for long. Few devices tell whether it is
      on; on the others it is put back to off, its state after every start.
    """

    def __init__(self, script: Script, device: str) -> None:
        self._script = script
        self._device = device
        self._undo: list[_Undo] = []

    def apply(self) -> dict[str, str]:
        """Change what can be changed; says what is in force, for the record."""
        return {"stay_awake": self._stay_awake(), "fixed_performance_mode": self._fix_performance()}

    def restore(self) -> None:
        """Put back what `apply` found, and look whether it is so; StageError says what is left to do by hand."""
        undo, self._undo = self._undo, []
        left = [step.command for step in reversed(undo) if not self._is_done(step)]
        if left:
            commands = "; ".join(f"adb shell {command}" for command in left)
            raise StageError(f"device '{self._device}': a setting could not be put back; do it by hand: {commands}")

    def _stay_awake(self) -> str:
        before = self._script(_GET_STAY_ON).stdout.strip()
        if not re.fullmatch(r"\d+|null", before):
            return "unknown"
        undo = f"settings delete global {_STAY_ON}" if before == "null" else f"settings put global {_STAY_ON} {before}"
        # Noted before the change, so that an interrupt in between undoes it too.
        self._undo.append(_Undo(command=undo, look=_GET_STAY_ON, expected=before))
        return "on" if self._script("svc power stayon true").exit_code == 0 else "refused"

    def _fix_performance(self) -> str:
        before = self._script(_GET_FIXED).stdout.strip()
        if before.endswith("=true"):
            return "on"
        look = _GET_FIXED if before else "true"
        undo = _Undo(command=f"{_FIXED} false", look=look, expected=before)
        self._undo.append(undo)
        if self._script(f"{_FIXED} true").exit_code == 0:
            return "on"
        self._undo.remove(undo)
        return "not there"

    def _is_done(self, step: _Undo) -> bool:
        try:
            return self._script(step.command).exit_code == 0 and self._script(step.look).stdout.strip() == step.expected
        except EdgebenchError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Undo:
    """A command that puts a setting back, and what another one must print then."""

    command: str
    look: str
    expected: str
