"""A .tflite flatbuffer as plain values whose every index and extent was checked.

A file from a stranger may point anywhere. Reading it costs time and memory in proportion to its length, whatever its
offsets say, and anything that does not add up is a ModelError.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.errors import ModelError

# What reading a flatbuffer at a wrong offset raises, in `struct`, numpy, or flatbuffers itself.
BROKEN = (struct.error, IndexError, ValueError, TypeError, OverflowError, AttributeError, MemoryError)
_IDENTIFIER = b"TFL3"
# Types of no fixed width: their constants can't be checked against their shapes.
_BITS = {
    "float32": 32, "float16": 16, "int32": 32, "uint8": 8, "int64": 64, "bool": 8, "int16": 16, "complex64": 64,
    "int8": 8, "float64": 64, "complex128": 128, "uint64": 64, "uint32": 32, "uint16": 16, "int4": 4, "bfloat16": 16,
    "int2": 2, "uint4": 4, "float8_e4m3fn": 8, "float8_e5m2": 8,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor of a subgraph. `scales` is empty where it isn't quantized; a constant has `constant_bytes`.

    `shape` has None where the file leaves a dimension open. `axis` is the per-channel one, None for one scale.
    `buffer` identifies the constant's bytes: tensors that share it are one constant.
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: str
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None
    buffer: int
    constant_bytes: int | None

    @property
    def elements(self) -> int | None:
        """The number of values; None where a dimension is open."""
        return math.prod(size for size in self.shape if size is not None) if None not in self.shape else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """`name` is the builtin's or the custom op's own; `inputs` and `outputs` index the tensors, -1 is none."""

    name: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subgraph:
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A named entry: which tensor of which subgraph each argument and result is."""

    key: str
    subgraph: int
    inputs: dict[str, int]
    outputs: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TfliteFile:
    subgraphs: tuple[Subgraph, ...]
    signatures: tuple[Signature, ...]
    size_bytes: int

    @property
    def main(self) -> Subgraph:
        """What a run of the file runs: its only signature's subgraph, else the first."""
        return self.subgraphs[self.signatures[0].subgraph if len(self.signatures) == 1 else 0]

    def inputs(self) -> dict[str, Tensor]:
        """The main subgraph's inputs by signature name where there is one signature, else by tensor name."""
        return self._named(self.signatures[0].inputs if len(self.signatures) == 1 else None, self.main.inputs)

    def outputs(self) -> dict[str, Tensor]:
        """The main subgraph's outputs, named like `inputs`."""
        return self._named(self.signatures[0].outputs if len(self.signatures) == 1 else None, self.main.outputs)

    def _named(self, signature: dict[str, int] | None, indices: tuple[int, ...]) -> dict[str, Tensor]:
        tensors = self.main.tensors
        if signature is not None:
            return {name: tensors[index] for name, index in signature.items()}
        return {tensors[index].name: tensors[index] for index in indices}


def load(path: Path) -> TfliteFile:
    """The file's graph, without its weights.

    Raises:
        ModelError: the file can't be read, or is truncated, damaged or no .tflite file.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path} can't be read: {error.strerror or error}") from error
    return parse(data, path)


def parse(data: bytes, path: Path) -> TfliteFile:
    """The graph in a file's bytes; `path` names it in errors, which are those of `load`."""
    if len(data) < 8 or data[4:8] != _IDENTIFIER:
        raise ModelError(
            f"{path} is no .tflite file: it does not have the mark 'TFL3' at byte 4; convert the model again"
        )
    try:
        return _Reader(data).file()
    except BROKEN as error:
        cause = " ".join(str(error).split())[:200] or type(error).__name__
        raise ModelError(
            f"{path} is a damaged .tflite file ({cause}); copy it again or convert the model again"
        ) from error


class _Reader:
    """Walks the flatbuffer; raises ValueError, or what flatbuffers does, where it does not add up."""

    def __init__(self, data: bytes) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self._size = len(data)
        # An honest file has at least one byte for each element; offsets that point at one table again and again would
        # otherwise make a small file cost the product of its vectors' lengths.
        self._budget = 2 * len(data) + 1024
        self._model = schema.Model.GetRootAs(data, 0)
        self._builtins = {code: name for name, code in vars(schema.BuiltinOperator).items() if isinstance(code, int)}
        self._dtypes = {code: name.lower() for name, code in vars(schema.TensorType).items() if isinstance(code, int)}
        self._custom_code = schema.BuiltinOperator.CUSTOM

    def file(self) -> TfliteFile:
        model = self._model
        constants = tuple(self._constant_bytes(model.Buffers(i)) for i in self._count(model.BuffersLength()))
        codes = tuple(self._operator_code(model.OperatorCodes(i)) for i in self._count(model.OperatorCodesLength()))
        subgraphs = tuple(
            self._subgraph(model.Subgraphs(i), constants, codes) for i in self._count(model.SubgraphsLength())
        )
        if not subgraphs:
            raise ValueError("it has no subgraph")
        signatures = tuple(
            self._signature(model.SignatureDefs(i), subgraphs) for i in self._count(model.SignatureDefsLength())
        )
        return TfliteFile(subgraphs=subgraphs, signatures=signatures, size_bytes=self._size)

    def _count(self, length: int) -> range:
        self._budget -= length
        if self._budget < 0:
            raise ValueError("its vectors are longer than the file")
        return range(length)

    def _numbers(self, vector: Any) -> list[Any]:
        """A numpy view, or the 0 that flatbuffers gives for an absent vector, as a list."""
        if isinstance(vector, int):
            return []
        self._count(len(vector))
        values: list[Any] = vector.tolist()
        return values

    def _text(self, value: bytes | None) -> str:
        self._count(len(value or b""))
        return (value or b"").decode()

    def _constant_bytes(self, buffer: Any) -> int:
        """The length of a buffer; 0 is none. Quantizers put weights behind the flatbuffer, at an offset above 1."""
        if buffer.Offset() > 1:
            start, length = buffer.Offset(), buffer.Size()
        else:
            length = buffer.DataLength()
            start = buffer._tab.Vector(buffer._tab.Offset(4)) if length else 0
        if start + length > self._size:
            raise ValueError(f"a constant ends at byte {start + length} of {self._size}: it is cut short")
        return int(length)

    def _operator_code(self, code: Any) -> tuple[str, int]:
        # Files made before 2020 hold the code in the old 8-bit field, newer ones above 127 only in the new one.
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        name = self._builtins.get(number)
        if name is None:
            raise ValueError(f"it uses the operator {number}, which this version does not know")
        if number == self._custom_code:
            name = self._text(code.CustomCode()) or name
        return name, code.Version()

    def _subgraph(self, graph: Any, constants: tuple[int, ...], codes: tuple[tuple[str, int], ...]) -> Subgraph:
        tensors = tuple(self._tensor(graph.Tensors(i), constants) for i in self._count(graph.TensorsLength()))
        operators = tuple(
            self._operator(graph.Operators(i), len(tensors), codes) for i in self._count(graph.OperatorsLength())
        )
        return Subgraph(
            tensors=tensors,
            operators=operators,
            inputs=_within(self._numbers(graph.InputsAsNumpy()), 0, len(tensors)),
            outputs=_within(self._numbers(graph.OutputsAsNumpy()), 0, len(tensors)),
        )

    def _tensor(self, tensor: Any, constants: tuple[int, ...]) -> Tensor:
        name = self._text(tensor.Name())
        dtype = self._dtypes.get(tensor.Type())
        if dtype is None:
            raise ValueError(f"tensor '{name}' has the unknown type {tensor.Type()}")
        shape = self._numbers(tensor.ShapeAsNumpy())
        signature = self._numbers(tensor.ShapeSignatureAsNumpy()) or shape
        if min(shape, default=0) < 0 or len(signature) != len(shape):
            raise ValueError(f"tensor '{name}' has the impossible shape {shape}")
        (buffer,) = _within([tensor.Buffer()], 0, len(constants))
        constant_bytes = constants[buffer] or None
        if constant_bytes and tensor.Sparsity() is None and dtype in _BITS:
            needed = -(-math.prod(shape) * _BITS[dtype] // 8)
            if needed != constant_bytes:
                raise ValueError(f"the constant '{name}' holds {constant_bytes} bytes where {shape} needs {needed}")
        scales, zero_points, axis = self._quantization(tensor.Quantization(), name)
        return Tensor(
            name=name,
            shape=tuple(None if size < 0 else size for size in signature),
            dtype=dtype,
            scales=scales,
            zero_points=zero_points,
            axis=axis,
            buffer=buffer,
            constant_bytes=constant_bytes,
        )

    def _quantization(self, quantization: Any, name: str) -> tuple[tuple[float, ...], tuple[int, ...], int | None]:
        if quantization is None:
            return (), (), None
        scales = self._numbers(quantization.ScaleAsNumpy())
        zero_points = self._numbers(quantization.ZeroPointAsNumpy()) or [0] * len(scales)
        if not any(scales):
            return (), (), None
        if len(zero_points) != len(scales) or not all(math.isfinite(scale) and scale >= 0 for scale in scales):
            raise ValueError(f"tensor '{name}' has impossible quantization parameters")
        axis = quantization.QuantizedDimension() if len(scales) > 1 else None
        return tuple(scales), tuple(zero_points), axis

    def _operator(self, operator: Any, tensors: int, codes: tuple[tuple[str, int], ...]) -> Operator:
        (code,) = _within([operator.OpcodeIndex()], 0, len(codes))
        name, version = codes[code]
        return Operator(
            name=name,
            version=version,
            inputs=_within(self._numbers(operator.InputsAsNumpy()), -1, tensors),
            outputs=_within(self._numbers(operator.OutputsAsNumpy()), -1, tensors),
        )

    def _signature(self, signature: Any, subgraphs: tuple[Subgraph, ...]) -> Signature:
        (subgraph,) = _within([signature.SubgraphIndex()], 0, len(subgraphs))
        tensors = len(subgraphs[subgraph].tensors)
        maps = []
        for count, entry in (
            (signature.InputsLength(), signature.Inputs),
            (signature.OutputsLength(), signature.Outputs),
        ):
            entries = [entry(i) for i in self._count(count)]
            indices = _within([item.TensorIndex() for item in entries], 0, tensors)
            maps.append(dict(zip([self._text(item.Name()) for item in entries], indices, strict=True)))
        return Signature(key=self._text(signature.SignatureKey()), subgraph=subgraph, inputs=maps[0], outputs=maps[1])


def _within(indices: Iterable[int], low: int, high: int) -> tuple[int, ...]:
    result = tuple(indices)
    if any(not low <= index < high for index in result):
        raise ValueError(f"it points at entry {max(result, key=abs)} of {high}")
    return result
