"""Session settings on devices that have less than the virtual phone: a shell whose answers are given."""

from __future__ import annotations

import pytest

from edgebench.devices.android_settings import SessionSettings
from edgebench.devices.protocol import CommandResult
from edgebench.errors import StageError

STAY_ON = "settings get global stay_on_while_plugged_in"
FIXED = "cmd power set-fixed-performance-mode-enabled"
LOOK = "dumpsys power | grep -m1 mFixedPerformanceModeEnabled="


class Shell:
    """Knows (exit status, output) of some commands, and remembers all; the others succeed and print nothing."""

    def __init__(self, answers):
        self.answers = answers
        self.told = []

    def __call__(self, command):
        self.told.append(command)
        status, text = self.answers.get(command, (0, ""))
        return CommandResult(exit_code=status, stdout=text, stderr="", seconds=0.0)


def test_a_device_without_the_mode_is_not_told_to_leave_it():
    shell = Shell({STAY_ON: (0, "0\n"), f"{FIXED} true": (255, "Failed to set FIXED_PERFORMANCE mode\n")})
    settings = SessionSettings(shell, "phone")
    assert settings.apply() == {"stay_awake": "on", "fixed_performance_mode": "not there"}
    settings.restore()
    assert f"{FIXED} false" not in shell.told
    assert shell.told[-2:] == ["settings put global stay_on_while_plugged_in 0", STAY_ON]


def test_a_mode_that_nobody_can_look_at_is_put_back_to_off():
    shell = Shell({STAY_ON: (0, "null\n")})
    settings = SessionSettings(shell, "phone")
    assert settings.apply()["fixed_performance_mode"] == "on"
    settings.restore()
    assert f"{FIXED} false" in shell.told
    assert "settings delete global stay_on_while_plugged_in" in shell.told


def test_a_mode_that_was_on_stays_on():
    shell = Shell({STAY_ON: (0, "0\n"), LOOK: (0, "  mFixedPerformanceModeEnabled=true\n")})
    settings = SessionSettings(shell, "phone")
    assert settings.apply()["fixed_performance_mode"] == "on"
    settings.restore()
    assert not [command for command in shell.told if command.startswith(FIXED)]


def test_a_value_that_can_not_be_read_is_not_changed():
    shell = Shell({STAY_ON: (1, "cmd: Can't find service: settings\n")})
    settings = SessionSettings(shell, "phone")
    assert settings.apply()["stay_awake"] == "unknown"
    assert "svc power stayon true" not in shell.told


def test_a_value_that_does_not_come_back_is_told():
    shell = Shell({STAY_ON: (0, "3\n")})
    settings = SessionSettings(shell, "phone")
    settings.apply()
    shell.answers[STAY_ON] = (0, "7\n")
    with pytest.raises(StageError) as error:
        settings.restore()
    assert str(error.value) == (
        "device 'phone': a setting could not be put back; do it by hand: "
        "adb shell settings put global stay_on_while_plugged_in 3"
    )
    settings.restore()  # told once
