"""Progress on stderr: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from edgebench.naming import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class PlainProgress:
    """One line a phase and a step; every step's detail too when it is verbose, nothing when it is quiet."""

    def __init__(self, *, quiet: bool, verbose: bool) -> None:
        self._quiet = quiet
        self._verbose = verbose

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def phase(self, text: str, steps: int | None) -> None:
        self._say(text + (f" ({steps} steps)" if steps else "") + " ...")

    def step(self, text: str) -> None:
        if text:
            self._say(f"  {text}")

    def detail(self, text: str) -> None:
        if self._verbose:
            self._say(f"    {text}")

    def notice(self, text: str) -> None:
        self._say(text)

    def _say(self, text: str) -> None:
        if not self._quiet:
            print(f"[{time.strftime('%H:%M:%S')}] {printable(text)}", file=sys.stderr, flush=True)


class BarProgress:
    """A bar for the phase at work, and a line that stays for each step that has something to say."""

    def __init__(self, *, verbose: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._verbose = verbose
        self._progress: Progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}", markup=False),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> BarProgress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def phase(self, text: str, steps: int | None) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(printable(text), total=steps, detail="")

    def step(self, text: str) -> None:
        if self._task is not None:
            self._progress.advance(self._task)
        if text:
            self._progress.console.print(f"  {printable(text)}", markup=False, highlight=False)

    def detail(self, text: str) -> None:
        if self._task is not None:
            self._progress.update(self._task, detail=printable(text))
        if self._verbose:
            self._progress.console.print(f"    {printable(text)}", markup=False, highlight=False)

    def notice(self, text: str) -> None:
        self._progress.console.print(printable(text), markup=False, highlight=False)


def reporter(*, quiet: bool, verbose: bool) -> PlainProgress | BarProgress:
    """The right progress for where stderr goes; use it as a context manager."""
    if quiet or not sys.stderr.isatty():
        return PlainProgress(quiet=quiet, verbose=verbose)
    return BarProgress(verbose=verbose)
