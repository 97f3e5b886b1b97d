"""Jobs for the native runner and for runner.py alike, and what both make of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgebench.runner import RUNNER

FILES = Path(__file__).parent.parent.parent / "files"
PYTHON = (sys.executable, str(RUNNER))
LATENCY = {"min_runs": 20, "min_ns": 0, "max_runs": 40, "max_ns": 10**10, "warmup_min_runs": 3, "warmup_max_ns": 10**8}


@dataclass
class Done:
    status: int
    result: dict
    outputs: list
    stderr: str


def images(n, dtype="float32", layout="NHWC", seed=0):
    shape = (n, 8, 8, 3) if layout == "NHWC" else (n, 3, 8, 8)
    return (np.random.default_rng(seed).random(shape) * 100).astype(dtype)


def job_for(folder, model, feed, *, outputs=(), **changes):
    """A job with its input files in `folder`; `changes` replace the job's keys."""
    inputs = {}
    for place, (name, value) in enumerate(feed.items()):
        np.save(folder / f"in{place}.npy", value)
        inputs[name] = f"in{place}.npy"
    return {
        "mode": "outputs" if outputs else "latency",
        "runtime": "onnxruntime" if Path(model).suffix == ".onnx" else "litert",
        "delegate": "cpu",
        "model": str(model),
        "threads": 1,
        "cpus": None,
        "spinning": True,
        "batch": 1,
        "inputs": inputs,
        "outputs": {name: f"out{place}.npy" for place, name in enumerate(outputs)},
        **LATENCY,
        **changes,
    }


def start(command, folder, job, environment=None):
    """Run `command` on a job (a dict, the bytes of its file, or None for what is there) and read back what it left."""
    result = folder / "result.json"
    result.unlink(missing_ok=True)
    if job is not None:
        (folder / "job.json").write_bytes(job if isinstance(job, bytes) else json.dumps(job).encode())
    done = subprocess.run(
        [*command, "job.json", "result.json"],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
        check=False,
    )
    said = json.loads(result.read_text()) if result.exists() else {}
    paths = job["outputs"].values() if isinstance(job, dict) and done.returncode == 0 else ()
    return Done(done.returncode, said, [np.load(folder / path) for path in paths], done.stderr)


def int8_onnx(path):
    """One int8 convolution with a weight scale per channel, int8 inputs and outputs.

    The weights have 7 bits: x86 without VNNI saturates sums of two 8-bit products, ARM does not.
    """
    from onnx import TensorProto, helper, numpy_helper, save

    random = np.random.default_rng(1)
    constants = {
        "x_scale": np.float32(0.5),
        "zero": np.int8(3),
        "w": random.integers(-63, 64, (4, 3, 3, 3), dtype=np.int8),
        "w_scale": random.random(4, dtype=np.float32) * np.float32(0.01) + np.float32(0.001),
        "w_zero": np.zeros(4, np.int8),
        "y_scale": np.float32(0.7),
        "bias": random.integers(-500, 500, 4, dtype=np.int32),
    }
    names = ["image", "x_scale", "zero", "w", "w_scale", "w_zero", "y_scale", "zero", "bias"]
    graph = helper.make_graph(
        [helper.make_node("QLinearConv", names, ["scores"])],
        "int8",
        [helper.make_tensor_value_info("image", TensorProto.INT8, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.INT8, ["batch", 4, 6, 6])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path
