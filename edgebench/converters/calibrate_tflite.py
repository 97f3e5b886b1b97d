"""The ranges of a float .tflite file's activations over calibration data, for its quantizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench.converters.tflite_file import TfliteFile
from edgebench.errors import DataError

# Tensor name -> {"min": array, "max": array}, the quantizer's own form.
Ranges = dict[str, dict[str, NDArray[Any]]]

_BINS = 4096
_NEVER = 3e38
_COUNTED = ("float32", "float16", "int8", "uint8", "int16", "int32", "int64")
# A bias is held in int32 at input scale x weight scale. Half of int32's range leaves the other half to the products.
_BIAS_LIMIT = 2**30


class Batches:
    """Calibration samples as the file's inputs take them, one batch an item: views of the arrays where possible.

    `calibration`: file tensor name -> (n, ...), cast to the dtype that `inputs` names. The last batch is filled up
    with the last sample.
    """

    def __init__(
        self, calibration: Mapping[str, NDArray[Any]], inputs: Mapping[str, tuple[tuple[int | None, ...], str]]
    ) -> None:
        for name, (shape, _) in inputs.items():
            array = calibration.get(name)
            if array is None or not len(array):
                have = ", ".join(f"{key} ({len(value)})" for key, value in calibration.items()) or "nothing"
                raise DataError(f"calibration needs samples for the file's input '{name}'; there is {have}")
            fits = len(array.shape) == len(shape) and all(
                want in (None, got) for want, got in zip(shape[1:], array.shape[1:], strict=True)
            )
            if not fits:
                raise DataError(
                    f"calibration samples for '{name}' have shape {list(array.shape)}, the file wants {list(shape)}"
                )
        self._arrays = {name: calibration[name] for name in inputs}
        self._dtypes = {name: dtype for name, (_, dtype) in inputs.items()}
        self._n = min(len(array) for array in self._arrays.values())
        self._size = max((shape[0] or 1) for shape, _ in inputs.values())

    def __iter__(self) -> Iterator[dict[str, NDArray[Any]]]:
        for start in range(0, self._n, self._size):
            rows = slice(start, min(start + self._size, self._n))
            yield {
                name: self._filled(array[rows]).astype(self._dtypes[name], copy=False)
                for name, array in self._arrays.items()
            }

    def _filled(self, part: NDArray[Any]) -> NDArray[Any]:
        lacking = self._size - len(part)
        return np.concatenate([part, np.repeat(part[-1:], lacking, axis=0)]) if lacking else part


def min_max(model: bytes, file: TfliteFile, batches: Batches) -> Ranges:
    """The lowest and highest value of every activation over all samples. Memory: the activations of one batch.

    The quantizer's own default, a moving average, clips what only few samples reach. Values beyond 3e38, which masks
    use for "never", do not count.

    Raises:
        DataError: an activation is NaN for these samples.
    """
    ranges: Ranges = {}
    for name, values in _activations(model, file, batches):
        low, high = _ends(values)
        if not low <= high:
            raise DataError(f"with these calibration samples the tensor '{name}' is NaN: check their values")
        if name in ranges:
            low, high = np.minimum(ranges[name]["min"], low), np.maximum(ranges[name]["max"], high)
        one = (1,) * values.ndim
        ranges[name] = {"min": np.reshape(low, one), "max": np.reshape(high, one)}
    return ranges


def _ends(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    low, high = np.min(values), np.max(values)
    if values.dtype.kind == "f" and (low < -_NEVER or high > _NEVER):
        counted = values[np.abs(values) < _NEVER]
        if counted.size:
            return np.min(counted), np.max(counted)
    return low, high


def percentile(model: bytes, file: TfliteFile, ranges: Ranges, batches: Batches, percent: float) -> Ranges:
    """`ranges` narrowed to the middle `percent` of each activation's values, (100 - percent) / 2 cut at each end.

    A second run over the samples fills a histogram of 4096 bins for each tensor between its lowest and highest value:
    memory does not grow with samples, and an end is exact to 1/4096 of the tensor's range.
    """
    wide = {name: (float(found["min"].item()), float(found["max"].item())) for name, found in ranges.items()}
    counts = {name: np.zeros(_BINS, np.int64) for name, (low, high) in wide.items() if high > low}
    for name, values in _activations(model, file, batches):
        if name in counts and values.dtype.kind == "f":
            counts[name] += np.histogram(values, bins=_BINS, range=wide[name])[0]
    narrowed = dict(ranges)
    for name, histogram in counts.items():
        cumulative = np.cumsum(histogram)
        if not cumulative[-1]:  # integers keep their range
            continue
        cut = (100 - percent) / 200 * cumulative[-1]
        low, high = wide[name]
        step = (high - low) / _BINS
        first = int(np.searchsorted(cumulative, cut, side="right"))
        last = int(np.searchsorted(cumulative, cumulative[-1] - cut, side="left")) + 1
        narrowed[name] = {
            "min": np.full_like(ranges[name]["min"], low + step * first),
            "max": np.full_like(ranges[name]["max"], low + step * last),
        }
    return narrowed


def _activations(model: bytes, file: TfliteFile, batches: Batches) -> Iterator[tuple[str, NDArray[Any]]]:
    """Every tensor that a run of the file's signature computes or takes in, by name, after each run."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    # XNNPACK leaves outputs that nothing reads without a value, and they need a range too.
    interpreter = Interpreter(
        model_content=model,
        num_threads=1,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,
    )
    wanted = [
        (graph_index, index, tensor.name)
        for graph_index, graph in enumerate(file.subgraphs)
        for index, tensor in enumerate(graph.tensors)
        if tensor.name and not tensor.constant_bytes and tensor.dtype in _COUNTED
    ]
    runner = interpreter.get_signature_runner(file.signatures[0].key)
    for batch in batches:
        runner(**batch)
        for graph_index, index, name in wanted:
            try:
                values = interpreter.get_tensor(index, graph_index)
            except ValueError:  # in a subgraph that this run did not enter
                continue
            if values.size:
                yield name, values


# Operators with a bias, and the axis of their output channels in the kernel.
_CHANNEL_AXIS = {"CONV_2D": 0, "FULLY_CONNECTED": 0, "DEPTHWISE_CONV_2D": 3}


def with_room_for_biases(model: bytes, ranges: Ranges, *, bits: int, per_channel: bool) -> tuple[Ranges, int]:
    """`ranges` with ranges for those kernels whose biases would not fit int32, and how many channels these are.

    A channel that training has killed has weights near 0, so a scale near 0, but may have a bias of several units: at
    that scale int32 can't hold it, and the quantizer casts it to a wrong number. `bits` are the activations' 8 or 16.
    """
    from ai_edge_quantizer.utils import tfl_flatbuffer_utils as flatbuffers

    graph_model = flatbuffers.read_model(model)
    bounds: dict[str, NDArray[Any]] = {}
    channels = 0
    for graph in graph_model.subgraphs:
        for operator in graph.operators:
            code = graph_model.operatorCodes[operator.opcodeIndex].builtinCode
            axis = _CHANNEL_AXIS.get(flatbuffers.TFL_OP_CODE_TO_NAME.get(code, ""))
            if axis is None or len(operator.inputs) < 3 or min(operator.inputs[:3]) < 0:
                continue
            source, kernel, bias = (graph.tensors[index] for index in operator.inputs[:3])
            weights = flatbuffers.get_tensor_data(kernel, graph_model.buffers)
            offsets = flatbuffers.get_tensor_data(bias, graph_model.buffers)
            seen = ranges.get(flatbuffers.get_tensor_name(source))
            if weights is None or offsets is None or not seen:
                continue
            reduced = tuple(i for i in range(weights.ndim) if i != axis) if per_channel else None
            name = flatbuffers.get_tensor_name(kernel)
            largest = bounds.get(name, np.max(np.abs(weights), axis=reduced, keepdims=True))
            reached = np.abs(offsets).reshape([-1 if i == axis else 1 for i in range(weights.ndim)])
            if not per_channel:
                reached = np.max(reached, keepdims=True)
            needed = 127 * reached / (_input_scale(seen, bits) * _BIAS_LIMIT)
            if np.any(needed > largest):
                channels += int(np.count_nonzero(needed > largest))
                bounds[name] = np.maximum(largest, needed).astype(np.float32)
    return {**ranges, **{name: {"min": -bound, "max": bound} for name, bound in bounds.items()}}, channels


def _input_scale(seen: dict[str, NDArray[Any]], bits: int) -> float:
    """As the quantizer sets it: 8 bits spread a range that includes 0 over 255 steps, 16 bits are symmetric."""
    low, high = min(float(np.min(seen["min"])), 0.0), max(float(np.max(seen["max"])), 0.0)
    smallest = 1e-9
    return max(high - low, smallest) / 255 if bits == 8 else max(high, -low, smallest) / 32767
