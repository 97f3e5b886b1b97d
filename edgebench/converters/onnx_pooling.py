"""Spatial means as GlobalAveragePool, the form of them that onnxruntime can quantize."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgebench.converters import onnx_macs

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

_TO_CHANNELS_FIRST = [0, 3, 1, 2]
_TO_CHANNELS_LAST = [0, 2, 3, 1]
_SPATIAL_AXES = "edgebench/spatial-axes"


def pool_spatial_means(model: ModelProto) -> None:
    """Replace, in place, each ReduceMean over height and width of a 4-d tensor by GlobalAveragePool: the same values.

    PyTorch's exporter and tf2onnx write global average pooling as ReduceMean, over axes 2, 3 (NCHW) and 1, 2 (NHWC).
    Needs opset 13. Transposes that become superfluous are left to onnxruntime's optimizer.
    """
    import onnx

    shapes = onnx_macs.infer(model).shapes
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        is_image = node.op_type == "ReduceMean" and len(shapes.get(node.input[0], ())) == 4
        axes = _axes(node, stored) if is_image else set()
        nodes += _pooled(node, axes == {1, 2}) if axes in ({2, 3}, {1, 2}) else [node]
    if any(_SPATIAL_AXES in node.input for node in nodes):
        model.graph.initializer.append(onnx.helper.make_tensor(_SPATIAL_AXES, onnx.TensorProto.INT64, [2], [2, 3]))
    graph = onnx.GraphProto(node=nodes)  # a copy: emptying the old list would end the nodes taken from it
    del model.graph.node[:]
    model.graph.node.extend(graph.node)


def _axes(node: NodeProto, stored: dict[str, TensorProto]) -> set[int]:
    """The axes, from 0, of a ReduceMean of rank 4: an attribute before opset 18, an input since; empty when unknown."""
    import onnx

    axes = next((list(attribute.ints) for attribute in node.attribute if attribute.name == "axes"), [])
    if len(node.input) > 1 and node.input[1] in stored:
        axes = onnx.numpy_helper.to_array(stored[node.input[1]]).tolist()
    return {axis % 4 for axis in axes}


def _pooled(node: NodeProto, is_channels_last: bool) -> list[NodeProto]:
    import onnx

    keeps_axes = next((attribute.i for attribute in node.attribute if attribute.name == "keepdims"), 1) == 1
    source, result, name = node.input[0], node.output[0], node.name or node.output[0]
    made = []
    if is_channels_last:
        made.append(
            onnx.helper.make_node("Transpose", [source], [f"{result}/nchw"], f"{name}/nchw", perm=_TO_CHANNELS_FIRST)
        )
        source = f"{result}/nchw"
    if keeps_axes and not is_channels_last:
        return [onnx.helper.make_node("GlobalAveragePool", [source], [result], name)]
    made.append(onnx.helper.make_node("GlobalAveragePool", [source], [f"{result}/pool"], name))
    source = f"{result}/pool"
    if keeps_axes:
        made.append(onnx.helper.make_node("Transpose", [source], [result], f"{name}/nhwc", perm=_TO_CHANNELS_LAST))
    else:
        made.append(onnx.helper.make_node("Squeeze", [source, _SPATIAL_AXES], [result], f"{name}/squeeze"))
    return made
