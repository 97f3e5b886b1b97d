"""Torch models: load them from TorchScript, a trusted pickle or timm, and bind one sample to forward()'s parameters."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgebench.errors import MissingError, ModelError, missing_extra, one_line
from edgebench.models import checkpoint
from edgebench.models.contents import random_weights
from edgebench.models.source import RANDOM_WEIGHTS, is_torchscript
from edgebench.types import Caution, Preprocess

Example = Mapping[str, np.ndarray[Any, Any]]


def import_torch(needed_for: str) -> Any:
    """Torch; raises MissingError that names the extra."""
    try:
        import torch
    except ImportError as error:
        raise missing_extra("torch", "torch", needed_for) from error
    return torch


def load_file(path: Path, *, trust: bool) -> Any:
    """The module of a TorchScript file, or of a pickled module where `trust` allows to run its code.

    Raises:
        ModelError: the file is corrupt, a checkpoint without an architecture, or a pickled module without `trust`.
    """
    torch = import_torch(f"MODEL '{path}'")
    if is_torchscript(path):
        try:
            return torch.jit.load(path, map_location="cpu")
        except Exception as error:  # torch.jit documents no set of errors for a corrupt archive
            raise ModelError(f"{path} can't be loaded as TorchScript: {one_line(error)}") from error
    try:
        content = torch.load(path, map_location="cpu", weights_only=not trust)
    except Exception as error:  # RuntimeError, UnpicklingError, EOFError, KeyError, ImportError ... by the damage
        if "weights_only" in str(error) and not trust:
            raise ModelError(
                f"{path} holds a pickled module, which runs code when it is loaded; if you trust it add --trust"
            ) from error
        raise ModelError(f"{path} can't be loaded: {one_line(error, 160)}") from error
    if isinstance(content, torch.nn.Module):
        return content
    raise ModelError(f"{path} holds weights only: name their architecture, file.py:function --weights {path.name}")


def load_timm(name: str, weights: Path | None) -> tuple[Any, Example, Preprocess, tuple[Caution, ...]]:
    """A timm model with one sample of the right shape and the preprocessing of its pretrained configuration.

    Raises:
        ModelError: timm knows no such name, or the file's weights do not fit.
        MissingError: the pretrained weights can't be downloaded.
    """
    torch = import_torch(f"MODEL 'timm:{name}'")
    try:
        import timm
    except ImportError as error:
        raise MissingError(f"MODEL 'timm:{name}' needs the package 'timm': pip install timm ({error})") from error
    from edgebench.models.source import known_or_nearest

    known_or_nearest(name.partition(".")[0], timm.list_models(), "timm model")
    torch.manual_seed(0)
    try:
        module = timm.create_model(name, pretrained=weights is None)
    except Exception as error:  # whatever the hub client raises without a network
        raise MissingError(
            f"the weights of timm:{name} can't be downloaded ({one_line(error, 120)}); pass --weights FILE, "
            "or --weights random to measure latency only"
        ) from error
    cautions: tuple[Caution, ...] = ()
    if weights == RANDOM_WEIGHTS:
        cautions = (random_weights(f"timm:{name}"),)
    elif weights is not None:
        cautions = checkpoint.load_into(module, weights)
    config = timm.data.resolve_data_config({}, model=module)
    channels, height, width = config["input_size"]
    preprocess = Preprocess(
        height=height,
        width=width,
        crop_fraction=config["crop_pct"],
        scale=1 / 255,
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        layout="NCHW",
    )
    example = {"": np.random.default_rng(0).standard_normal((1, channels, height, width), dtype=np.float32)}
    return module, example, preprocess, cautions


def parameter_names(module: Any) -> tuple[list[str], list[str]]:
    """forward()'s parameter names: those that must be given, and those with a default.

    Raises:
        ModelError: forward() takes *args or **kwargs, so that its inputs have no names.
    """
    import torch

    if isinstance(module, torch.jit.ScriptModule):
        forward: Any = module.forward
        arguments = forward.schema.arguments[1:]
        return (
            [argument.name for argument in arguments if not argument.has_default_value()],
            [argument.name for argument in arguments if argument.has_default_value()],
        )
    required: list[str] = []
    optional: list[str] = []
    for name, parameter in inspect.signature(module.forward).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ModelError(
                f"forward() of {type(module).__name__} takes *{name}, but inputs are matched by name: name them"
            )
        (required if parameter.default is parameter.empty else optional).append(name)
    return required, optional


def bind(module: Any, example: Any) -> dict[str, Any]:
    """One sample as tensors with batch 1, by forward()'s parameter names, in forward()'s order.

    `example` is a dict of arrays or tensors by name ("" for the only input), a tensor, or a tuple of tensors. Floats
    are cast to the float type of the module's weights.

    Raises:
        ModelError: a parameter is left without a sample, or a name is unknown.
    """
    import torch

    required, optional = parameter_names(module)
    names = [*required, *optional]
    if isinstance(example, torch.Tensor | np.ndarray):
        example = {names[0]: example}
    elif isinstance(example, list | tuple):
        if len(example) > len(names):
            raise ModelError(
                f"{len(example)} example inputs for {len(names)} parameters of forward(): {', '.join(names)}"
            )
        example = dict(zip(names, example, strict=False))
    elif list(example) == [""]:
        if len(required) > 1:
            raise ModelError(
                f"forward() needs {', '.join(required)}, the data has one array: give one for each, by these names"
            )
        example = {names[0]: example[""]}
    unknown = [name for name in example if name not in names]
    absent = [name for name in required if name not in example]
    if absent:
        raise ModelError(
            f"forward() needs {', '.join(absent)}, which the data lacks (it has {', '.join(example) or 'nothing'}); "
            "name the arrays after forward()'s parameters"
        )
    if unknown and not isinstance(module, torch.jit.ScriptModule):
        example = {name: value for name, value in example.items() if name in names}
    floats = [weight.dtype for weight in module.parameters() if weight.is_floating_point()]
    bound = {}
    for name in names:
        if name not in example:
            continue
        tensor = torch.as_tensor(example[name]).detach().cpu()
        if tensor.is_floating_point():
            tensor = tensor.to(floats[0] if floats else torch.float32)
        bound[name] = tensor[:1].clone() if tensor.ndim else tensor
    return bound
