"""Small float ONNX models for the tests, with seeded weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from edgebench.converters import onnx_file
from edgebench.converters.exported import Exported
from edgebench.types import Baseline, Binding, Framework, TensorSpec

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def cnn(batch: int | str = 1, opset: int = 18) -> onnx.ModelProto:
    """image (batch, 3, 16, 16) -> scores (batch, 5): 3x3 convolution, batch norm, relu, mean over space, linear."""
    nodes = [
        helper.make_node("Conv", ["image", "kernel"], ["c"], "stem/conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "variance"], ["n"], "stem/norm"),
        helper.make_node("Relu", ["n"], ["r"], "stem/relu"),
        helper.make_node("ReduceMean", ["r", "axes"], ["p"], "pool", keepdims=0),
        helper.make_node("Gemm", ["p", "weight", "bias"], ["scores"], "head", transB=1),
    ]
    stored = {
        "kernel": _normal(8, 3, 3, 3),
        "gamma": 1 + _normal(8) / 4,
        "beta": _normal(8),
        "mean": _normal(8),
        "variance": np.full(8, 2.0, np.float32),
        "axes": np.array([2, 3]),
        "weight": _normal(5, 8),
        "bias": _normal(5),
    }
    if opset < 18:
        del stored["axes"]
        nodes[3] = helper.make_node("ReduceMean", ["r"], ["p"], "pool", keepdims=0, axes=[2, 3])
    return model(nodes, {"image": (FLOAT, [batch, 3, 16, 16])}, {"scores": [batch, 5]}, stored, opset)


def token_net() -> onnx.ModelProto:
    """ids (1, 6) int64 and extra (1, 4) -> scores (1, 3): embedding, LSTM-free mean, concatenation, MatMul."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e"], "embed"),
        helper.make_node("ReduceMean", ["e", "axes"], ["m"], "mean", keepdims=0),
        helper.make_node("Concat", ["m", "extra"], ["x"], "join", axis=1),
        helper.make_node("MatMul", ["x", "weight"], ["scores"], "head"),
    ]
    stored = {"table": _normal(50, 60), "axes": np.array([1]), "weight": _normal(64, 3)}
    return model(nodes, {"ids": (INT64, [1, 6]), "extra": (FLOAT, [1, 4])}, {"scores": [1, 3]}, stored)


def lstm() -> onnx.ModelProto:
    """steps (5, 1, 6) -> states (5, 1, 1, 7): one LSTM."""
    nodes = [helper.make_node("LSTM", ["steps", "w", "r"], ["states"], "lstm", hidden_size=7)]
    stored = {"w": _normal(1, 28, 6), "r": _normal(1, 28, 7)}
    return model(nodes, {"steps": (FLOAT, [5, 1, 6])}, {"states": [5, 1, 1, 7]}, stored)


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, list[Any]]],
    outputs: dict[str, list[Any]],
    stored: dict[str, np.ndarray],
    opset: int = 18,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def baseline(path: Path, run_folder: Path, framework: Framework = Framework.ONNX) -> Baseline:
    inputs, outputs = onnx_file.io(onnx_file.load(path))
    return Baseline(
        name="small",
        framework=framework,
        source=str(path),
        path=path.relative_to(run_folder).as_posix(),
        sha256="0",
        inputs=inputs,
        outputs=outputs,
        parameters=1,
    )


def exported(path: Path) -> Exported:
    inputs, outputs = onnx_file.io(onnx_file.load(path))
    return Exported(path=path, inputs=_same(inputs), outputs=_same(outputs), route="test", tool_versions={})


def run(path: Path, **feed: np.ndarray) -> list[np.ndarray]:
    import onnxruntime

    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feed)


def sqnr_db(reference: np.ndarray, found: np.ndarray) -> float:
    return float(10 * np.log10((reference**2).sum() / ((reference - found) ** 2).sum()))


def _same(specs: tuple[TensorSpec, ...]) -> tuple[Binding, ...]:
    return tuple(Binding(tensor=spec, baseline=spec.name) for spec in specs)


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
