"""Waiting for a device to cool down: a device whose temperatures are given."""

from __future__ import annotations

import pytest

from edgebench.devices.cooldown import wait_until_cool
from edgebench.types import Conditions


class Oven:
    """Its conditions are one temperature after the other, the last one for ever."""

    def __init__(self, *temperatures_c):
        self._left = list(temperatures_c)

    def conditions(self):
        value = self._left.pop(0) if len(self._left) > 1 else self._left[0]
        return Conditions(at="2026-01-01T00:00:00+00:00", temperature_c=value)


def waited(oven, timeout_s):
    told = []
    last = wait_until_cool(oven, 40, timeout_s, lambda now: told.append(now.temperature_c), interval_s=0.001)
    return told, last.temperature_c


def test_it_waits_until_the_device_is_at_the_limit():
    assert waited(Oven(45, 42, 40), timeout_s=60) == ([45, 42], 40)


def test_a_cool_device_and_one_that_does_not_tell_are_not_waited_for():
    assert waited(Oven(39), timeout_s=60) == ([], 39)
    assert waited(Oven(None), timeout_s=60) == ([], None)


@pytest.mark.parametrize("timeout_s", [0, 0.01])
def test_a_device_that_stays_hot_is_given_up_at_the_time_limit(timeout_s):
    told, last = waited(Oven(50), timeout_s)
    assert last == 50
    assert set(told) <= {50}
