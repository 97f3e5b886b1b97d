"""Which Python on this machine runs models with a runtime, proven by starting it."""

from __future__ import annotations

import difflib
import subprocess
import sys
from functools import cache

from edgebench.errors import InputError, MissingError

# Programs that end with status 0 where the runtime works; each does what breaks first. tflite-runtime imports beside
# numpy 2, and dies when it gives or takes an array: it reads `smallest_model` from stdin.
PROBES = {
    "litert": "from ai_edge_litert.interpreter import Interpreter",
    "onnxruntime": "import onnxruntime; onnxruntime.InferenceSession",
    "tflite-runtime": (
        "import sys; from tflite_runtime.interpreter import Interpreter; "
        "i = Interpreter(model_content=sys.stdin.buffer.read()); i.allocate_tensors(); "
        "t = i.get_input_details()[0]['index']; i.set_tensor(t, i.get_tensor(t))"
    ),
}


def python_with(runtime: str) -> str:
    """The Python to start: this one, or for tflite-runtime the one of the side environment `tflite-runtime`.

    Raises:
        InputError: there is no such runtime.
        MissingError: none works here; says what to install.
    """
    check_known(runtime)
    if _works(sys.executable, runtime):
        return sys.executable
    if runtime != "tflite-runtime":
        raise MissingError(f"{runtime} does not start in {sys.executable}; install it again: pip install -U edgebench")
    from edgebench.environments import python_of

    python = str(python_of("tflite-runtime"))
    if not _works(python, runtime):
        raise MissingError(f"tflite-runtime does not run in {python}; make it anew: edgebench env make tflite-runtime")
    return python


def check_known(runtime: str) -> None:
    """Raise InputError for a runtime that does not exist; it suggests the nearest."""
    if runtime not in PROBES:
        near = difflib.get_close_matches(runtime, PROBES, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"possible: {', '.join(PROBES)}"
        raise InputError(f"there is no runtime '{runtime}'; {hint}")


@cache
def _works(python: str, runtime: str) -> bool:
    model = smallest_model() if runtime == "tflite-runtime" else b""
    try:
        probe = subprocess.run([python, "-c", PROBES[runtime]], input=model, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 0


def smallest_model() -> bytes:
    """A .tflite file with one float tensor, which is its input and its output, and no operator."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    tensor = schema.TensorT()
    tensor.shape, tensor.type, tensor.buffer, tensor.name = [1], schema.TensorType.FLOAT32, 0, "x"
    graph = schema.SubGraphT()
    graph.tensors, graph.inputs, graph.outputs, graph.operators = [tensor], [0], [0], []
    model = schema.ModelT()
    model.version, model.subgraphs, model.buffers, model.operatorCodes = 3, [graph], [schema.BufferT()], []
    builder = flatbuffers.Builder(256)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
