"""A float ONNX baseline as a float ONNX file: a copy, its batch fixed where that was open."""

from __future__ import annotations

import shutil
from importlib.metadata import version
from pathlib import Path

from edgebench.converters import inspect_onnx, onnx_bind, onnx_file
from edgebench.converters.exported import Exported
from edgebench.errors import RefusedError
from edgebench.types import Baseline, Precision


def export(baseline: Baseline, run_folder: Path, out: Path, batch: int | None) -> Exported:
    """Copy the snapshot and its external data; fix the inputs' open first dimension at `batch` (None: leave it open).

    Raises:
        ModelError: the snapshot is not a valid ONNX file.
        RefusedError: it is not float32, or its batch is fixed at another length.
    """
    source = run_folder / baseline.path
    census = inspect_onnx.read(source).census
    doubles = sorted(op.removesuffix(":float64") for op in census.ops if op.endswith(":float64"))
    if doubles:
        raise RefusedError(
            f"model '{baseline.name}' computes in float64 ({', '.join(doubles[:5])}), which phones don't; "
            "export it again in float32 (torch: model.float())"
        )
    precision = census.precision
    if precision is not Precision.FP32:
        raise RefusedError(
            f"model '{baseline.name}' is {precision} already, a recipe starts from fp32; "
            "measure it as it is: edgebench measure FILE"
        )
    onnx_bind.check_batch(baseline, batch)
    model = onnx_file.load(source)
    for file in onnx_file.external_files(source, model):
        target = out.parent / file.relative_to(source.absolute().parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    if batch is None:
        shutil.copyfile(source, out)
    else:
        onnx_bind.fix_batch(model, batch)
        out.write_bytes(model.SerializeToString())
    inputs, outputs, cautions = onnx_bind.bindings(baseline, out)
    return Exported(
        path=out,
        inputs=inputs,
        outputs=outputs,
        route="copy",
        tool_versions={"onnx": version("onnx")},
        cautions=cautions,
    )
