"""A float .tflite baseline as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

from edgebench.converters import inspect_tflite
from edgebench.converters.bindings import bind
from edgebench.converters.exported import Exported
from edgebench.errors import RefusedError
from edgebench.types import Baseline, Precision


def export(baseline: Baseline, run_folder: Path, out: Path, batch: int | None) -> Exported:
    """Copy the baseline's file to `out`; only its own batch can be had.

    Raises:
        RefusedError: the file is quantized already, or has another batch.
        ModelError: the file is damaged.
    """
    source = run_folder / baseline.path
    facts = inspect_tflite.read(source)
    if facts.census.precision is not Precision.FP32:
        raise RefusedError(
            f"{source.name} is {facts.census.precision} already: a .tflite baseline must be float. "
            f"Convert the model that it was made from, or measure the file as it is: edgebench measure {source.name}"
        )
    if facts.batch != batch:
        own, wanted = ("open" if size is None else str(size) for size in (facts.batch, batch))
        raise RefusedError(
            f"{source.name} has batch {own}, not {wanted}: a .tflite file keeps the batch that it was made with"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, out)
    inputs, outputs = bind(out, baseline)
    return Exported(path=out.absolute(), inputs=inputs, outputs=outputs, route="copy", tool_versions={})
