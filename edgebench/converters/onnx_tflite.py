"""A float .tflite baseline to float ONNX, with tf2onnx."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from edgebench.converters import inspection, onnx_bind
from edgebench.converters.exported import Exported
from edgebench.converters.onnx_tensorflow import OPSET
from edgebench.errors import ModelError, RefusedError, StageError, missing_extra
from edgebench.types import Baseline, Precision


def export(baseline: Baseline, run_folder: Path, out: Path, batch: int | None) -> Exported:
    """Write the .tflite snapshot as ONNX; the tensors keep their names in the .tflite, bound to its signature's.

    Raises:
        MissingError: the extra `tensorflow` is not installed.
        RefusedError: it is not float32, has more than one subgraph, operators without a counterpart, or another batch.
        StageError: tf2onnx fails, or the open file is wrong at batch 1 or 3.
    """
    try:
        import tf2onnx
    except ImportError as error:
        raise missing_extra(error.name or "tf2onnx", "tensorflow", "exporting a .tflite model to ONNX") from error

    source = run_folder / baseline.path
    precision = inspection.read(source).census.precision
    if precision is not Precision.FP32:
        raise RefusedError(
            f"model '{baseline.name}' is {precision}; only float32 .tflite files become ONNX, "
            "start from the model that it was made from"
        )
    onnx_bind.check_batch(baseline, batch)
    names = _signature_names(source)
    try:
        model, _ = tf2onnx.convert.from_tflite(str(source), opset=OPSET)
    except Exception as error:  # tf2onnx and TensorFlow raise what they like
        raise StageError(f"tf2onnx can't convert the .tflite: {onnx_bind.first_line(error)}") from error
    if batch is not None:
        onnx_bind.fix_batch(model, batch)
    out.write_bytes(model.SerializeToString())
    onnx_bind.refuse_foreign_operators(out, "tf2onnx")
    inputs, outputs, cautions = onnx_bind.bindings(baseline, out, names)
    for binding in inputs:
        if binding.tensor.shape and binding.tensor.shape[0] != batch:
            made = binding.tensor.shape[0]
            raise RefusedError(f"tf2onnx fixes the batch of this .tflite at {made}; take --batch {made}")
    if batch is None:
        onnx_bind.prove_open_batch(baseline, out, lambda feed: _run(source, names, feed), names)
    return Exported(
        path=out,
        inputs=inputs,
        outputs=outputs,
        route="tf2onnx",
        tool_versions={tool: version(tool) for tool in ("onnx", "tf2onnx")},
        cautions=cautions,
    )


def _run(source: Path, names: Mapping[str, str], feed: onnx_bind.Arrays) -> onnx_bind.Arrays:
    """The .tflite's outputs; in and out by the names that `names` gives its tensors."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(source), num_threads=1)
    details = interpreter.get_input_details()
    inputs = {detail["index"]: feed[names.get(detail["name"], detail["name"])] for detail in details}
    for index, array in inputs.items():
        interpreter.resize_tensor_input(index, array.shape)
    interpreter.allocate_tensors()
    for index, array in inputs.items():
        interpreter.set_tensor(index, array)
    interpreter.invoke()
    return {
        names.get(detail["name"], detail["name"]): interpreter.get_tensor(detail["index"])
        for detail in interpreter.get_output_details()
    }


def _signature_names(source: Path) -> dict[str, str]:
    """The signature's names by tensor name; empty when the file has no signature, where tensor names count."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(source.read_bytes(), 0))
    if len(model.subgraphs) != 1:
        raise RefusedError(
            f"{source.name} has {len(model.subgraphs)} subgraphs (control flow), which tf2onnx can't convert"
        )
    tensors = model.subgraphs[0].tensors
    try:
        return {
            tensors[entry.tensorIndex].name.decode(): entry.name.decode()
            for signature in (model.signatureDefs or [])[:1]
            for entry in (*signature.inputs, *signature.outputs)
        }
    except (IndexError, AttributeError) as error:
        raise ModelError(f"{source.name}: its signature names a tensor that is not there") from error
