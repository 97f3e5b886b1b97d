"""env: side environments for tools that can't share ours."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from edgebench.cli import options, results
from edgebench.errors import MissingError

env_app = typer.Typer(no_args_is_help=True, help="Side environments for tools that can't share ours.")


def add_to(app: typer.Typer) -> None:
    env_app.command("make", epilog="Example:  edgebench env make onnx2tf")(make)
    env_app.command("list", epilog="Example:  edgebench env list")(list_environments)
    app.add_typer(env_app, name="env")


def make(
    name: Annotated[str, typer.Argument(metavar="NAME", help="onnx2tf (ONNX to TFLite) or tflite-runtime.")],
    as_json: options.Json = False,
) -> None:
    """Make a side environment once; edgebench keeps it and uses it by itself."""
    from edgebench import environments

    print(f"Making the environment '{name}'; this takes a few minutes ...", file=sys.stderr)
    python = environments.make(name)
    results.print_text(json.dumps({"name": name, "python": str(python)}) if as_json else f"{name}: {python}")


def list_environments(as_json: options.Json = False) -> None:
    """List the side environments and whether each is made."""
    from edgebench import environments

    found = {name: _python_if_made(name) for name in environments.names()}
    if as_json:
        results.print_text(
            json.dumps([{"name": name, "python": str(python) if python else None} for name, python in found.items()])
        )
        return
    for name, python in found.items():
        print(f"{name}: {python or f'not made; make it with: edgebench env make {name}'}")


def _python_if_made(name: str) -> Path | None:
    from edgebench import environments

    try:
        return environments.python_of(name)
    except MissingError:
        return None
