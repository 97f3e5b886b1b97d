"""What all processes on devices have in common: a line in the run's log, and an end by a signal that is told."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgebench.devices.protocol import CommandResult
from edgebench.errors import ChildDiedError, EdgebenchError

LOGGED_CHARACTERS = 4000  # of what a process printed; its last words tell why it ended


@contextlib.contextmanager
def logged(log: Path, facts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A block whose `facts`, with its seconds and the error that left it, become a line of JSON in the file `log`."""
    started = time.monotonic()
    try:
        yield facts
    except EdgebenchError as error:
        facts["error"] = str(error)
        raise
    finally:
        facts["seconds"] = round(time.monotonic() - started, 3)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(facts) + "\n")


def refuse_signal(finished: CommandResult, where: str) -> None:
    """Raise ChildDiedError for a process that a signal ended."""
    if finished.exit_code < 0:
        name = signal.Signals(-finished.exit_code).name
        hint = " (often: out of memory)" if name == "SIGKILL" else ""
        raise ChildDiedError(f"{where}: its process was ended by {name}{hint}")
