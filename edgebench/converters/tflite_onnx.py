"""ONNX to a float .tflite file through onnx2tf, which runs in a side environment because of the versions it pins."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench import environments
from edgebench.converters import inspect_tflite
from edgebench.converters.exported import Exported
from edgebench.converters.tflite_bind import batched_shapes
from edgebench.errors import ModelError, RefusedError, StageError
from edgebench.types import Baseline, Binding, TensorSpec

Arrays = dict[str, NDArray[Any]]

# Runs in the side environment: arguments are the model, the output folder and the shapes as "name:1,3,224,224".
_SCRIPT = """
import sys, json
from importlib.metadata import version
import onnx2tf
model, folder, shapes = sys.argv[1], sys.argv[2], sys.argv[3:]
onnx2tf.convert(
    input_onnx_file_path=model, output_folder_path=folder, overwrite_input_shape=shapes or None,
    copy_onnx_input_output_names_to_tflite=True, non_verbose=True,
)
with open("versions.json", "w") as file:
    json.dump({name: version(name) for name in ("onnx2tf", "tensorflow", "onnx")}, file)
"""
# onnx2tf fetches photos to compare layers with, unless this file lies in its working folder.
_SAMPLE_IMAGES = "calibration_image_sample_data_20x128x128x3_float32.npy"
_NOWHERE = "http://127.0.0.1:9"
_LIMIT_S = 1800


def export(baseline: Baseline, run_folder: Path, out: Path, batch: int | None) -> Exported:
    """Write a float `out` from the baseline's .onnx at `batch`. 4-d tensors become NHWC; the bindings say which did.

    Starts a process that imports TensorFlow (about 10 s and 1.5 GB for a small net). It can't reach the network.

    Raises:
        MissingError: the side environment was not made.
        RefusedError: an open batch was asked for, or the model's batch is fixed at another number.
        StageError: onnx2tf can't convert the model.
    """
    if batch is None:
        raise RefusedError("onnx2tf is given fixed shapes here, so that layouts can be checked; name a batch")
    shapes = batched_shapes(baseline, batch)
    for name, shape in shapes.items():
        if None in shape:
            raise RefusedError(
                f"input '{name}' has open axes beside the batch ({list(shape)}); fix its size in the ONNX file"
            )
    python = environments.python_of("onnx2tf")
    source = (run_folder / baseline.path).absolute()
    with tempfile.TemporaryDirectory(prefix="edgebench-onnx2tf-") as folder:
        work = Path(folder)
        _run(
            python,
            work,
            [str(source), str(work / "made"), *(_overwrite(name, shape) for name, shape in shapes.items())],
        )
        versions: dict[str, str] = json.loads((work / "versions.json").read_text())
        made = sorted((work / "made").glob("*_float32.tflite"))
        if not made:
            raise StageError("onnx2tf ended without a *_float32.tflite file; see the log of this conversion")
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(made[0].read_bytes())
    inputs, outputs = _bindings(source, out, baseline, batch)
    return Exported(path=out.absolute(), inputs=inputs, outputs=outputs, route="onnx2tf", tool_versions=versions)


def _overwrite(name: str, shape: tuple[int | None, ...]) -> str:
    return f"{name}:{','.join(str(size) for size in shape)}"


def _run(python: Path, work: Path, arguments: list[str]) -> None:
    rng = np.random.default_rng(0)
    np.save(work / _SAMPLE_IMAGES, rng.random((20, 128, 128, 3), dtype=np.float32))
    offline = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _NOWHERE)
    environment = {
        **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "no_proxy", "NO_PROXY")},
        **offline,
        "PATH": f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}",  # it calls the command onnxsim
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "CUDA_VISIBLE_DEVICES": "",
    }
    try:
        done = subprocess.run(
            [str(python), "-c", _SCRIPT, *arguments],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise StageError(f"onnx2tf was ended after {_LIMIT_S} s") from error
    print(done.stdout, done.stderr, sep="\n", flush=True)  # to the log of this conversion
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if "rror" in line]
        raise StageError(f"onnx2tf can't convert this model: {(lines or ['no message'])[-1][:300]}")


def _bindings(
    source: Path, made: Path, baseline: Baseline, batch: int
) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
    """The file's tensors by name, and for each whether onnx2tf moved its channels last: it records this nowhere.

    Shapes tell, and where both orders have the same shape, it moves every input of three to five axes; of such an
    output, one run of both files on the same noise tells.
    """
    facts = inspect_tflite.read(made)
    inputs = []
    for spec in baseline.inputs:
        tensor = _same_name(spec, facts.inputs)
        if tensor is not None:  # else the model doesn't use it
            orders = _possible_orders(spec, tensor, batch)
            inputs.append(_binding(spec, tensor, orders[-1]))
    outputs = []
    results: tuple[Arrays, Arrays] | None = None
    for spec in baseline.outputs:
        tensor = _same_name(spec, facts.outputs)
        if tensor is None:
            have = ", ".join(found.name for found in facts.outputs)
            raise ModelError(f"onnx2tf's file has no output '{spec.name}'; it has {have}")
        orders = _possible_orders(spec, tensor, batch)
        if len(orders) > 1:
            results = results or _run_both(source, made, baseline, inputs, batch)
            wanted, found = results[0][spec.name], results[1][tensor.name]
            orders.sort(key=lambda order: float(np.abs(wanted.transpose(order or range(wanted.ndim)) - found).max()))
        outputs.append(_binding(spec, tensor, orders[0]))
    return tuple(inputs), tuple(outputs)


def _same_name(spec: TensorSpec, found: tuple[TensorSpec, ...]) -> TensorSpec | None:
    """onnx2tf writes some of ONNX's characters as underscores ("image:0" -> "image__0")."""
    exact = [tensor for tensor in found if tensor.name == spec.name]
    alike = exact or [tensor for tensor in found if _letters(tensor.name) == _letters(spec.name)]
    return alike[0] if len(alike) == 1 else None


def _letters(name: str) -> str:
    return re.sub(r"[\W_]+", "_", name)


def _possible_orders(spec: TensorSpec, tensor: TensorSpec, batch: int) -> list[tuple[int, ...] | None]:
    """The baseline's own order (None) and channels-last, as far as the shapes allow."""
    rank = len(spec.shape)
    shape = tuple(batch if axis == 0 and size is None else size for axis, size in enumerate(spec.shape))
    candidates: list[tuple[int, ...] | None] = [None]
    if 3 <= rank <= 5:
        candidates.append((0, *range(2, rank), 1))
    possible = [
        order
        for order in candidates
        if rank == len(tensor.shape)
        and all(shape[axis] in (None, size) for axis, size in zip(order or range(rank), tensor.shape, strict=True))
    ]
    if not possible:
        raise ModelError(
            f"'{spec.name}' has shape {list(shape)} in the ONNX file and {list(tensor.shape)} in onnx2tf's, "
            "which is neither its own order nor channels-last"
        )
    return possible


def _binding(spec: TensorSpec, tensor: TensorSpec, order: tuple[int, ...] | None) -> Binding:
    layout = spec.layout if order is None else ("NHWC" if len(order) == 4 else None)
    return Binding(tensor=replace(tensor, layout=layout), baseline=spec.name, permutation=order)


def _run_both(source: Path, made: Path, baseline: Baseline, inputs: list[Binding], batch: int) -> tuple[Arrays, Arrays]:
    """The outputs of the ONNX file and of the .tflite file, each by its own names, for the same noise."""
    import onnxruntime
    from ai_edge_litert.interpreter import Interpreter

    rng = np.random.default_rng(0)
    feed = {}
    for spec in baseline.inputs:
        shape = [batch if axis == 0 and size is None else size or 1 for axis, size in enumerate(spec.shape)]
        feed[spec.name] = rng.random(shape).astype(spec.dtype)
    session = onnxruntime.InferenceSession(str(source), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    wanted = dict(zip(names, session.run(names, feed), strict=True))
    runner = Interpreter(str(made)).get_signature_runner()
    found = runner(
        **{
            binding.tensor.name: np.ascontiguousarray(
                feed[binding.baseline].transpose(binding.permutation or range(feed[binding.baseline].ndim)),
                dtype=binding.tensor.dtype,
            )
            for binding in inputs
        }
    )
    return wanted, found
