"""train: a baseline from the user's data."""

import typer


def add_to(app: typer.Typer) -> None: ...
