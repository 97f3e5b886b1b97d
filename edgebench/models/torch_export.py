"""Write a torch module as a .pt2 in inference mode, its batch open where running it proves that this is right."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from edgebench.errors import ModelError, one_line
from edgebench.models.pt2 import runner, training_operator
from edgebench.models.torch_models import bind
from edgebench.types import Caution

_PROOF_ROWS = 3


def write_pt2(module: Any, example: Any, path: Path, name: str) -> tuple[Caution, ...]:
    """Export `module` (an nn.Module or a ScriptModule) to `path`; `example` is what `torch_models.bind` takes.

    The batch is open where the export allows it and a batch of 3 gives what its samples give one by one; else it is 1,
    with a caution.

    Raises:
        ModelError: torch.export can't trace the module, or it stays in training mode.
    """
    import torch

    module = module.eval()
    sample = bind(module, example)
    with torch.no_grad():
        sample = _with_channels_first(module, sample, name)
        if isinstance(module, torch.jit.ScriptModule):
            module = _from_torchscript(module, sample, name)
        program, cautions = _export(module, sample, name)
    operator = training_operator(program)
    if operator:
        raise ModelError(
            f"model '{name}' stays in training mode after eval(): {operator} is active; give the functional call "
            "training=self.training"
        )
    torch.export.save(program, path)
    return cautions


def _export(module: Any, sample: dict[str, Any], name: str) -> tuple[Any, tuple[Caution, ...]]:
    try:
        program = _trace(module, _rows(sample, _PROOF_ROWS), is_batch_open=True)
        doubt = _doubt_of_open_batch(program, sample)
    except Exception as error:  # torch.export raises what the model's own code makes it
        doubt = one_line(error, 160)
    if doubt is None:
        return program, ()
    try:
        program = _trace(module, sample, is_batch_open=False)
    except Exception as error:  # as above
        raise ModelError(
            f"model '{name}' can't be exported by torch.export: {one_line(error)}; rewrite the part that it names, "
            "or pass a .pt2 or .onnx file"
        ) from error
    message = f"the snapshot of '{name}' takes one sample at a time, batches can't be measured: {doubt}"
    advice = "for batches, rewrite the part of the model that fixes the batch"
    return program, (Caution(code="fixed-batch", message=message, advice=advice),)


def _trace(module: Any, sample: dict[str, Any], *, is_batch_open: bool) -> Any:
    import torch

    batch = torch.export.Dim("batch", min=1)
    shapes = {name: {0: batch} if tensor.ndim else None for name, tensor in sample.items()}
    positional, named = _arguments(module, sample)
    return torch.export.export(module, positional, named, dynamic_shapes=shapes if is_batch_open else None)


def _arguments(module: Any, sample: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional arguments as far as forward() has them without a gap, the rest by name."""
    positional: list[Any] = []
    named = dict(sample)
    for name, parameter in inspect.signature(module.forward).parameters.items():
        if name not in named or parameter.kind is parameter.KEYWORD_ONLY:
            break
        positional.append(named.pop(name))
    return tuple(positional), named


def _doubt_of_open_batch(program: Any, sample: dict[str, Any]) -> str | None:
    """Why a batch is not the same as its samples one by one; None when running both shows that it is."""
    run = runner(program, list(sample))
    rows = _rows(sample, _PROOF_ROWS)
    together = run(rows)
    for index in range(_PROOF_ROWS):
        alone = run({name: tensor[index : index + 1] if tensor.ndim else tensor for name, tensor in rows.items()})
        for name, tensor in alone.items():
            batch = together[name]
            if batch.ndim == 0 or batch.shape[0] != _PROOF_ROWS or tensor.shape[0] != 1:
                return f"output '{name}' does not have the batch as its first axis"
            expected, found = tensor[0].double(), batch[index].double()
            if not bool((expected - found).abs().max() <= 1e-4 * expected.abs().max() + 1e-5):
                return f"output '{name}' of a sample depends on the other samples of its batch"
    return None


def _rows(sample: dict[str, Any], rows: int) -> dict[str, Any]:
    """The sample repeated; floats are scaled differently row by row, so that rows that are mixed up are seen."""
    import torch

    repeated = {}
    for name, tensor in sample.items():
        if not tensor.ndim:
            repeated[name] = tensor
            continue
        stacked = torch.cat([tensor] * rows)
        if tensor.is_floating_point():
            factors = torch.linspace(1.0, 0.5, rows, dtype=tensor.dtype)
            stacked = stacked * factors.reshape(-1, *[1] * (tensor.ndim - 1))
        repeated[name] = stacked
    return repeated


def _with_channels_first(module: Any, sample: dict[str, Any], name: str) -> dict[str, Any]:
    """The sample that the module runs on: as it is, or with the last axis of its images moved to where torch has it."""
    try:
        module(**sample)
        return sample
    except Exception as error:  # the model's own code raises
        moved = {
            key: tensor.permute(0, 3, 1, 2).contiguous()
            if tensor.ndim == 4 and tensor.shape[3] in (1, 3, 4)
            else tensor
            for key, tensor in sample.items()
        }
        shapes = ", ".join(f"{key} {tuple(tensor.shape)} {tensor.dtype}" for key, tensor in sample.items())
        told = ModelError(f"model '{name}' does not run on one sample of the data ({shapes}): {one_line(error)}")
        if all(moved[key] is sample[key] for key in sample):
            raise told from error
    try:
        module(**moved)
    except Exception as error:  # as above
        raise told from error
    return moved


def _from_torchscript(module: Any, sample: dict[str, Any], name: str) -> Any:
    from torch._export.converter import TS2EPConverter

    try:
        converted = TS2EPConverter(module, tuple(_rows(sample, 2).values())).convert().module()
    except Exception as error:  # the converter raises whatever an operator that it does not know makes it
        raise ModelError(
            f"TorchScript '{name}' can't be turned into an ExportedProgram: {one_line(error, 160)}; pass "
            "file.py:function, or save it with torch.export.save as .pt2"
        ) from error
    return _with_parameters(converted, list(sample))


def _with_parameters(module: Any, names: list[str]) -> Any:
    """The module behind a forward() with these parameters; the converter calls them input_1, x_1 ..."""
    import torch

    class Named(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

            def forward(*tensors: Any) -> Any:
                return self.inner(*tensors)

            parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
            forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by torch.export
            self.forward = forward

    return Named()
