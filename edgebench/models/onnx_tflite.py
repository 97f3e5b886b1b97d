"""ONNX and TFLite snapshots: a copy of the file, and of the external data beside an .onnx."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from edgebench.errors import ModelError, one_line
from edgebench.models.contents import Contents, guess_layout, hash_files
from edgebench.types import Caution, Quantization, TensorSpec


def copy_onnx(source: Path, target: Path) -> None:
    """Copy an .onnx and the external data that it names, which must lie in its own folder.

    Raises:
        ModelError: the file is corrupt, or its external data is missing, too short or outside its folder.
    """
    for relative in external_files(source):
        destination = target.parent / relative
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.parent / relative, destination)
    shutil.copyfile(source, target)


def external_files(path: Path) -> list[Path]:
    """The external-data files of an .onnx, relative to its folder, sorted; raises as `copy_onnx`."""
    from onnx.external_data_helper import _get_all_tensors

    folder = path.parent.resolve()
    found: dict[Path, None] = {}
    for tensor in _get_all_tensors(_load_onnx(path)):
        if tensor.data_location != tensor.EXTERNAL:
            continue
        entry = {each.key: each.value for each in tensor.external_data}
        relative = Path(entry.get("location", ""))
        file = (path.parent / relative).resolve()
        leaves = relative.is_absolute() or ".." in relative.parts
        if leaves or not file.is_relative_to(folder) or file == folder:
            raise ModelError(
                f"{path}: the external data of '{tensor.name}' lies outside the model's folder: {relative}"
            )
        if not file.is_file():
            raise ModelError(f"{path}: its external data '{relative}' is missing; put it beside the .onnx file")
        end = int(entry.get("offset", 0)) + int(entry.get("length", 0))
        if end > file.stat().st_size:
            raise ModelError(
                f"{path}: its external data '{relative}' is truncated: {file.stat().st_size} of {end} bytes"
            )
        found[relative] = None
    return sorted(found)


def read_onnx(path: Path) -> Contents:
    """What an .onnx holds, by its graph's names; it has been loaded by ONNX Runtime.

    Raises:
        ModelError: as `copy_onnx`; ONNX Runtime can't load it; an input is no tensor; or it is in training mode.
    """
    import onnx

    externals = external_files(path)
    model = _load_onnx(path)
    for node in model.graph.node:
        if node.op_type == "BatchNormalization" and any(a.name == "training_mode" and a.i for a in node.attribute):
            raise ModelError(f"{path} was exported in training mode (BatchNormalization): export it with model.eval()")
    onnx_session(path)
    weights = {each.name for each in model.graph.initializer}
    return Contents(
        inputs=tuple(_onnx_spec(path, value) for value in model.graph.input if value.name not in weights),
        outputs=tuple(_onnx_spec(path, value) for value in model.graph.output),
        parameters=sum(
            int(np.prod(each.dims, dtype=np.int64))
            for each in model.graph.initializer
            if each.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)
        ),
        sha256=hash_files([path, *(path.parent / each for each in externals)]),
    )


def onnx_session(path: Path) -> Any:
    """An ONNX Runtime session on the CPU.

    Raises:
        ModelError: ONNX Runtime can't load the file.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no base class below Exception
        raise ModelError(f"{path} can't be loaded by ONNX Runtime: {one_line(error)}") from error


def read_tflite(path: Path) -> Contents:
    """What a .tflite holds: names of its signature where it has one, else of its tensors.

    Raises:
        ModelError: LiteRT can't load it.
    """
    interpreter = tflite_interpreter(path)
    names = tflite_names(interpreter)
    details = {each["name"]: each for each in interpreter.get_tensor_details()}
    inputs = {each["index"]: each for each in interpreter.get_input_details()}
    outputs = {each["index"]: each for each in interpreter.get_output_details()}
    specs = [
        tuple(_tflite_spec(name, table[index]) for name, index in named.items())
        for named, table in zip(names, (inputs, outputs), strict=True)
    ]
    cautions: tuple[Caution, ...] = ()
    if any(detail["dtype"] in (np.int8, np.uint8) and detail["quantization"][0] for detail in details.values()):
        message = f"{path.name} is quantized already: what is compared with it is not compared with a float model"
        advice = "give the float model that it was made from"
        cautions = (Caution(code="quantized-baseline", message=message, advice=advice),)
    return Contents(
        inputs=specs[0],
        outputs=specs[1],
        parameters=_tflite_parameters(path),
        sha256=hash_files([path]),
        cautions=cautions,
    )


def tflite_interpreter(path: Path) -> Any:
    """A LiteRT interpreter with its tensors allocated.

    Raises:
        ModelError: LiteRT can't load the file.
    """
    from ai_edge_litert.interpreter import Interpreter

    _check_tflite_buffers(path)
    try:
        interpreter = Interpreter(model_path=str(path))
        interpreter.allocate_tensors()
    except Exception as error:  # ValueError and RuntimeError by the damage
        raise ModelError(f"{path} can't be loaded by LiteRT: {one_line(error)}") from error
    return interpreter


def tflite_names(interpreter: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Name -> tensor index of the inputs and of the outputs; the names are the signature's where there is one."""
    signatures = interpreter._get_full_signature_list()
    if len(signatures) == 1:
        (signature,) = signatures.values()
        return dict(signature["inputs"]), dict(signature["outputs"])
    return (
        {each["name"]: each["index"] for each in interpreter.get_input_details()},
        {each["name"]: each["index"] for each in interpreter.get_output_details()},
    )


def _load_onnx(path: Path) -> Any:
    import onnx

    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:  # protobuf's DecodeError, or onnx's own
        raise ModelError(f"{path} is corrupt or no ONNX file: {one_line(error)}") from error
    if not model.graph.output:
        raise ModelError(f"{path} is corrupt or no ONNX file: its graph has no outputs")
    return model


def _onnx_spec(path: Path, value: Any) -> TensorSpec:
    import onnx

    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        raise ModelError(f"{path}: input or output '{value.name}' is no tensor with a shape")
    dims = value.type.tensor_type.shape.dim
    shape = tuple(int(dim.dim_value) if dim.HasField("dim_value") and dim.dim_value > 0 else None for dim in dims)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    return TensorSpec(name=value.name, shape=shape, dtype=np.dtype(dtype).name, layout=guess_layout(shape))


def _tflite_spec(name: str, detail: Any) -> TensorSpec:
    signature = detail["shape_signature"] if len(detail["shape_signature"]) else detail["shape"]
    shape = tuple(int(size) if size > 0 else None for size in signature)
    found = detail["quantization_parameters"]
    quantization = None
    if len(found["scales"]) and found["scales"][0] > 0:
        quantization = Quantization(
            scales=tuple(float(scale) for scale in found["scales"]),
            zero_points=tuple(int(point) for point in found["zero_points"]),
            axis=int(found["quantized_dimension"]) if len(found["scales"]) > 1 else None,
        )
    return TensorSpec(
        name=name,
        shape=shape,
        dtype=np.dtype(detail["dtype"]).name,
        layout=guess_layout(shape),
        quantization=quantization,
    )


def _tflite_parameters(path: Path) -> int:
    """Elements of the constant tensors of more than one element that are not indices or shapes."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    integers = (schema.TensorType.INT32, schema.TensorType.INT64)
    counted: dict[int, int] = {}
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            buffer = model.buffers[tensor.buffer]
            has_data = (buffer.data is not None and len(buffer.data) > 0) or buffer.offset > 1
            if has_data and (tensor.type not in integers or tensor.quantization is not None):
                counted[tensor.buffer] = int(np.prod(tensor.shape, dtype=np.int64))
    return sum(counted.values())


def _check_tflite_buffers(path: Path) -> None:
    """Raise ModelError for a file that is no .tflite, or whose external buffers end after it: LiteRT may crash."""
    content = path.read_bytes()
    if content[4:8] != b"TFL3":
        raise ModelError(f"{path} is corrupt or no .tflite file: the mark TFL3 is absent")
    from ai_edge_litert import schema_py_generated as schema

    try:
        model = schema.ModelT.InitFromPackedBuf(content, 0)
        ends = [buffer.offset + buffer.size for buffer in model.buffers if buffer.offset > 1]
    except Exception as error:  # struct.error, IndexError, TypeError ... by the damage
        raise ModelError(f"{path} is corrupt or truncated: {one_line(error, 120)}") from error
    if ends and max(ends) > len(content):
        raise ModelError(f"{path} is truncated: it has {len(content)} of {max(ends)} bytes")
