"""PyTorch to a float .tflite file through litert-torch, with images channels-last as the kernels want them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.converters.exported import Exported
from edgebench.converters.tflite_bind import CHANNELS_LAST, batched_shapes, bind
from edgebench.errors import ModelError, RefusedError, StageError, missing_extra
from edgebench.types import Baseline

if TYPE_CHECKING:
    import torch

_TOOLS = ("litert-torch", "torch")


def export(baseline: Baseline, run_folder: Path, out: Path, batch: int | None) -> Exported:
    """Write `out` from the baseline's .pt2 snapshot, traced again at `batch` (None: open).

    NCHW inputs and, beside them, 4-d outputs become NHWC; the bindings carry the permutation. 64-bit integer inputs
    become int32. Costs a few seconds for a mobile net and holds the model about four times in memory.

    Raises:
        RefusedError: the snapshot's batch is fixed at another number, or litert-torch can't keep it open.
        ModelError: the snapshot can't be loaded, or it and the baseline's description disagree.
        MissingError: the extra `torch` is not installed.
    """
    try:
        import litert_torch
        import torch
    except ImportError as error:
        raise missing_extra(error.name or "litert-torch", "torch", "PyTorch to .tflite") from error

    path = run_folder / baseline.path
    try:
        program = torch.export.load(path)
    except Exception as error:  # torch documents no set of errors for a corrupt archive
        cause = " ".join(str(error).split())[:300] or type(error).__name__
        raise ModelError(f"the snapshot {path} can't be loaded: {cause}") from error
    shapes = batched_shapes(baseline, batch)
    last_in = {spec.name for spec in baseline.inputs if spec.layout == "NCHW" and len(spec.shape) == 4}
    last_out = {spec.name for spec in baseline.outputs if len(spec.shape) == 4} if last_in else set()
    module = _by_name(program, baseline, last_in, last_out)
    sample, dynamic = _sample(baseline, shapes, last_in)
    try:
        converted = litert_torch.convert(module, sample_kwargs=sample, dynamic_shapes=dynamic)
    except Exception as error:  # any of torch.export's, MLIR's and litert-torch's own types
        cause = " ".join(str(error).split())[:300] or type(error).__name__
        if batch is None:
            raise RefusedError(f"litert-torch can't keep this model's batch open ({cause}); name a batch") from error
        raise StageError(f"litert-torch can't convert this model: {cause}") from error
    out.parent.mkdir(parents=True, exist_ok=True)
    converted.export(str(out))
    inputs, outputs = bind(out, baseline, channels_last=last_in | last_out)
    return Exported(
        path=out.absolute(),
        inputs=inputs,
        outputs=outputs,
        route="litert-torch",
        tool_versions={tool: version(tool) for tool in _TOOLS},
    )


def _by_name(
    program: torch.export.ExportedProgram, baseline: Baseline, last_in: set[str], last_out: set[str]
) -> torch.nn.Module:
    """The program from keyword arguments to a dict, both by baseline name, which become the file's names."""
    import torch
    from torch.utils import _pytree as pytree

    signature = program.module_call_graph[0].signature
    assert signature is not None  # torch.export always describes the root module
    names = [str(name) for name in program.graph_signature.user_inputs]
    wanted = [spec.name for spec in baseline.inputs]
    if set(names) != set(wanted):
        raise ModelError(
            f"the snapshot takes {', '.join(names)} where the baseline says {', '.join(wanted)}; make it again"
        )
    inner = program.module()

    class ByName(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner
            self.training = False  # an exported module refuses eval(); it was exported in eval mode

        def forward(self, **tensors: torch.Tensor) -> dict[str, torch.Tensor]:
            flat = [tensors[name].permute(0, 3, 1, 2) if name in last_in else tensors[name] for name in names]
            args, kwargs = pytree.tree_unflatten(flat, signature.in_spec)
            outputs = _named_outputs(self.inner(*args, **kwargs), baseline)
            return {
                name: tensor.permute(0, 2, 3, 1) if name in last_out else tensor for name, tensor in outputs.items()
            }

    # torch.export reads the names of open axes from the signature, and a bare **tensors has none.
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in ("self", *names)]
    setattr(ByName.forward, "__signature__", inspect.Signature(parameters))  # noqa: B010 - no attribute that mypy knows
    return ByName()


def _named_outputs(result: object, baseline: Baseline) -> dict[str, torch.Tensor]:
    """The tensors of forward()'s result by baseline name: dict keys, `output_0` ... of a tuple, else `output`."""
    import torch
    from torch.utils import _pytree as pytree

    leaves = [(path, leaf) for path, leaf in pytree.tree_flatten_with_path(result)[0] if isinstance(leaf, torch.Tensor)]
    wanted = [spec.name for spec in baseline.outputs]
    if len(leaves) == 1 and len(wanted) == 1:
        return {wanted[0]: leaves[0][1]}
    named = {}
    for path, leaf in leaves:
        parts = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path]
        in_sequence = not isinstance(result, Mapping) and hasattr(path[0], "idx")
        named["_".join(["output", *parts] if in_sequence else parts)] = leaf
    if set(named) != set(wanted):
        raise ModelError(
            f"the snapshot gives {', '.join(named)} where the baseline says {', '.join(wanted)}; make it again"
        )
    return named


def _sample(
    baseline: Baseline, shapes: dict[str, tuple[int | None, ...]], last_in: set[str]
) -> tuple[dict[str, torch.Tensor], dict[str, object] | None]:
    """Zeros to trace with, in the file's axis order, and which axes stay open; an open batch is traced at 2.

    Any further open axis can't be traced without a length: it is refused.
    """
    import torch

    sample = {}
    dynamic: dict[str, object] = {}
    batch_axis = torch.export.Dim.DYNAMIC
    for spec in baseline.inputs:
        shape = shapes[spec.name]
        if None in shape[1:]:
            raise RefusedError(
                f"input '{spec.name}' has open axes beside the batch ({list(shape)}); give the model a fixed input size"
            )
        sizes = [2 if size is None else size for size in shape]
        if spec.name in last_in:
            sizes = [sizes[axis] for axis in CHANNELS_LAST]
        sample[spec.name] = torch.zeros(sizes, dtype=getattr(torch, spec.dtype))
        dynamic[spec.name] = {0: batch_axis} if shape and shape[0] is None else None
    return sample, dynamic if any(dynamic.values()) else None
