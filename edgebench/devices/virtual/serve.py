"""One virtual phone until SIGTERM or Ctrl-C, for other programs of this machine."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

from edgebench.devices.virtual.phone import VirtualPhone


def serve(phone: VirtualPhone, on_address: Callable[[str], None]) -> None:
    """Start the phone, tell its address, and stop it at the signal; InputError as `VirtualPhone.start` says."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with phone:
        on_address(phone.address)
        ended.wait()
