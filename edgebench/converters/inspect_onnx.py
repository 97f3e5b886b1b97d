"""What an .onnx file holds: operators and the precision that each computes in, weights, multiply-accumulates.

The file's precision follows from its operators' (see `onnx_graph`):

- full-int8: there are int8 operators and no operator computes in float. mixed: some do.
- dynamic-int8: activations are quantized while it runs, and every operator with weights computes in int8; the
  arithmetic between them is float by nature.
- weight-only-int8 / -int4: no operator computes in integers, and the weights of all operators that have some are
  stored so.
- fp16 / fp32: all arithmetic is in that type.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.converters import onnx_file, onnx_macs
from edgebench.converters.inspection import FileFacts, OpFacts
from edgebench.converters.onnx_graph import MOVES, Graph
from edgebench.types import Census, Format, Precision

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

_DYNAMIC = frozenset({"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"})


def read(path: Path) -> FileFacts:
    """The facts of an .onnx file; external data is counted but not read.

    Raises:
        ModelError: not an ONNX file, cut short, invalid, or its external data is absent or leaves its folder.
    """
    model = onnx_file.load(path)
    types = onnx_macs.infer(model)
    graph = Graph(model, types)
    labels = [(node, graph.precision(node)) for node in graph.nodes]
    files = (path.absolute(), *onnx_file.external_files(path, model))
    inputs, outputs = onnx_file.io(model)
    batches = {spec.shape[0] for spec in inputs if spec.shape}
    return FileFacts(
        format=Format.ONNX,
        inputs=tuple(replace(spec, quantization=graph.input_quantization(spec)) for spec in inputs),
        outputs=tuple(replace(spec, quantization=graph.output_quantization(spec)) for spec in outputs),
        census=Census(
            precision=_precision(graph, labels),
            ops=dict(sorted(Counter(f"{node.op_type}:{label}" for node, label in labels).items())),
            weight_bytes=graph.weight_bytes(),
            parameters=graph.parameters(),
            macs=onnx_macs.count(model, types),
            float_ops=dict(sorted(Counter(node.op_type for node, label in labels if _is_float(node, label)).items())),
        ),
        batch=batches.pop() if len(batches) == 1 else None,
        ops=_op_facts(model, labels),
        size_bytes=sum(file.stat().st_size for file in files),
        files=files,
    )


def _is_float(node: NodeProto, label: str) -> bool:
    """Whether it computes in float; float16 is what an fp16 file is meant to compute in, so it doesn't count."""
    return label in ("float32", "float64") and node.op_type not in MOVES


def _precision(graph: Graph, labels: list[tuple[NodeProto, str]]) -> Precision:
    computing = [(node, label) for node, label in labels if node.op_type not in MOVES and _is_known_type(label)]
    weights = [(label, kind) for node, label in computing if (kind := graph.weight_kind(node)) is not None]
    found = {label for _, label in computing}
    if any(node.op_type in _DYNAMIC for node, _ in labels):
        return Precision.DYNAMIC_INT8 if {label for label, _ in weights} <= {"int8"} else Precision.MIXED
    if found & {"int8", "int16x8"}:
        if not found <= {"int8", "int16x8"}:
            return Precision.MIXED
        return Precision.INT16X8 if "int16x8" in found else Precision.FULL_INT8
    kinds = {kind for _, kind in weights}
    if kinds == {"int8"}:
        return Precision.WEIGHT_ONLY_INT8
    if kinds == {"int4"}:
        return Precision.WEIGHT_ONLY_INT4
    if kinds <= {"float"} and found <= {"float32"}:
        return Precision.FP32
    return Precision.FP16 if kinds <= {"float"} and found == {"float16"} else Precision.MIXED


def _is_known_type(label: str) -> bool:
    """Leaves out arithmetic on shapes and indices (int64, bool)."""
    return label in ("int8", "int16x8", "float16", "float32", "float64", "bfloat16")


def _op_facts(model: ModelProto, labels: list[tuple[NodeProto, str]]) -> tuple[OpFacts, ...]:
    opsets = {_domain(entry.domain): entry.version for entry in model.opset_import}
    counts = Counter((node.op_type, opsets.get(_domain(node.domain)), label) for node, label in labels)
    ordered = sorted(counts.items(), key=lambda item: (item[0][0], item[0][2]))
    return tuple(OpFacts(name=op, version=version, precision=label, count=n) for (op, version, label), n in ordered)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name
