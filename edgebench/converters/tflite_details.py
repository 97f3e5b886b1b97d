"""What `tflite_file` leaves out of a .tflite file: the options of its operators and the values of its constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from edgebench.converters import tflite_file
from edgebench.converters.tflite_file import Tensor, TfliteFile
from edgebench.errors import ModelError

_OPTIONS = (
    *("AlignCorners", "Axis", "DilationHFactor", "DilationWFactor", "EllipsisMask", "FusedActivationFunction"),
    *("HalfPixelCenters", "NewAxisMask", "WeightsFormat"),
)


class TfliteDetails:
    """A file whose every index was checked by `tflite_file.parse`, read again for single values."""

    def __init__(self, data: bytes, file: TfliteFile, path: Path) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self.file = file
        self._data = data
        self._path = path
        self._schema: Any = schema
        self._model = schema.Model.GetRootAs(data, 0)
        self._option_types = {
            number: name for name, number in vars(schema.BuiltinOptions).items() if isinstance(number, int)
        }

    @classmethod
    def load(cls, path: Path) -> TfliteDetails:
        """Raises ModelError as `tflite_file.load` does."""
        file = tflite_file.load(path)
        return cls(path.read_bytes(), file, path)

    def options(self, subgraph: int, operator: int) -> dict[str, int]:
        """The options of an operator by their names in the schema, as integers; ModelError where they are damaged."""
        try:
            entry = self._model.Subgraphs(subgraph).Operators(operator)
            kind = getattr(self._schema, self._option_types.get(entry.BuiltinOptionsType(), "NONE"), None)
            table = entry.BuiltinOptions()
            if kind is None or table is None:
                return {}
            options = kind()
            options.Init(table.Bytes, table.Pos)
            return {name: int(getattr(options, name)()) for name in _OPTIONS if hasattr(options, name)}
        except tflite_file.BROKEN as error:
            raise ModelError(
                f"{self._path} is a damaged .tflite file (the options of operator {operator}); convert the model again"
            ) from error

    def constant(self, tensor: Tensor) -> bytes:
        """The bytes of a constant; none where the tensor is computed."""
        if not tensor.constant_bytes:
            return b""
        buffer = self._model.Buffers(tensor.buffer)
        if buffer.Offset() > 1:  # quantizers put large constants behind the flatbuffer
            return self._data[buffer.Offset() : buffer.Offset() + buffer.Size()]
        return bytes(buffer.DataAsNumpy())

    def has_constants_behind(self) -> bool:
        """Whether constants lie behind the flatbuffer, where old runtimes do not find them."""
        return any(self._model.Buffers(index).Offset() > 1 for index in range(self._model.BuffersLength()))

    def integers(self, tensor: Tensor) -> tuple[int, ...]:
        """The values of an int8, uint8, int32 or int64 constant in row-major order; none where it is no such thing."""
        if tensor.dtype not in ("int8", "uint8", "int32", "int64"):
            return ()
        values: list[int] = np.frombuffer(self.constant(tensor), np.dtype(tensor.dtype)).tolist()
        return tuple(values)
