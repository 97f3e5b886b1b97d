"""What a .tflite or .onnx file holds, read back from the file itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgebench.errors import ModelError
from edgebench.types import Census, Format, TensorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class OpFacts:
    """A kind of operator in a file. `precision` is what it computes in: int8, int16x8, float32, int32, ...

    `version` is the operator's version in TFLite and its domain's opset in ONNX; None where the file says none.
    """

    name: str
    version: int | None
    precision: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """A converted file as it is. `files` are absolute, the model first, then external data; `size_bytes` counts all.

    `batch` is the length of the inputs' first axis where all agree; None where it is open or they differ.
    """

    format: Format
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    census: Census
    batch: int | None
    ops: tuple[OpFacts, ...]
    size_bytes: int
    files: tuple[Path, ...]


def read(path: Path) -> FileFacts:
    """The facts of a .tflite or .onnx file; nothing in it is executed.

    Raises:
        ModelError: the file is absent, truncated, random bytes or of another kind.
    """
    from edgebench.converters import inspect_onnx, inspect_tflite

    readers = {".tflite": inspect_tflite.read, ".onnx": inspect_onnx.read}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ModelError(f"{path} has the ending '{path.suffix}'; inspection knows .tflite and .onnx")
    if not path.is_file():
        raise ModelError(f"{path} is {'a folder' if path.is_dir() else 'not there'}; name a .tflite or .onnx file")
    return reader(path)
