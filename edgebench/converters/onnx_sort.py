"""The operators of an ONNX graph in an order that ONNX allows: each after everything that it reads."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from edgebench.converters import onnx_file

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto


def sort_nodes(model: ModelProto) -> bool:
    """Sort every graph of the model in place; True when an order changed.

    onnxruntime's tools sort by the inputs of a node alone. The body of an If, Loop or Scan also reads values of the
    graph around it, and those nodes may end up behind the one that holds the body. A graph in order stays as it is.
    """
    return sum(_sort(graph) for graph in onnx_file.graphs(model.graph)) > 0


def _sort(graph: GraphProto) -> bool:
    maker = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    needed = [{maker[name] for name in _reads(node) if name in maker} for node in graph.node]
    if all(index > max(before, default=-1) for index, before in enumerate(needed)):
        return False
    readers: list[list[int]] = [[] for _ in graph.node]
    for index, before in enumerate(needed):
        for other in before:
            readers[other].append(index)
    missing = [len(before) for before in needed]
    ready = deque(index for index, count in enumerate(missing) if count == 0)
    order = []
    while ready:
        index = ready.popleft()
        order.append(index)
        for reader in readers[index]:
            missing[reader] -= 1
            if missing[reader] == 0:
                ready.append(reader)
    if len(order) < len(needed):
        return False  # a circle: no order exists, which reading the file back tells
    nodes = [graph.node[index] for index in order]
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    return True


def _reads(node: NodeProto) -> set[str]:
    """The names that a node reads itself or in its bodies; a name that a body makes may be among them, harmlessly."""
    names = set(node.input)
    for attribute in node.attribute:
        for body in [attribute.g] if attribute.HasField("g") else list(attribute.graphs):
            for inner in body.node:
                names |= _reads(inner)
            names |= {value.name for value in body.output}  # a body may hand a value of the outer graph on
    return names
