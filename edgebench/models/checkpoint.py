"""Torch checkpoints: read weights without running a pickle, and fit them to a module by name, all or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from edgebench.errors import MissingError, ModelError, one_line
from edgebench.types import Caution

_WRAPPERS = ("state_dict", "model_state_dict", "model")


def load_into(module: Any, path: Path) -> tuple[Caution, ...]:
    """Give a torch module the weights of a .pt, .pth or .safetensors file; a prefix common to all keys is taken off.

    Raises:
        ModelError: the file is corrupt or holds a pickled object, keys are missing or unexpected, or shapes differ.
    """
    state, cautions = _unwrapped(read(path), path)
    expected = module.state_dict()
    state, stripped = _without_prefix(state, set(expected))
    if stripped:
        cautions += (
            Caution(
                code="checkpoint-prefix",
                message=f"every key of {path.name} starts with '{stripped}' (of a wrapped model); it was taken off",
                advice="",
            ),
        )
    refuse_other_keys(path, expected=set(expected), found=set(state))
    shapes = [
        f"{key} is {tuple(state[key].shape)}, the model needs {tuple(value.shape)}"
        for key, value in expected.items()
        if tuple(state[key].shape) != tuple(value.shape)
    ]
    if shapes:
        raise ModelError(f"weights '{path}' have {len(shapes)} wrong shapes: {_first(shapes)}")
    module.load_state_dict(state)
    return cautions


def read(path: Path) -> dict[str, Any]:
    """The content of a checkpoint, on the CPU; nothing in it is executed.

    Raises:
        ModelError: it is corrupt, or not a dict of tensors.
        MissingError: a .safetensors file, and the package is absent.
    """
    import torch

    if path.suffix == ".safetensors":
        try:
            from safetensors.torch import load_file
        except ImportError as error:
            raise MissingError(f"weights '{path}' need the package 'safetensors': pip install safetensors") from error
        try:
            return dict(load_file(path))
        except Exception as error:  # SafetensorError is not a subclass of anything narrower
            raise ModelError(f"weights '{path}' can't be read: {one_line(error)}") from error
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises RuntimeError, UnpicklingError, EOFError, KeyError ... by the damage
        if "weights_only" in str(error) or "Unsupported global" in str(error):
            raise ModelError(
                f"weights '{path}' hold a pickled object, which runs code when it is loaded; save model.state_dict()"
            ) from error
        raise ModelError(f"weights '{path}' can't be read: {one_line(error, 160)}") from error
    if not isinstance(content, Mapping):
        raise ModelError(f"weights '{path}' hold a {type(content).__name__}, not a state_dict")
    return dict(content)


def refuse_other_keys(path: Path, *, expected: Set[str], found: Set[str]) -> None:
    """Raise ModelError that lists what is missing and what is unexpected, unless both sets of names are equal."""
    missing, unexpected = sorted(expected - found), sorted(found - expected)
    parts = []
    if missing:
        parts.append(f"{len(missing)} of {len(expected)} keys are missing ({_first(missing)})")
    if unexpected:
        parts.append(f"{len(unexpected)} keys are unexpected ({_first(unexpected)})")
    if parts:
        raise ModelError(f"weights '{path}' are not this model's: {'; '.join(parts)}")


def _unwrapped(content: dict[str, Any], path: Path) -> tuple[dict[str, Any], tuple[Caution, ...]]:
    """The state_dict itself, where a training loop saved it beside the epoch and the optimizer."""
    import torch

    cautions: tuple[Caution, ...] = ()
    for key in _WRAPPERS:
        inner = content.get(key)
        if isinstance(inner, Mapping) and inner:
            message = f"the weights were taken from '{key}' of {path.name}; its other entries were left out"
            advice = "if other weights are meant, save them alone in a file"
            return dict(inner), (Caution(code="checkpoint-entry", message=message, advice=advice),)
    strangers = [key for key, value in content.items() if not isinstance(value, torch.Tensor)]
    if strangers:
        raise ModelError(f"weights '{path}' are no state_dict: {_first(strangers)} hold no tensors")
    return content, cautions


def _without_prefix(state: dict[str, Any], expected: Set[str]) -> tuple[dict[str, Any], str]:
    """The state with the shortest common prefix `a.` or `a.b.` taken off that makes a key of it known, if one does."""
    if not state or set(state) & expected:
        return state, ""
    parts = next(iter(state)).split(".")
    for length in range(1, len(parts)):
        prefix = ".".join(parts[:length]) + "."
        if not all(key.startswith(prefix) for key in state):
            break
        if any(key.removeprefix(prefix) in expected for key in state):
            return {key.removeprefix(prefix): value for key, value in state.items()}, prefix
    return state, ""


def _first(texts: list[str]) -> str:
    return ", ".join(texts[:5]) + (", ..." if len(texts) > 5 else "")
