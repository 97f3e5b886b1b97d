"""Torch snapshots: an ExportedProgram in a .pt2 archive, opened only when nothing in it runs code."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from edgebench.errors import ModelError, one_line
from edgebench.models.contents import Contents, hash_files
from edgebench.types import TensorSpec

# Shapes are written as sympy expressions, which torch gives to `sympify`, and that evaluates them as Python. Allowed
# are numbers, symbols (s0, u1), sympy's classes (Symbol, Mod, Max) and their keywords; no attribute, no other name.
_NAME = r"[su]\d+|[A-Z][A-Za-z]*|positive|integer|nonnegative|real"
_SHAPE_EXPRESSION = re.compile(rf"(?:\b(?:{_NAME})\b|\b\d+(?:\.\d+)?\b|['()+\-*/%,<>=&|~ ])*")


def open_program(path: Path, *, trust: bool) -> Any:
    """The ExportedProgram of a .pt2 file.

    Raises:
        ModelError: the file is corrupt, holds pickled objects or compiled code without `trust`, or was exported in
            training mode.
    """
    import torch

    if not trust:
        _refuse_code(path)
    try:
        program = torch.export.load(path)
    except Exception as error:  # torch documents no set of errors for a corrupt archive
        raise ModelError(f"{path} can't be loaded as an ExportedProgram: {one_line(error)}") from error
    operator = training_operator(program)
    if operator:
        raise ModelError(f"{path} was exported in training mode ({operator}): call model.eval() before torch.export")
    return program


def training_operator(program: Any) -> str | None:
    """The first operator that runs in training mode (batch statistics, active dropout); None where there is none."""
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        for index, argument in enumerate(schema.arguments if schema else ()):
            if argument.name in ("train", "training"):
                given = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
                if given is True:
                    return str(node.target)
    return None


def read(path: Path, *, trust: bool = False) -> Contents:
    """What a .pt2 holds: inputs by forward()'s parameter names, outputs as `name_outputs` says; NCHW where 4-d.

    Raises:
        ModelError: as `open_program`, or an input that is not a tensor.
    """
    program = open_program(path, trust=trust)
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    inputs = tuple(_spec(str(name), values.get(str(name))) for name in program.graph_signature.user_inputs)
    tensors = [
        values.get(str(name)) if isinstance(name, str) else None for name in program.graph_signature.user_outputs
    ]
    structure = program.call_spec.out_spec.unflatten(tensors)
    outputs = tuple(_spec(name, value) for name, value in name_outputs(structure).items())
    weights = [*program.state_dict.values()]
    return Contents(
        inputs=inputs,
        outputs=outputs,
        parameters=sum(weight.numel() for weight in weights if type(weight).__name__ == "Parameter"),
        sha256=hash_files([path]),
    )


def runner(program: Any, names: Sequence[str]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The program as a function from tensors by name to tensors by name; `names` are its inputs in its own order."""
    module = program.module()
    positional, keywords = program.call_spec.in_spec.children()
    by_position = names[: positional.num_leaves]
    by_keyword = dict(zip(keywords.context, names[positional.num_leaves :], strict=True))

    def run(tensors: dict[str, Any]) -> dict[str, Any]:
        named = {keyword: tensors[name] for keyword, name in by_keyword.items()}
        return name_outputs(module(*(tensors[name] for name in by_position), **named))

    return run


def name_outputs(result: Any) -> dict[str, Any]:
    """The tensors of what forward() returned, by name: `output` for one tensor, `output_0` ... for several, else the
    keys of the dict; nested ones are joined by `_`. What is no tensor is left out."""
    import torch

    named = {"_".join(parts): value for parts, value in _leaves(result, ()) if isinstance(value, torch.Tensor)}
    if list(named) in ([""], ["0"]):
        return {"output": next(iter(named.values()))}
    return {f"output_{name}" if name[0].isdigit() else name: value for name, value in named.items()}


def _leaves(result: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(result, dict):
        for key, value in result.items():
            yield from _leaves(value, (*path, str(key)))
    elif isinstance(result, tuple) and hasattr(result, "_fields"):
        for key in result._fields:
            yield from _leaves(getattr(result, key), (*path, key))
    elif isinstance(result, list | tuple):
        for index, value in enumerate(result):
            yield from _leaves(value, (*path, str(index)))
    else:
        yield path, result


def _spec(name: str, value: Any) -> TensorSpec:
    import torch

    if not isinstance(value, torch.Tensor):
        raise ModelError(f"input or output '{name}' is a {type(value).__name__}; only tensors can be converted")
    shape = tuple(size if isinstance(size, int) else None for size in value.shape)
    return TensorSpec(
        name=name,
        shape=shape,
        dtype=str(value.dtype).removeprefix("torch."),
        layout="NCHW" if len(shape) == 4 else None,
    )


def _refuse_code(path: Path) -> None:
    """Raise ModelError where opening the archive would unpickle objects, load a library or evaluate an expression."""
    import torch

    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.namelist()
            if len(set(entries)) != len(entries):
                raise ModelError(f"{path} holds two entries of one name")
            for entry in entries:
                short = entry.partition("/")[2] or entry
                if "aotinductor" in short or "custom_obj" in short or "opaque_obj" in short:
                    raise ModelError(
                        f"{path} holds compiled code or pickled objects ({short}); if you trust it add --trust"
                    )
                if short.endswith(".pt"):
                    content = archive.read(entry)
                    if content:
                        torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
                if short.endswith(".json"):
                    _refuse_json(path, json.loads(archive.read(entry)))
    except ModelError:
        raise
    except Exception as error:  # zipfile, json and torch.load raise what the damage makes them
        if "weights_only" in str(error):
            raise ModelError(f"{path} holds pickled objects, which run code; if you trust it add --trust") from error
        raise ModelError(f"{path} is corrupt or no .pt2 archive: {one_line(error, 160)}") from error


def _refuse_json(path: Path, value: Any) -> None:
    if isinstance(value, dict):
        if value.get("use_pickle") is True:
            raise ModelError(f"{path} holds pickled tensors, which run code when loaded; if you trust it add --trust")
        expression = value.get("expr_str")
        if isinstance(expression, str) and not _SHAPE_EXPRESSION.fullmatch(expression):
            raise ModelError(f"{path} holds a shape that is no plain expression: '{expression[:60]}'")
        for each in value.values():
            _refuse_json(path, each)
    elif isinstance(value, list):
        for each in value:
            _refuse_json(path, each)
