"""What `edgebench inspect` says about the Edge TPU."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from calling import Edgebench

FILES = Path(__file__).parents[1] / "files"


def at_batch_1(target: Path) -> Path:
    """The checked-in int8 file with its open batch closed; its dense weights have one scale a channel."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf((FILES / "tiny-int8.tflite").read_bytes(), 0)
    for tensor in model.subgraphs[0].tensors:
        if tensor.shapeSignature is not None and -1 in tensor.shapeSignature:
            tensor.shapeSignature, tensor.shape = None, np.array([1, *tensor.shape[1:]], np.int32)
    builder = flatbuffers.Builder(4096)
    builder.Finish(model.Pack(builder), b"TFL3")
    target.write_bytes(bytes(builder.Output()))
    return target


def test_an_int8_file_has_a_section_with_each_operator_that_is_not_ready(edgebench: Edgebench, tmp_path: Path) -> None:
    said = edgebench("inspect", at_batch_1(tmp_path / "a.tflite"))
    assert "Edge TPU: not ready as a whole; 2 of 3 operators would run on it\n" in said.out
    assert "its part ends at op 2, FULLY_CONNECTED, the first that would run on the CPU\n" in said.out
    assert "take the recipe" in said.out
    assert "CONV_2D" not in said.out.partition("Edge TPU: ")[2]


def test_another_file_has_one_line_that_says_why_nothing_is_mapped(edgebench: Edgebench) -> None:
    said = edgebench("inspect", FILES / "tiny-float.tflite").out.partition("Edge TPU: ")[2]
    assert (
        said == "not ready: the file is fp32; the Edge TPU computes in full int8 or uint8: take tflite-int8-edgetpu\n"
    )
    assert "Edge TPU" not in edgebench("inspect", FILES / "tiny.onnx").out


def test_json_has_every_operator_with_its_version(edgebench: Edgebench, tmp_path: Path) -> None:
    found = json.loads(edgebench("inspect", at_batch_1(tmp_path / "a.tflite"), "--json").out)["edgetpu"]
    assert (found["is_ready"], found["mapped"], found["total"], found["first_cpu_op"]["index"]) == (False, 2, 3, 2)
    assert [(op["name"], op["version"], op["is_on_tpu"]) for op in found["ops"]] == [
        ("CONV_2D", 3, True),
        ("MEAN", 2, True),
        ("FULLY_CONNECTED", 4, False),
    ]
    assert "edgetpu" not in json.loads(edgebench("inspect", FILES / "tiny.onnx", "--json").out)
