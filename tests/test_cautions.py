"""Every caution that the package makes says what to do next, or that there is nothing to do."""

from __future__ import annotations

import ast
from pathlib import Path

import edgebench

PACKAGE = Path(edgebench.__file__).parent
# They tell what was done; there is nothing left to do about it.
WITHOUT_ADVICE = {"checkpoint-prefix"}


def made() -> list[tuple[str, dict[str | None, ast.expr]]]:
    """Where each Caution is constructed, and its arguments by name."""
    return [
        (f"{module.relative_to(PACKAGE)}:{node.lineno}", {keyword.arg: keyword.value for keyword in node.keywords})
        for module in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and (node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")) == "Caution"
    ]


def test_every_caution_is_made_with_advice() -> None:
    assert len(made()) > 40
    assert [where for where, given in made() if not {"code", "message", "advice"} <= given.keys()] == []


def test_advice_is_empty_only_where_nothing_can_be_done() -> None:
    empty = {
        ast.literal_eval(given["code"])
        for _, given in made()
        if isinstance(given["advice"], ast.Constant) and not given["advice"].value
    }
    assert empty == WITHOUT_ADVICE
