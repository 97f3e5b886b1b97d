"""Readiness from the flatbuffer alone. The files are real ones of TensorFlow's converter, changed in single fields."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgebench.converters import edgetpu_readiness, quantize_tflite, tflite_inline
from edgebench.converters.exported import Exported
from edgebench.converters.recipes import load_recipes
from edgebench.converters.tflite_details import TfliteDetails
from edgebench.errors import ModelError

FILES = Path(__file__).parents[1] / "files"
INT8 = FILES / "tiny-int8.tflite"  # CONV_2D v3, MEAN v2, FULLY_CONNECTED v4, open batch


def changed(target: Path, change: Callable[[Any, Any], None], source: Path = INT8, batch: int = 1) -> Path:
    """The file at a fixed batch, its dense weights with one scale, and `change` (schema, unpacked model) made to it."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(source.read_bytes(), 0)
    for tensor in model.subgraphs[0].tensors:
        if tensor.shapeSignature is not None and -1 in tensor.shapeSignature:
            tensor.shapeSignature = None
            tensor.shape = np.array([batch, *tensor.shape[1:]], np.int32)
    dense = model.subgraphs[0].operators[2]
    for tensor in (model.subgraphs[0].tensors[index] for index in dense.inputs[1:] if index >= 0):
        if tensor.quantization is not None and tensor.quantization.scale is not None:
            tensor.quantization.scale, tensor.quantization.zeroPoint = tensor.quantization.scale[:1], np.zeros(1, int)
    change(schema, model)
    builder = flatbuffers.Builder(4096)
    builder.Finish(model.Pack(builder), b"TFL3")
    target.write_bytes(bytes(builder.Output()))
    return target


def with_constants_behind(model: bytes) -> bytes:
    """The constants at the end of the file, 16-aligned, as ai-edge-quantizer puts those of large models."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    unpacked = schema.ModelT.InitFromPackedBuf(model, 0)
    constants = {index: bytes(b.data) for index, b in enumerate(unpacked.buffers) if b.data is not None and len(b.data)}
    start = 0
    for _ in range(2):  # the first pass tells the length of the flatbuffer, which does not depend on the offsets
        tail = b""
        for index, constant in constants.items():
            buffer = unpacked.buffers[index]
            buffer.data, buffer.offset, buffer.size = None, start + len(tail) + 2, len(constant)
            tail += constant + bytes(-len(constant) % 16)
        builder = flatbuffers.Builder(4096)
        builder.Finish(unpacked.Pack(builder), b"TFL3")
        start = len(builder.Output())
    return bytes(builder.Output()) + bytes(2) + tail


def weights(path: Path) -> list[bytes]:
    """The bytes of every constant that has scales."""
    details = TfliteDetails.load(path)
    return [details.constant(tensor) for tensor in details.file.main.tensors if tensor.scales]


def unchanged(schema: Any, model: Any) -> None:
    pass


def code(model: Any, index: int) -> Any:
    return model.operatorCodes[model.subgraphs[0].operators[index].opcodeIndex]


def test_a_full_int8_file_of_tensorflow_at_batch_1_is_ready(tmp_path: Path) -> None:
    found = edgetpu_readiness.read(changed(tmp_path / "a.tflite", unchanged))
    assert found.is_ready
    assert (found.mapped, found.total, found.first_cpu_op, found.blocker) == (3, 3, None, None)
    assert [(op.index, op.name, op.version) for op in found.ops] == [
        (0, "CONV_2D", 3),
        (1, "MEAN", 2),
        (2, "FULLY_CONNECTED", 4),
    ]
    assert found.weight_bytes == 3 * 3 * 3 * 4 + 4 * 4 + 4 * 3
    assert found.notes == ()


def test_an_open_batch_maps_nothing_and_says_so() -> None:
    found = edgetpu_readiness.read(INT8)
    assert (found.is_ready, found.mapped) == (False, 0)
    assert found.blocker == "the batch is open, so that edgetpu_compiler maps nothing: convert with --batch 1"


def test_a_float_file_has_one_reason_for_the_whole_of_it() -> None:
    found = edgetpu_readiness.read(FILES / "tiny-float.tflite")
    assert found.mapped == 0
    assert found.blocker == ("the file is fp32; the Edge TPU computes in full int8 or uint8: take tflite-int8-edgetpu")


def test_a_version_that_the_compiler_does_not_know_refuses_the_whole_file(tmp_path: Path) -> None:
    def newer(schema: Any, model: Any) -> None:
        code(model, 0).version = 6

    found = edgetpu_readiness.read(changed(tmp_path / "a.tflite", newer))
    assert found.mapped == 0
    assert found.blocker is not None
    assert found.blocker.startswith("CONV_2D (op 0): version 6 is newer than 5, the last that edgetpu_compiler reads")


def test_the_first_unsupported_operator_ends_the_edge_tpus_part(tmp_path: Path) -> None:
    def leaky(schema: Any, model: Any) -> None:
        code(model, 1).builtinCode = code(model, 1).deprecatedBuiltinCode = schema.BuiltinOperator.LEAKY_RELU

    found = edgetpu_readiness.read(changed(tmp_path / "a.tflite", leaky))
    assert found.blocker is None
    assert (found.mapped, found.total) == (1, 3)
    assert found.first_cpu_op == found.ops[1]
    assert found.ops[1].reason == "the Edge TPU has no such operator"
    assert found.ops[1].remedy == "use ReLU or PReLU"
    assert (found.ops[2].is_on_tpu, found.ops[2].reason) == (False, None)
    assert found.notes == ("1 operators without a defect run on the CPU because one with a defect comes before them",)


def test_an_operator_younger_than_the_compiler_refuses_the_whole_file(tmp_path: Path) -> None:
    def gelu(schema: Any, model: Any) -> None:
        code(model, 1).builtinCode = schema.BuiltinOperator.GELU
        code(model, 1).deprecatedBuiltinCode = 127

    found = edgetpu_readiness.read(changed(tmp_path / "a.tflite", gelu))
    assert found.mapped == 0
    assert "GELU (op 1)" in (found.blocker or "")


def test_unequal_dilation_and_a_batch_are_told_with_their_remedies(tmp_path: Path) -> None:
    def dilate(schema: Any, model: Any) -> None:
        model.subgraphs[0].operators[0].builtinOptions.dilationWFactor = 2

    (conv, *_) = edgetpu_readiness.read(changed(tmp_path / "a.tflite", dilate)).ops
    assert conv.reason == "its dilation differs in x (2) and y (1)"
    (conv, *_) = edgetpu_readiness.read(changed(tmp_path / "b.tflite", unchanged, batch=4)).ops
    assert "4x8x8x3: more than its 3 innermost dimensions" in (conv.reason or "")
    assert conv.remedy == "--batch 1"


def test_a_mean_over_the_batch_and_over_odd_channels_are_found_in_its_constant_axes(tmp_path: Path) -> None:
    def axes(values: list[int]) -> Callable[[Any, Any], None]:
        def change(schema: Any, model: Any) -> None:
            graph = model.subgraphs[0]
            axis = graph.tensors[graph.operators[1].inputs[1]]
            model.buffers[axis.buffer].data = np.frombuffer(np.array(values, np.int32).tobytes(), np.uint8)

        return change

    over_batch = edgetpu_readiness.read(changed(tmp_path / "a.tflite", axes([0, 1])))
    assert over_batch.ops[1].reason == "it reduces the batch"
    over_channels = edgetpu_readiness.read(changed(tmp_path / "b.tflite", axes([1, 3])))
    assert over_channels.ops[1].reason is None  # 4 channels


def test_our_usual_int8_file_has_channelwise_dense_weights_and_the_edgetpu_recipe_has_not(tmp_path: Path) -> None:
    fixed = changed(tmp_path / "float.tflite", unchanged, source=FILES / "tiny-float.tflite")
    exported = Exported(path=fixed, inputs=(), outputs=(), route="copy", tool_versions={})
    images = {"image": np.random.default_rng(0).random((30, 8, 8, 3), dtype=np.float32)}
    usual, edgetpu = load_recipes(["tflite-int8", "tflite-int8-edgetpu"])
    quantize_tflite.quantize(exported, usual, images, tmp_path / "usual.tflite")
    quantize_tflite.quantize(exported, edgetpu, images, tmp_path / "edgetpu.tflite")
    found = edgetpu_readiness.read(tmp_path / "usual.tflite")
    assert found.first_cpu_op is not None
    assert (found.first_cpu_op.name, found.mapped, found.total) == ("FULLY_CONNECTED", 2, 3)
    assert edgetpu_readiness.read(tmp_path / "edgetpu.tflite").is_ready


def test_constants_behind_the_flatbuffer_are_not_found_by_the_compiler_and_the_recipe_puts_them_inside(
    tmp_path: Path,
) -> None:
    inside = changed(tmp_path / "inside.tflite", unchanged)
    behind = tmp_path / "behind.tflite"
    behind.write_bytes(with_constants_behind(inside.read_bytes()))
    found = edgetpu_readiness.read(behind)
    assert found.mapped == 0
    assert (found.blocker or "").startswith("its constants lie behind the flatbuffer, where edgetpu_compiler")
    again = tmp_path / "again.tflite"
    again.write_bytes(tflite_inline.with_constants_inside(behind.read_bytes()))
    assert edgetpu_readiness.read(again).is_ready
    assert weights(again) == weights(behind) == weights(inside)
    assert any(weights(inside))


def test_float_ends_cost_the_two_conversions_and_not_the_part_between(tmp_path: Path) -> None:
    fixed = changed(tmp_path / "float.tflite", unchanged, source=FILES / "tiny-float.tflite")
    exported = Exported(path=fixed, inputs=(), outputs=(), route="copy", tool_versions={})
    (recipe,) = load_recipes(["tflite-int8-float-io"])
    images = {"image": np.random.default_rng(0).random((30, 8, 8, 3), dtype=np.float32)}
    quantize_tflite.quantize(exported, recipe, images, tmp_path / "q.tflite")
    found = edgetpu_readiness.read(tmp_path / "q.tflite")
    assert [op.name for op in found.ops if op.is_on_tpu] == ["CONV_2D", "MEAN"]
    assert found.ops[0].reason == "it reads float32"
    assert any("float inputs or outputs" in note for note in found.notes)


def test_files_with_random_damage_end_in_a_model_error_or_an_answer(tmp_path: Path) -> None:
    data = bytearray(changed(tmp_path / "a.tflite", unchanged).read_bytes())
    random = np.random.default_rng(3)
    for _ in range(150):
        broken = bytearray(data)
        for place in random.integers(8, len(data), 4):
            broken[place] = random.integers(0, 256)
        (tmp_path / "broken.tflite").write_bytes(broken)
        with contextlib.suppress(ModelError):
            edgetpu_readiness.read(tmp_path / "broken.tflite")


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="can't be read"):
        edgetpu_readiness.read(tmp_path / "gone.tflite")
