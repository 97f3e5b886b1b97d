from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import small_onnx

from edgebench.converters import inspect_onnx, onnx_onnx
from edgebench.errors import ModelError, RefusedError, StageError

IMAGES = np.random.default_rng(0).standard_normal((4, 3, 16, 16), dtype=np.float32)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The snapshot's place; the exported file goes to a folder beside it."""
    (tmp_path / "baseline").mkdir()
    (tmp_path / "out").mkdir()
    return tmp_path / "baseline" / "net.onnx"


def test_an_open_batch_stays_open_and_the_copy_is_bit_equal(source: Path, tmp_path: Path) -> None:
    onnx.save(small_onnx.cnn("n"), source)
    exported = onnx_onnx.export(small_onnx.baseline(source, tmp_path), tmp_path, tmp_path / "out" / "net.onnx", None)
    assert exported.path.read_bytes() == source.read_bytes()
    assert exported.inputs[0].tensor.shape == (None, 3, 16, 16)


@pytest.mark.parametrize("batch", [1, 4])
def test_an_open_batch_is_fixed_in_the_inputs_and_the_outputs(source: Path, tmp_path: Path, batch: int) -> None:
    onnx.save(small_onnx.cnn("n"), source)
    exported = onnx_onnx.export(small_onnx.baseline(source, tmp_path), tmp_path, tmp_path / "out" / "net.onnx", batch)
    assert exported.inputs[0].tensor.shape == (batch, 3, 16, 16)
    assert exported.outputs[0].tensor.shape == (batch, 5)
    (found,), (wanted,) = (small_onnx.run(path, image=IMAGES[:batch]) for path in (exported.path, source))
    np.testing.assert_array_equal(found, wanted)
    assert inspect_onnx.read(exported.path).census.macs == batch * (8 * 16 * 16 * 3 * 9 + 5 * 8)


def test_several_inputs_and_integer_ids_are_bound_by_name(source: Path, tmp_path: Path) -> None:
    onnx.save(small_onnx.token_net(), source)
    exported = onnx_onnx.export(small_onnx.baseline(source, tmp_path), tmp_path, tmp_path / "out" / "net.onnx", 1)
    assert [(b.baseline, b.tensor.dtype, b.permutation) for b in exported.inputs] == [
        ("ids", "int64", None),
        ("extra", "float32", None),
    ]


def test_a_fixed_batch_refuses_another_and_an_open_one(source: Path, tmp_path: Path) -> None:
    onnx.save(small_onnx.cnn(2), source)
    baseline = small_onnx.baseline(source, tmp_path)
    for batch, wanted in ((1, "batch 1"), (None, "an open batch")):
        with pytest.raises(RefusedError, match=f"fixed batch of 2; {wanted} can't be made, take --batch 2"):
            onnx_onnx.export(baseline, tmp_path, tmp_path / "out" / "net.onnx", batch)


@pytest.mark.parametrize("batch", [None, 3])
def test_external_data_comes_along(source: Path, tmp_path: Path, batch: int | None) -> None:
    onnx.save(small_onnx.cnn("n"), source, save_as_external_data=True, location="net.data", size_threshold=100)
    exported = onnx_onnx.export(small_onnx.baseline(source, tmp_path), tmp_path, tmp_path / "out" / "net.onnx", batch)
    assert inspect_onnx.read(exported.path).files == (exported.path, tmp_path / "out" / "net.data")
    (found,), (wanted,) = (small_onnx.run(path, image=IMAGES[:3]) for path in (exported.path, source))
    np.testing.assert_array_equal(found, wanted)


def test_external_data_that_leaves_the_folder_is_refused_and_nothing_is_written(source: Path, tmp_path: Path) -> None:
    onnx.save(small_onnx.cnn(), source)
    baseline = small_onnx.baseline(source, tmp_path)
    (tmp_path / "secret").write_bytes(bytes(10_000))
    onnx.save(small_onnx.cnn(), source, save_as_external_data=True, location="net.data", size_threshold=0)
    model = onnx.load(source, load_external_data=False)
    for tensor in model.graph.initializer:
        next(entry for entry in tensor.external_data if entry.key == "location").value = "../secret"
    source.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"'\.\./secret', outside the model's folder"):
        onnx_onnx.export(baseline, tmp_path, tmp_path / "out" / "net.onnx", 1)
    assert not list((tmp_path / "out").iterdir())


def test_a_quantized_baseline_is_refused(source: Path, tmp_path: Path) -> None:
    from onnxruntime.quantization import quantize_dynamic

    onnx.save(small_onnx.token_net(), tmp_path / "float.onnx")
    quantize_dynamic(tmp_path / "float.onnx", source)
    with pytest.raises(RefusedError, match="'small' is dynamic-int8 already, a recipe starts from fp32"):
        onnx_onnx.export(small_onnx.baseline(source, tmp_path), tmp_path, tmp_path / "out" / "net.onnx", 1)


def test_an_input_that_the_baseline_lacks_is_told(source: Path, tmp_path: Path) -> None:
    onnx.save(small_onnx.token_net(), source)
    baseline = small_onnx.baseline(source, tmp_path)
    wrong = replace(baseline, inputs=(baseline.inputs[0],))
    with pytest.raises(StageError, match="tensor 'extra' is none of the baseline's: ids"):
        onnx_onnx.export(wrong, tmp_path, tmp_path / "out" / "net.onnx", 1)


def test_an_input_that_the_file_lacks_gives_a_caution_and_a_lacking_output_an_error(
    source: Path, tmp_path: Path
) -> None:
    onnx.save(small_onnx.token_net(), source)
    baseline = small_onnx.baseline(source, tmp_path)
    more = replace(baseline, inputs=(*baseline.inputs, replace(baseline.inputs[0], name="mask")))
    exported = onnx_onnx.export(more, tmp_path, tmp_path / "out" / "net.onnx", 1)
    assert [caution.code for caution in exported.cautions] == ["unused-input"]
    assert "'mask' changes no output" in exported.cautions[0].message
    more = replace(baseline, outputs=(*baseline.outputs, replace(baseline.outputs[0], name="states")))
    with pytest.raises(StageError, match="lacks the baseline's outputs states"):
        onnx_onnx.export(more, tmp_path, tmp_path / "out" / "net.onnx", 1)
