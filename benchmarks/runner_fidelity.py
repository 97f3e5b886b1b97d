"""Does the runner add anything to the times? Its p50 against a bare loop of the same runtime.

    python benchmarks/runner_fidelity.py [--pairs N]

For each runtime, pairs of fresh processes on the same CPU, in random order within a pair: one round of edgebench
(`measure_round`) and a loop that shares no code with it. The figure is the median over the pairs of runner p50 / bare
p50, with its 95 % bootstrap interval. For LiteRT, `litert-benchmark` of ai-edge-litert stands beside it; it uses
another API of the library (CompiledModel), so it is shown and not judged.

Exit status 1 when a runner's figure is more than 2 % from 1. Run it on a quiet machine: edgebench's verdict on its own
rounds says whether it was, and without `stable` the figure decides nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from edgebench.devices.inventory import open_device
from edgebench.devices.lease import lease
from edgebench.measure import feed_files, session
from edgebench.measure.trust import judge
from edgebench.types import (
    Artifact,
    Binding,
    Census,
    Format,
    Measurement,
    Origin,
    Plan,
    Precision,
    Round,
    Target,
    TensorSpec,
)

TOLERANCE = 0.02
SIZE, CHANNELS, LAYERS = 28, 64, 6
RUNS = 200
WARMUP_RUNS = 50

BARE = {
    "litert": """
import os, sys; os.sched_setaffinity(0, [int(sys.argv[3])])
import statistics, time
import numpy as np
from ai_edge_litert.interpreter import Interpreter
model = Interpreter(model_path=sys.argv[1], num_threads=1)
model.allocate_tensors()
model.set_tensor(model.get_input_details()[0]["index"], np.load(sys.argv[2]))
times = []
for _ in range({warmup} + {runs}):
    start = time.perf_counter()
    model.invoke()
    times.append(time.perf_counter() - start)
print(statistics.median(times[{warmup}:]) * 1e3)
""",
    "onnxruntime": """
import os, sys; os.sched_setaffinity(0, [int(sys.argv[3])])
import statistics, time
import numpy as np
import onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = 1
model = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
x = np.load(sys.argv[2])
times = []
for _ in range({warmup} + {runs}):
    start = time.perf_counter()
    model.run(None, {{"x": x}})
    times.append(time.perf_counter() - start)
print(statistics.median(times[{warmup}:]) * 1e3)
""",
}


def weights() -> list[np.ndarray]:
    """Kernels of the layers, each (out, height, width, in)."""
    generator = np.random.default_rng(0)
    shape = (CHANNELS, 3, 3, CHANNELS)
    return [(generator.standard_normal(shape) / np.sqrt(9 * CHANNELS)).astype(np.float32) for _ in range(LAYERS)]


def make_onnx(path: Path) -> tuple[int, ...]:
    """A chain of 3x3 convolutions with ReLU; returns the input's shape."""
    from onnx import TensorProto, helper, numpy_helper, save

    shape = (1, CHANNELS, SIZE, SIZE)
    nodes, kernels, name = [], [], "x"
    for place, kernel in enumerate(weights()):
        kernels.append(numpy_helper.from_array(kernel.transpose(0, 3, 1, 2).copy(), f"w{place}"))
        nodes.append(helper.make_node("Conv", [name, f"w{place}"], [f"c{place}"], pads=[1, 1, 1, 1]))
        name = "y" if place == LAYERS - 1 else f"r{place}"
        nodes.append(helper.make_node("Relu", [f"c{place}"], [name]))
    ends = [helper.make_tensor_value_info(end, TensorProto.FLOAT, shape) for end in ("x", "y")]
    graph = helper.make_graph(nodes, "convolutions", ends[:1], ends[1:], kernels)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return shape


def make_tflite(path: Path) -> tuple[int, ...]:
    """The same chain as a .tflite file, written as a flatbuffer; returns the input's shape."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    shape = (1, SIZE, SIZE, CHANNELS)
    buffers, tensors, operators = [schema.BufferT()], [], []

    def add_tensor(name: str, dims: tuple[int, ...], data: np.ndarray | None = None) -> int:
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = name, list(dims), schema.TensorType.FLOAT32, 0
        if data is not None:
            tensor.buffer = len(buffers)
            buffers.append(schema.BufferT())
            buffers[-1].data = np.frombuffer(data.tobytes(), np.uint8)
        tensors.append(tensor)
        return len(tensors) - 1

    current = add_tensor("x", shape)
    bias = add_tensor("bias", (CHANNELS,), np.zeros(CHANNELS, np.float32))
    for place, kernel in enumerate(weights()):
        options = schema.Conv2DOptionsT()
        options.padding, options.strideH, options.strideW = schema.Padding.SAME, 1, 1
        options.dilationHFactor = options.dilationWFactor = 1
        options.fusedActivationFunction = schema.ActivationFunctionType.RELU
        operator = schema.OperatorT()
        operator.opcodeIndex = 0
        operator.builtinOptionsType, operator.builtinOptions = schema.BuiltinOptions.Conv2DOptions, options
        kernel_tensor = add_tensor(f"w{place}", kernel.shape, kernel)
        output = add_tensor("y" if place == LAYERS - 1 else f"r{place}", shape)
        operator.inputs, operator.outputs = [current, kernel_tensor, bias], [output]
        operators.append(operator)
        current = output
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CONV_2D
    code.version = 1
    graph = schema.SubGraphT()
    graph.tensors, graph.operators, graph.inputs, graph.outputs = tensors, operators, [0], [current]
    model = schema.ModelT()
    model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, [code], [graph], buffers
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    return shape


def artifact(path: Path, shape: tuple[int, ...]) -> Artifact:
    def binding(name: str) -> tuple[Binding, ...]:
        return (Binding(tensor=TensorSpec(name=name, shape=shape, dtype="float32"), baseline=name),)

    return Artifact(
        format=Format(path.suffix[1:]),
        files=(path.name,),
        sha256=path.suffix[1:].rjust(64, "0"),
        size_bytes=path.stat().st_size,
        inputs=binding("x"),
        outputs=binding("y"),
        census=Census(precision=Precision.FP32, ops={}, weight_bytes={}, parameters=0, macs=None),
        batch=1,
    )


def bare_ms(runtime: str, model: Path, sample: Path, cpu: int) -> float:
    code = BARE[runtime].format(runs=RUNS, warmup=WARMUP_RUNS)
    argv = [sys.executable, "-c", code, str(model), str(sample), str(cpu)]
    return float(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)


def litert_benchmark_ms(model: Path, folder: Path, cpu: int) -> float:
    result = folder / "litert-benchmark.json"
    command = (
        f"import os; os.sched_setaffinity(0, [{cpu}]); "
        "from ai_edge_litert.tools.benchmark_litert_model import main; main()"
    )
    options = [f"--model={model}", f"--num_runs={RUNS}", f"--warmup_runs={WARMUP_RUNS}", "--num_threads=1"]
    argv = [sys.executable, "-c", command, *options, f"--result_json={result}"]
    subprocess.run(argv, check=True, capture_output=True)
    return float(json.loads(result.read_text())["latency"]["median_ms"])


def interval(ratios: list[float]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the median."""
    drawn = np.random.default_rng(0).choice(ratios, (10_000, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    return float(low), float(high)


def compare(runtime: str, model: Path, shape: tuple[int, ...], folder: Path, pairs: int) -> bool:
    """Print the table's rows for one runtime; whether the runner is within tolerance."""
    sample = folder / "x.npy"
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    feed = {"x": feed_files.write(sample, x)}
    device = open_device("host")
    try:
        plan = Plan(min_runs=RUNS, max_runs=RUNS, min_seconds=0)
        deployment = session.deploy(device, artifact(model, shape), folder, Target(device="host", runtime=runtime))
        cpu = deployment.cpus[0]
        rounds: list[Round] = []

        def runner_ms() -> float:
            rounds.append(session.measure_round(deployment, plan, len(rounds), feed))
            return statistics.median(rounds[-1].latencies_ns) / 1e6

        tools: dict[str, Callable[[], float]] = {
            "bare loop": lambda: bare_ms(runtime, model, sample, cpu),
            "edgebench": runner_ms,
        }
        if runtime == "litert":
            tools["litert-benchmark"] = lambda: litert_benchmark_ms(model, folder, cpu)
        found: dict[str, list[float]] = {name: [] for name in tools}
        order = random.Random(0)
        for _ in range(pairs):
            for name in order.sample(list(tools), len(tools)):
                found[name].append(tools[name]())
    finally:
        device.close()
    is_close = True
    for name, values in found.items():
        ratios = [value / bare for value, bare in zip(values, found["bare loop"], strict=True)]
        ratio, (low, high) = statistics.median(ratios), interval(ratios)
        spread = (max(values) - min(values)) / statistics.median(values)
        print(
            f"{runtime:12} {name:17} {statistics.median(values):8.3f} {spread:7.1%} {ratio:8.4f} {low:8.4f} {high:8.4f}"
        )
        if name == "edgebench" and abs(ratio - 1) > TOLERANCE:
            is_close = False
    trust = judge(Measurement(rounds=tuple(rounds), origin=Origin.MEASURED), plan)
    print(f"{runtime:12} verdict on edgebench's own rounds: {trust.verdict}")
    for caution in trust.cautions:
        print(f"  {caution.code}: {caution.message}; {caution.advice}")
    return is_close


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=15, help="pairs of fresh processes for each runtime")
    pairs = parser.parse_args().pairs
    print(f"{pairs} pairs, {RUNS} runs a process, 1 thread, load {os.getloadavg()[0]:.2f}")
    print(f"{'runtime':12} {'tool':17} {'p50 ms':>8} {'spread':>7} {'ratio':>8} {'low':>8} {'high':>8}")
    makers = {"litert": ("m.tflite", make_tflite), "onnxruntime": ("m.onnx", make_onnx)}
    fine = True
    with tempfile.TemporaryDirectory() as folder, lease("host", print):
        for runtime, (name, make) in makers.items():
            model = Path(folder) / name
            fine &= compare(runtime, model, make(model), Path(folder), pairs)
    print("ok" if fine else f"NOT within {TOLERANCE:.0%} of the bare loop")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
