"""TensorFlow (SavedModel) to float ONNX, with tf2onnx."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

from edgebench.converters import onnx_bind
from edgebench.converters.exported import Exported
from edgebench.errors import ModelError, RefusedError, StageError, missing_extra
from edgebench.types import Baseline

# The newest that tf2onnx writes; int8 with one scale a channel needs 13.
OPSET = 18
_LARGEST_IN_ONE_FILE = 2 * 10**9


def export(baseline: Baseline, run_folder: Path, out: Path, batch: int | None) -> Exported:
    """Write the SavedModel's `serving_default` as ONNX at a fixed batch, or open and proven (`batch` None).

    Inputs and outputs keep TensorFlow's axis order (NHWC images); tf2onnx transposes inside, for ONNX convolves NCHW.

    Raises:
        MissingError: the extra `tensorflow` is not installed.
        RefusedError: the snapshot's batch is fixed at another length, or an operator has no counterpart in ONNX.
        StageError: tf2onnx fails, or the open file is wrong at batch 1 or 3.
    """
    try:
        import tensorflow as tf
        import tf2onnx
    except ImportError as error:
        raise missing_extra(error.name or "tensorflow", "tensorflow", "exporting a TensorFlow model to ONNX") from error

    onnx_bind.check_batch(baseline, batch)
    path = run_folder / baseline.path
    try:
        # The signature lives as long as what it was loaded from.
        loaded = tf.saved_model.load(str(path))
        signature = loaded.signatures["serving_default"]
    except (OSError, KeyError, ValueError) as error:
        raise ModelError(f"the snapshot {path} can't be loaded: {onnx_bind.first_line(error)}") from error

    def by_name(*values: Any) -> Any:
        results = signature(**{spec.name: value for spec, value in zip(baseline.inputs, values, strict=True)})
        # An identity named like the output, so that tf2onnx can't confuse two outputs that are one tensor.
        return {spec.name: tf.identity(results[spec.name]) for spec in baseline.outputs}

    specs = [tf.TensorSpec(_shape(spec.shape, batch), spec.dtype, name=spec.name) for spec in baseline.inputs]
    size_bytes = sum(file.stat().st_size for file in (path / "variables").glob("*"))
    if size_bytes > _LARGEST_IN_ONE_FILE:
        raise RefusedError(f"model '{baseline.name}' has {size_bytes} bytes of weights; tf2onnx writes up to 2 GB here")
    try:
        tf2onnx.convert.from_function(
            tf.function(by_name, autograph=False), input_signature=specs, opset=OPSET, output_path=str(out)
        )
    except Exception as error:  # tf2onnx and TensorFlow raise what they like
        raise StageError(f"tf2onnx can't convert the model: {onnx_bind.first_line(error)}") from error
    onnx_bind.refuse_foreign_operators(out, "tf2onnx")
    if batch is None:
        onnx_bind.prove_open_batch(
            baseline,
            out,
            lambda feed: {
                name: value.numpy()
                for name, value in signature(**{key: tf.constant(array) for key, array in feed.items()}).items()
            },
        )
    inputs, outputs, cautions = onnx_bind.bindings(baseline, out)
    return Exported(
        path=out,
        inputs=inputs,
        outputs=outputs,
        route="tf2onnx",
        tool_versions={"onnx": version("onnx"), "tensorflow": tf.__version__, "tf2onnx": version("tf2onnx")},
        cautions=cautions,
    )


def _shape(shape: tuple[int | None, ...], batch: int | None) -> list[int | None]:
    return [batch, *shape[1:]] if shape else []
