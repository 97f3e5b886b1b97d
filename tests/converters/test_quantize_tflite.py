from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgebench.converters import inspect_tflite, quantize_tflite
from edgebench.converters.exported import Exported
from edgebench.errors import DataError, RefusedError
from edgebench.types import Calibration, Format, Precision, Recipe, Scheme

FLOAT = Path(__file__).parents[1] / "files" / "tiny-float.tflite"
EXPORTED = Exported(path=FLOAT, inputs=(), outputs=(), route="copy", tool_versions={})


def images(n: int, seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).random((n, 8, 8, 3), dtype=np.float32)


def recipe(scheme: Scheme, **settings: Any) -> Recipe:
    calibration = settings.pop("calibration", Calibration()) if scheme.needs_calibration else None
    return Recipe(name="under-test", format=Format.TFLITE, scheme=scheme, calibration=calibration, **settings)


def run(path: Path, samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """The file's only output for float samples, quantized and dequantized by the file's own scales."""
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(str(path)).get_signature_runner()
    ((name, given),) = runner.get_input_details().items()
    ((_, made),) = runner.get_output_details().items()
    scale, zero = given["quantization"]
    if scale:
        limits = np.iinfo(given["dtype"])
        fed = np.clip(np.rint(samples / scale) + zero, limits.min, limits.max).astype(given["dtype"])
    else:
        fed = samples
    (raw,) = zip(*[runner(**{name: sample[None]}).values() for sample in fed], strict=True)
    result = np.concatenate(raw).astype(np.float32)
    scale, zero = made["quantization"]
    return (result - zero) * scale if scale else result


def sqnr_db(reference: NDArray[np.float32], found: NDArray[np.float32]) -> float:
    return float(10 * np.log10((reference**2).sum() / ((reference - found) ** 2).sum()))


@pytest.mark.parametrize(
    ("scheme", "settings", "precision", "io", "least_db"),
    [
        (Scheme.FP16, {}, Precision.FP16, "float32", 50),
        (Scheme.DYNAMIC_INT8, {}, Precision.DYNAMIC_INT8, "float32", 25),
        (Scheme.WEIGHT_ONLY_INT8, {}, Precision.WEIGHT_ONLY_INT8, "float32", 25),
        (Scheme.INT8, {}, Precision.FULL_INT8, "float32", 25),
        (Scheme.INT8, {"io_dtype": "int8"}, Precision.FULL_INT8, "int8", 25),
        (Scheme.INT8, {"io_dtype": "uint8"}, Precision.FULL_INT8, "uint8", 25),
        (Scheme.INT8, {"granularity": "per-tensor"}, Precision.FULL_INT8, "float32", 20),
        (Scheme.INT16X8, {"io_dtype": "int16"}, Precision.INT16X8, "int16", 25),
    ],
)
def test_a_recipe_gives_the_precision_and_ends_that_it_names(
    scheme: Scheme, settings: dict[str, Any], precision: Precision, io: str, least_db: float, tmp_path: Path
) -> None:
    out = tmp_path / "out.tflite"
    made = quantize_tflite.quantize(EXPORTED, recipe(scheme, **settings), {"image": images(30)}, out)
    facts = inspect_tflite.read(out)
    assert facts.census.precision is precision
    assert (facts.inputs[0].dtype, facts.outputs[0].dtype) == (io, io)
    assert [spec.name for spec in (*facts.inputs, *facts.outputs)] == ["image", "scores"]
    assert sqnr_db(run(FLOAT, images(20, seed=2)), run(out, images(20, seed=2))) > least_db
    assert made.tool_versions["ai-edge-quantizer"].startswith("0.")


def test_min_max_calibration_sees_the_one_sample_that_a_moving_average_forgets(tmp_path: Path) -> None:
    samples = images(60)
    samples[10] *= 40
    quantize_tflite.quantize(EXPORTED, recipe(Scheme.INT8, io_dtype="int8"), {"image": samples}, tmp_path / "q.tflite")
    (image,) = inspect_tflite.read(tmp_path / "q.tflite").inputs
    assert image.quantization is not None
    assert image.quantization.scales[0] == pytest.approx(samples.max() / 255, rel=1e-3)


def test_percentile_calibration_cuts_the_outliers_that_min_max_keeps(tmp_path: Path) -> None:
    samples = images(60)
    samples[10, 0, 0, 0] = 40
    cut = Calibration(method="percentile", percentile=99.9)
    asked = recipe(Scheme.INT8, io_dtype="int8", calibration=cut)
    quantize_tflite.quantize(EXPORTED, asked, {"image": samples}, tmp_path / "q.tflite")
    (image,) = inspect_tflite.read(tmp_path / "q.tflite").inputs
    assert image.quantization is not None
    assert image.quantization.scales[0] == pytest.approx(1 / 255, rel=0.02)


def test_a_dead_channel_keeps_its_bias_and_is_told(tmp_path: Path) -> None:
    dead = tmp_path / "dead.tflite"
    _kill_first_channel(FLOAT, dead)
    out = tmp_path / "out.tflite"
    exported = Exported(path=dead, inputs=(), outputs=(), route="copy", tool_versions={})
    made = quantize_tflite.quantize(exported, recipe(Scheme.INT8), {"image": images(30)}, out)
    assert [caution.code for caution in made.cautions] == ["dead-channels"]
    assert sqnr_db(run(dead, images(20, seed=2)), run(out, images(20, seed=2))) > 25


def test_keep_float_leaves_the_named_operators_in_float(tmp_path: Path) -> None:
    out = tmp_path / "out.tflite"
    quantize_tflite.quantize(EXPORTED, recipe(Scheme.INT8, keep_float=("FULLY_*",)), {"image": images(5)}, out)
    assert inspect_tflite.read(out).census.float_ops == {"FULLY_CONNECTED": 1}
    assert inspect_tflite.read(out).census.precision is Precision.MIXED


def test_keep_float_takes_the_name_of_an_output_tensor(tmp_path: Path) -> None:
    from edgebench.converters import tflite_file

    graph = tflite_file.load(FLOAT).main
    (mean,) = [graph.tensors[op.outputs[0]].name for op in graph.operators if op.name == "MEAN"]
    out = tmp_path / "out.tflite"
    glob = f"*{mean[-12:]}"
    quantize_tflite.quantize(EXPORTED, recipe(Scheme.INT8, keep_float=(glob,)), {"image": images(5)}, out)
    assert inspect_tflite.read(out).census.float_ops == {"MEAN": 1}


def test_keep_float_that_names_nothing_lists_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"'LSTM' names no operator .* CONV_2D, FULLY_CONNECTED, MEAN"):
        quantize_tflite.quantize(
            EXPORTED, recipe(Scheme.INT8, keep_float=("LSTM",)), {"image": images(5)}, tmp_path / "out.tflite"
        )


@pytest.mark.parametrize(
    ("calibration", "message"),
    [
        (None, "needs calibration samples"),
        ({}, "needs calibration samples"),
        ({"picture": images(5)}, r"input 'image'; there is picture \(5\)"),
        ({"image": images(5)[:, :4]}, r"shape \[5, 4, 8, 3\]"),
        ({"image": images(5) * np.float32("nan")}, "NaN"),
    ],
)
def test_calibration_samples_that_do_not_fit_are_told(
    calibration: dict[str, Any] | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        quantize_tflite.quantize(EXPORTED, recipe(Scheme.INT8), calibration, tmp_path / "out.tflite")


def test_a_file_without_signature_is_calibrated_by_its_tensor_names(tmp_path: Path) -> None:
    plain = tmp_path / "plain.tflite"
    _change(FLOAT, plain, lambda model: setattr(model, "signatureDefs", None))
    (name,) = [spec.name for spec in inspect_tflite.read(plain).inputs]
    out = tmp_path / "out.tflite"
    exported = Exported(path=plain, inputs=(), outputs=(), route="copy", tool_versions={})
    quantize_tflite.quantize(exported, recipe(Scheme.INT8), {name: images(5)}, out)
    assert inspect_tflite.read(out).census.precision is Precision.FULL_INT8


def _kill_first_channel(source: Path, out: Path) -> None:
    """Weights near 0 and a bias of 5 in the convolution's first channel, as training leaves a dead one."""

    def kill(model: Any) -> None:
        graph = model.subgraphs[0]
        (conv,) = [op for op in graph.operators if len(graph.tensors[op.inputs[1]].shape) == 4]
        for index, value in ((conv.inputs[1], 1e-9), (conv.inputs[2], 5.0)):
            buffer = model.buffers[graph.tensors[index].buffer]
            values = np.frombuffer(bytes(buffer.data), np.float32).reshape(4, -1).copy()
            values[0] = value
            buffer.data = np.frombuffer(values.tobytes(), np.uint8)

    _change(source, out, kill)


def _change(source: Path, out: Path, change: Any) -> None:
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(source.read_bytes(), 0)
    change(model)
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), b"TFL3")
    out.write_bytes(builder.Output())
