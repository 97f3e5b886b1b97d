"""The command line: parsing, progress and printing. What is done lives in the packages that the commands call."""

from __future__ import annotations

import contextlib
import errno
import json
import sys
from typing import Annotated

import typer
from typer.exceptions import TyperException

from edgebench import __version__
from edgebench.cli import devices, environments, look, measuring, training
from edgebench.errors import EdgebenchError
from edgebench.naming import printable

INTERRUPTED = 130
_GOES_ON = "interrupted; the same command goes on from here"

app = typer.Typer(
    name="edgebench",
    epilog="Start with:  edgebench convert+measure zoo:digits-cnn-keras --data digits",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help starts in half the time
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"edgebench {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Which file to ship to which device, what it costs in accuracy, and whether the number can be trusted."""


measuring.add_to(app)
look.add_to(app)
training.add_to(app)
environments.add_to(app)
devices.add_to(app)


def main() -> None:
    """Run the command; our errors become one line on stderr, with --json also a document on stdout, and a status.

    0 fine, 1 a cell failed or a budget was missed, 2 the command or a file is wrong, 3 something needed is missing.
    """
    try:
        status = _call()
        if status == INTERRUPTED:  # typer ends a command so on Ctrl-C
            status = _told(_GOES_ON, INTERRUPTED)
    except EdgebenchError as error:
        status = _told(str(error), error.exit_status)
    except TyperException as error:
        context = getattr(error, "ctx", None)  # of the command whose words are wrong
        command = context.command_path if context else "edgebench"
        status = _told(f"{error.format_message().rstrip('.')}; see {command} --help", 2)
    except (KeyboardInterrupt, typer.Abort):
        status = _told(_GOES_ON, INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output went away
        status = 0
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        status = _told(f"can't go on: {error.strerror or error}{where}", 3 if is_full else 2)
    sys.exit(status or 0)


def _call() -> int | None:
    """The command's status; 2 and the help for a group of commands that is called without one."""
    try:
        status: int | None = app(prog_name="edgebench", standalone_mode=False)
    except TyperException as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # typer keeps the class to itself
            raise
        print(error.format_message(), flush=True)
        return 2
    return status


def _told(text: str, status: int) -> int:
    line = printable(" ".join(text.split()))
    print(f"edgebench: {line}", file=sys.stderr)
    if "--json" in sys.argv[1:]:
        with contextlib.suppress(OSError):  # stdout may be what failed
            print(json.dumps({"error": {"message": line, "exit_status": status}}), flush=True)
    return status
