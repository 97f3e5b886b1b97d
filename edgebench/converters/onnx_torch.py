"""PyTorch (.pt2) to float ONNX, with torch's own exporter."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.converters import onnx_bind, onnx_file
from edgebench.converters.exported import Exported
from edgebench.errors import ModelError, StageError, missing_extra
from edgebench.types import Baseline

if TYPE_CHECKING:
    import torch

# One protobuf message holds at most 2 GiB; larger weights go to a file beside the model.
_LARGEST_IN_ONE_FILE = 2 * 10**9


def export(baseline: Baseline, run_folder: Path, out: Path, batch: int | None) -> Exported:
    """Write the .pt2 snapshot as ONNX at a fixed batch, or open and proven at batches 1 and 3 (`batch` None).

    Inputs keep PyTorch's axis order and carry forward()'s parameter names.

    Raises:
        MissingError: the extra `torch` is not installed.
        RefusedError: the snapshot's batch is fixed at another length.
        StageError: torch can't express the model in ONNX, or the open file is wrong at batch 1 or 3.
    """
    try:
        import onnxscript  # noqa: F401  # torch's exporter would miss it late and at length
        import torch
    except ImportError as error:
        raise missing_extra(error.name or "torch", "torch", "exporting a PyTorch model to ONNX") from error

    onnx_bind.check_batch(baseline, batch)
    path = run_folder / baseline.path
    try:
        program = torch.export.load(path)
    except Exception as error:  # torch documents no set of errors for a corrupt archive
        raise ModelError(f"the snapshot {path} can't be loaded: {onnx_bind.first_line(error)}") from error
    snapshot = _Snapshot(program, baseline)
    size_bytes = sum(value.nbytes for value in program.state_dict.values())
    try:
        torch.onnx.export(
            program if batch is None else snapshot.at_batch(batch),
            f=out,
            input_names=snapshot.input_names,
            output_names=snapshot.output_names,
            dynamo=True,
            external_data=size_bytes > _LARGEST_IN_ONE_FILE,
            verbose=False,
        )
    except (torch.onnx.OnnxExporterError, RuntimeError, ValueError) as error:
        raise StageError(f"torch can't write this model as ONNX: {onnx_bind.first_line(error)}") from error
    _drop_notes(out)
    if batch is None:
        onnx_bind.prove_open_batch(baseline, out, snapshot.run)
    inputs, outputs, cautions = onnx_bind.bindings(baseline, out)
    return Exported(
        path=out,
        inputs=inputs,
        outputs=outputs,
        route="torch.onnx",
        tool_versions={tool: version(tool) for tool in ("onnx", "onnxscript", "torch")},
        cautions=cautions,
    )


def _drop_notes(out: Path) -> None:
    """Remove the exporter's stack traces, which name files of this machine: as much as 1 % of a small model."""
    import onnx

    model = onnx.load(out, load_external_data=False)
    for graph in onnx_file.graphs(model.graph):
        for part in (graph, *graph.node, *graph.value_info, *graph.initializer, *graph.input, *graph.output):
            del part.metadata_props[:]
    onnx.save(model, out)


class _Snapshot:
    """An exported program, called with arrays by the baseline's names.

    A program's inputs and outputs are flat lists; where it says names, or returns a dict, they are matched by name.
    """

    def __init__(self, program: torch.export.ExportedProgram, baseline: Baseline) -> None:
        from torch.utils import _pytree as pytree

        self._program = program
        self._baseline = baseline
        known = [spec.name for spec in baseline.inputs]
        given = [name for name in program.graph_signature.user_inputs if isinstance(name, str)]
        if len(given) != len(known):
            raise StageError(f"the snapshot takes {len(given)} inputs {given}, the baseline has {len(known)}: {known}")
        self.input_names = given if set(given) == set(known) else known
        known = [spec.name for spec in baseline.outputs]
        structure = program.call_spec.out_spec
        given_out = structure.num_leaves if structure else 0
        if structure is None or given_out != len(known):
            raise StageError(f"the snapshot gives {given_out} outputs, the baseline has {len(known)}: {known}")
        by_position = pytree.tree_unflatten(list(range(len(known))), structure)
        is_named = isinstance(by_position, dict) and set(by_position) == set(known)
        self.output_names = sorted(known, key=lambda name: int(by_position[name])) if is_named else known

    def at_batch(self, batch: int) -> torch.export.ExportedProgram:
        """The program with every dimension fixed, at this batch."""
        import torch

        arguments, named = self._call(onnx_bind.examples(self._baseline, batch))
        return torch.export.export(self._program.module(), arguments, named, strict=False)

    def run(self, feed: onnx_bind.Arrays) -> onnx_bind.Arrays:
        """Output arrays by name."""
        import torch
        from torch.utils import _pytree as pytree

        arguments, named = self._call(feed)
        with torch.no_grad():
            values = pytree.tree_leaves(self._program.module()(*arguments, **named))
        return {name: value.numpy() for name, value in zip(self.output_names, values, strict=True)}

    def _call(self, feed: onnx_bind.Arrays) -> tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor]]:
        import torch
        from torch.utils import _pytree as pytree

        flat = [torch.from_numpy(feed[name]) for name in self.input_names]
        structure = self._program.call_spec.in_spec
        if structure is None:
            return tuple(flat), {}
        arguments, named = pytree.tree_unflatten(flat, structure)
        return tuple(arguments), dict(named)
