"""TensorFlow and Keras to .tflite through TensorFlow's own converter: float, and its own post-training quantization."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench.converters.exported import Exported
from edgebench.converters.quantized import Quantized
from edgebench.converters.tflite_bind import batched_shapes, bind
from edgebench.errors import DataError, RefusedError, StageError, missing_extra
from edgebench.types import Baseline, Binding, Recipe, Scheme

_SIGNATURE = "serving_default"
_SINGLE = "serving_batch_1"  # a recurrent model's snapshot has it: see models/keras_models.py


def export(baseline: Baseline, run_folder: Path, out: Path, batch: int | None) -> Exported:
    """Write a float `out` from the baseline's SavedModel with its first axes at `batch` (None: open).

    Raises:
        RefusedError: the snapshot's batch is fixed at another number.
        StageError: TensorFlow can't convert the model.
        MissingError: the extra `tensorflow` is not installed.
    """
    tf = _tensorflow()
    _convert(tf, baseline, run_folder, out, batch, settings={})
    inputs, outputs = bind(out, baseline, names=_signature_names(baseline))
    return Exported(
        path=out.absolute(),
        inputs=inputs,
        outputs=outputs,
        route="tensorflow",
        tool_versions={"tensorflow": tf.__version__},
    )


def quantize(
    baseline: Baseline,
    run_folder: Path,
    recipe: Recipe,
    calibration: dict[str, NDArray[Any]] | None,
    out: Path,
    batch: int | None,
) -> tuple[Quantized, tuple[Binding, ...], tuple[Binding, ...]]:
    """Write `out` with TensorFlow's own quantizer, for recipes with `route: tensorflow`; and its inputs and outputs.

    `calibration`: baseline input name -> array (n, ...) in the baseline's axis order. TensorFlow calibrates by min-max
    only and quantizes weights per channel.

    Raises:
        RefusedError: TensorFlow's quantizer can't do what the recipe asks for.
        DataError: calibration is needed and there is none; TensorFlow would write a float file without a word.
    """
    tf = _tensorflow()
    settings = _settings(tf, recipe)
    if recipe.scheme.needs_calibration:
        settings["representative_dataset"] = _representative(baseline, recipe, calibration or {}, batch)
    _convert(tf, baseline, run_folder, out, batch, settings)
    inputs, outputs = bind(out, baseline, names=_signature_names(baseline))
    return Quantized(route="tensorflow", tool_versions={"tensorflow": tf.__version__}), inputs, outputs


def _tensorflow() -> ModuleType:
    try:
        import tensorflow
    except ImportError as error:
        raise missing_extra("tensorflow", "tensorflow", "TensorFlow to .tflite") from error
    module: ModuleType = tensorflow
    return module


def _settings(tf: Any, recipe: Recipe) -> dict[str, Any]:
    """The converter's attributes for a recipe."""
    if recipe.keep_float:
        raise RefusedError(
            f"recipe '{recipe.name}': route tensorflow can't keep single operators in float; drop `route`"
        )
    if recipe.calibration and recipe.calibration.method != "min-max":
        raise RefusedError(
            f"recipe '{recipe.name}': route tensorflow calibrates by min-max, not {recipe.calibration.method}"
        )
    ops = tf.lite.OpsSet
    optimize = {"optimizations": [tf.lite.Optimize.DEFAULT]}
    match recipe.scheme:
        case Scheme.FP32:
            return {}
        case Scheme.FP16:
            return {**optimize, "supported_types": [tf.float16]}
        case Scheme.DYNAMIC_INT8:
            return optimize
        case Scheme.INT8:
            io = getattr(tf, recipe.io_dtype)
            return {
                **optimize,
                "supported_ops": [ops.TFLITE_BUILTINS_INT8],
                "inference_input_type": io,
                "inference_output_type": io,
            }
        case Scheme.INT16X8:
            io = getattr(tf, recipe.io_dtype)
            return {
                **optimize,
                "supported_ops": [ops.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8],
                "inference_input_type": io,
                "inference_output_type": io,
            }
        case _:
            raise RefusedError(f"recipe '{recipe.name}': route tensorflow has no {recipe.scheme}; drop `route`")


def _representative(baseline: Baseline, recipe: Recipe, calibration: dict[str, NDArray[Any]], batch: int | None) -> Any:
    """A generator function of one calibration batch after another, by signature name, as the converter wants it."""
    signature = _signature_names(baseline)
    names = [spec.name for spec in baseline.inputs]
    lacking = [name for name in names if not len(calibration.get(name, ()))]
    if lacking:
        raise DataError(
            f"recipe '{recipe.name}' needs calibration samples for input {', '.join(lacking)}; add --calibration DATA"
        )
    size = batch or 1
    n = min(len(calibration[name]) for name in names)

    def batches() -> Iterator[dict[str, NDArray[Any]]]:
        for start in range(0, n, size):
            rows = [min(row, n - 1) for row in range(start, start + size)]  # the last sample fills the last batch
            yield {
                signature[spec.name]: np.ascontiguousarray(calibration[spec.name][rows], dtype=spec.dtype)
                for spec in baseline.inputs
            }

    return batches


def _convert(
    tf: Any, baseline: Baseline, run_folder: Path, out: Path, batch: int | None, settings: dict[str, Any]
) -> None:
    shapes = batched_shapes(baseline, batch)
    with tempfile.TemporaryDirectory(prefix="edgebench-savedmodel-") as folder:
        _save_at(tf, baseline, run_folder / baseline.path, shapes, folder)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=[_SIGNATURE])
        for name, value in settings.items():
            on_target = name in ("supported_ops", "supported_types")
            setattr(converter.target_spec if on_target else converter, name, value)
        try:
            content = converter.convert()
        except Exception as error:  # TensorFlow raises its own types and plain exceptions with MLIR's text
            raise _told(error) from error
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(content)


def _told(error: Exception) -> StageError:
    text = " ".join(str(error).split())
    if "TensorList" in text:
        return RefusedError(
            "TensorFlow can't convert a recurrent layer that was traced with an open batch: "
            "give the Keras model a fixed batch (keras.Input(..., batch_size=1)), or the layer unroll=True"
        )
    if "Max and min for dynamic tensors" in text:
        return RefusedError("TensorFlow's int16x8 can't take integer inputs; drop `route` from the recipe")
    if "Flex" in text or "TF Select" in text:
        return RefusedError(f"this model has operators that TFLite does not have: {text[:400]}")
    return StageError(f"TensorFlow can't convert this model: {text[:400] or type(error).__name__}")


def _save_at(tf: Any, baseline: Baseline, source: Path, shapes: dict[str, tuple[int | None, ...]], folder: str) -> None:
    """Save the snapshot's signature again with these input shapes: `from_saved_model` takes them from the signature."""
    loaded = tf.saved_model.load(str(source))
    is_single = all(shape[:1] == (1,) for shape in shapes.values())
    serve = loaded.signatures[_SINGLE if is_single and _SINGLE in loaded.signatures else _SIGNATURE]
    module = tf.Module()
    module.loaded = loaded  # keeps the variables alive and in the saved model
    module.serve = tf.function(lambda tensors: serve(**tensors))
    names = _signature_names(baseline)
    specs = {
        names[spec.name]: tf.TensorSpec(shapes[spec.name], getattr(tf, spec.dtype), name=names[spec.name])
        for spec in baseline.inputs
    }
    tf.saved_model.save(module, folder, signatures={_SIGNATURE: module.serve.get_concrete_function(specs)})


def _signature_names(baseline: Baseline) -> dict[str, str]:
    """Baseline name -> the signature's: TensorFlow writes inputs' names as identifiers, outputs' as they are."""
    names = {spec.name: spec.name for spec in baseline.outputs}
    return {**names, **{spec.name: re.sub(r"\W", "_", spec.name) for spec in baseline.inputs}}
