from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from edgebench.converters import inspect_tflite, inspection
from edgebench.errors import ModelError
from edgebench.types import Precision

FILES = Path(__file__).parents[1] / "files"
FLOAT = FILES / "tiny-float.tflite"
INT8 = FILES / "tiny-int8.tflite"


def test_a_float_file_shows_its_open_batch_weights_and_operators() -> None:
    facts = inspection.read(FLOAT)
    assert [(spec.name, spec.shape, spec.dtype) for spec in facts.inputs] == [("image", (None, 8, 8, 3), "float32")]
    assert [(spec.name, spec.shape) for spec in facts.outputs] == [("scores", (None, 3))]
    assert facts.batch is None
    assert facts.census.precision is Precision.FP32
    assert facts.census.float_ops == {"CONV_2D": 1, "MEAN": 1, "FULLY_CONNECTED": 1}
    assert facts.census.weight_bytes == {"float32": 4 * facts.census.parameters}
    assert facts.census.parameters == (3 * 3 * 3 * 4 + 4) + 4 * 3  # the dense bias is 0: left out
    assert facts.census.macs is None
    assert facts.size_bytes == FLOAT.stat().st_size


def test_an_int8_file_is_full_int8_with_the_scales_of_its_ends() -> None:
    facts = inspection.read(INT8)
    assert facts.census.precision is Precision.FULL_INT8
    assert facts.census.float_ops == {}
    assert set(facts.census.ops) == {"CONV_2D:int8", "MEAN:int8", "FULLY_CONNECTED:int8"}
    (image,) = facts.inputs
    assert image.dtype == "int8"
    assert image.quantization is not None
    assert image.quantization.scales[0] == pytest.approx(1 / 255, rel=0.01)
    assert image.quantization.zero_points == (-128,)
    assert all(op.version is not None for op in facts.ops)


def test_macs_are_those_of_the_formula_once_the_batch_is_fixed(tmp_path: Path) -> None:
    fixed = tmp_path / "fixed.tflite"
    _rewrite(FLOAT, fixed, batch=2)
    facts = inspection.read(fixed)
    assert facts.batch == 2
    assert facts.census.macs == 2 * (6 * 6 * 4 * 3 * 3 * 3 + 4 * 3)


def test_a_missing_a_foreign_and_an_unknown_file_each_say_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not there"):
        inspection.read(tmp_path / "gone.tflite")
    foreign = tmp_path / "photo.tflite"
    foreign.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    with pytest.raises(ModelError, match=r"no \.tflite file"):
        inspection.read(foreign)
    with pytest.raises(ModelError, match=r"ending '\.bin'"):
        inspection.read(shutil.copy(FLOAT, tmp_path / "model.bin"))


def test_a_truncated_file_is_a_model_error_wherever_it_is_cut(tmp_path: Path) -> None:
    data = INT8.read_bytes()
    cut = tmp_path / "cut.tflite"
    # The format may end in padding; up to the last tensor everything is needed.
    for length in range(0, len(data) * 9 // 10, 37):
        cut.write_bytes(data[:length])
        with pytest.raises(ModelError):
            inspect_tflite.read(cut)


@pytest.mark.parametrize("seed", range(4))
def test_flipped_bytes_give_facts_or_a_model_error_and_nothing_else(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    original = (FLOAT if seed % 2 else INT8).read_bytes()
    path = tmp_path / "hostile.tflite"
    refused = 0
    for _ in range(400):
        data = bytearray(original)
        for _ in range(rng.choice((1, 4, 32))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        data[4:8] = b"TFL3"
        path.write_bytes(data)
        try:
            inspect_tflite.read(path)
        except ModelError:
            refused += 1
    assert refused > 0


def test_a_small_file_whose_offsets_repeat_one_table_is_refused_at_once(tmp_path: Path) -> None:
    """4 kB whose every vector entry is the same table would otherwise cost billions of steps."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    builder = flatbuffers.Builder(0)
    schema.SubGraphStartTensorsVector(builder, 0)
    empty = builder.EndVector()
    schema.SubGraphStart(builder)
    schema.SubGraphAddTensors(builder, empty)
    graph = schema.SubGraphEnd(builder)
    schema.ModelStartSubgraphsVector(builder, 1)
    builder.PrependUOffsetTRelative(graph)
    graphs = builder.EndVector()
    schema.ModelStart(builder)
    schema.ModelAddSubgraphs(builder, graphs)
    builder.Finish(schema.ModelEnd(builder), b"TFL3")
    data = bytearray(builder.Output())
    position = data.index((1).to_bytes(4, "little"), 8)
    data[position : position + 4] = (2**31 - 1).to_bytes(4, "little")
    path = tmp_path / "bomb.tflite"
    path.write_bytes(data)
    with pytest.raises(ModelError, match="damaged"):
        inspect_tflite.read(path)


def _rewrite(source: Path, out: Path, batch: int) -> None:
    """The file with every open first axis at `batch`."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(source.read_bytes(), 0)
    for tensor in model.subgraphs[0].tensors:
        if tensor.shapeSignature is not None and tensor.shapeSignature[0] == -1:
            tensor.shape = [batch, *tensor.shape[1:]]
        tensor.shapeSignature = None
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), b"TFL3")
    out.write_bytes(builder.Output())
