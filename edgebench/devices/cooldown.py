"""Wait until a device has cooled down."""

from __future__ import annotations

import time
from collections.abc import Callable

from edgebench.devices.protocol import Device
from edgebench.types import Conditions


def wait_until_cool(
    device: Device,
    limit_c: float,
    timeout_s: float,
    on_wait: Callable[[Conditions], None],
    interval_s: float = 5.0,
) -> Conditions:
    """The first conditions at or below `limit_c` and of thermal status 0, else those after `timeout_s`.

    What a device does not tell is not waited for. `on_wait` gets the conditions before each pause of `interval_s`. Each
    look costs the device one command.
    """
    end = time.monotonic() + timeout_s
    while True:
        now = device.conditions()
        left_s = end - time.monotonic()
        is_cool = (now.temperature_c is None or now.temperature_c <= limit_c) and not now.thermal_status
        if is_cool or left_s <= 0:
            return now
        on_wait(now)
        time.sleep(min(interval_s, left_s))
