"""A float .tflite baseline as it is, its open batch closed where that is asked."""

from __future__ import annotations

import shutil
from pathlib import Path

from edgebench.converters import inspect_tflite
from edgebench.converters.exported import Exported
from edgebench.converters.tflite_bind import bind
from edgebench.errors import RefusedError
from edgebench.types import Baseline, Precision


def export(baseline: Baseline, run_folder: Path, out: Path, batch: int | None) -> Exported:
    """Copy the baseline's file to `out`; an open batch can be fixed at 1, the size that its shapes are written for.

    Raises:
        RefusedError: the file is quantized already, or has another batch.
        ModelError: the file is damaged.
    """
    source = run_folder / baseline.path
    facts = inspect_tflite.read(source)
    if facts.census.precision is not Precision.FP32:
        raise RefusedError(
            f"model '{baseline.name}' is {facts.census.precision} already, a .tflite baseline must be float: convert "
            "the model that it was made from, or measure the file as it is: edgebench measure FILE"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    if facts.batch == batch:
        shutil.copyfile(source, out)
        route = "copy"
    elif facts.batch is None and batch == 1:
        _close_batch(source, out)
        route = "copy at batch 1"
    else:
        own, wanted = ("open" if size is None else str(size) for size in (facts.batch, batch))
        raise RefusedError(
            f"the .tflite file of model '{baseline.name}' has batch {own}, not {wanted}, and keeps what it was made "
            f"with: take --batch {own}{' or 1' if facts.batch is None else ''}, or convert the model anew"
        )
    inputs, outputs = bind(out, baseline)
    return Exported(path=out.absolute(), inputs=inputs, outputs=outputs, route=route, tool_versions={})


def _close_batch(source: Path, out: Path) -> None:
    """Write the file without shape signatures: what remains are the shapes for a batch of 1."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(source.read_bytes(), 0)
    if any(buffer.offset > 1 for buffer in model.buffers):
        raise RefusedError(
            f"{source.name} keeps its weights behind the model, so its open batch can't be fixed here: "
            "take --batch open"
        )
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            tensor.shapeSignature = None
    builder = flatbuffers.Builder(source.stat().st_size)
    builder.Finish(model.Pack(builder), b"TFL3")
    out.write_bytes(builder.Output())
