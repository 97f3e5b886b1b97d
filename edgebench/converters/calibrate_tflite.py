"""The ranges of a float .tflite file's activations over calibration data, for its quantizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from edgebench.errors import DataError

# Tensor name -> {"min": array, "max": array}, the quantizer's own form.
Ranges = dict[str, dict[str, NDArray[Any]]]

_BINS = 4096
# A bias is held in int32 at input scale x weight scale. Half of int32's range leaves the other half to the products.
_BIAS_LIMIT = 2**30


class Batches(Sequence[dict[str, NDArray[Any]]]):
    """Calibration samples as the file's inputs take them, one batch an item: views of the arrays where possible.

    `calibration`: file tensor name -> (n, ...), cast to the dtype that `inputs` names. The last batch is filled up
    with the last sample. The quantizer runs through this more than once.
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

    def __len__(self) -> int:
        return -(-self._n // self._size)

    @overload
    def __getitem__(self, index: int) -> dict[str, NDArray[Any]]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[dict[str, NDArray[Any]]]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        rows = slice(index * self._size, (index + 1) * self._size)
        return {
            name: self._filled(array[rows]).astype(self._dtypes[name], copy=False)
            for name, array in self._arrays.items()
        }

    def _filled(self, part: NDArray[Any]) -> NDArray[Any]:
        lacking = self._size - len(part)
        return np.concatenate([part, np.repeat(part[-1:], lacking, axis=0)]) if lacking else part


def min_max(model: bytes, signature: str, recipe: Any, batches: Batches) -> Ranges:
    """The lowest and highest value of every activation over all samples. Memory: one sample's activations.

    `recipe` is the quantizer's RecipeManager. Its own default, a moving average, clips what only few samples reach.

    Raises:
        DataError: an activation is not a finite number for these samples.
    """
    from ai_edge_quantizer.calibrator import Calibrator
    from ai_edge_quantizer.utils.qsv_utils import min_max_update

    calibrator = Calibrator(model, num_threads=1, qsv_update_func=min_max_update)
    calibrator.calibrate({signature: batches}, recipe)
    ranges: Ranges = calibrator.get_model_qsvs()
    broken = [
        name
        for name, found in ranges.items()
        if found and not (np.isfinite(found["min"]).all() and np.isfinite(found["max"]).all())
    ]
    if broken:
        raise DataError(
            f"with these calibration samples the tensor '{broken[0]}' is NaN or infinite: check their values"
        )
    return ranges


def percentile(model: bytes, signature: str, ranges: Ranges, batches: Batches, percent: float) -> Ranges:
    """`ranges` narrowed to the middle `percent` of each activation's values, (100 - percent) / 2 cut at each end.

    A second run over the samples fills a histogram of 4096 bins for each tensor between its lowest and highest value:
    memory does not grow with samples, and an end is exact to 1/4096 of the tensor's range.
    """
    wide = {name: (float(np.min(r["min"])), float(np.max(r["max"]))) for name, r in ranges.items() if r}
    counts = {name: np.zeros(_BINS, np.int64) for name, (low, high) in wide.items() if high > low}
    for name, values in _activations(model, signature, batches):
        if name in counts:
            low, high = wide[name]
            counts[name] += np.histogram(values, bins=_BINS, range=(low, high))[0]
    narrowed = dict(ranges)
    for name, histogram in counts.items():
        low, high = wide[name]
        cut = (100 - percent) / 200 * histogram.sum()
        cumulative = np.cumsum(histogram)
        first = int(np.searchsorted(cumulative, cut, side="right"))
        last = int(np.searchsorted(cumulative, cumulative[-1] - cut, side="left")) + 1
        step = (high - low) / _BINS
        old = ranges[name]
        narrowed[name] = {
            **old,
            "min": np.full_like(old["min"], low + step * first),
            "max": np.full_like(old["max"], low + step * last),
        }
    return narrowed


def _activations(model: bytes, signature: str, batches: Batches) -> Iterator[tuple[str, NDArray[Any]]]:
    """Every float tensor of the signature's subgraph, by name, after each run."""
    from ai_edge_quantizer.utils import tfl_interpreter_utils as interpreters

    interpreter = interpreters.create_tfl_interpreter(model, num_threads=1)
    subgraph = interpreters.get_signature_main_subgraph_index(interpreter, signature)
    details = [d for d in interpreter.get_tensor_details(subgraph) if d["name"] and np.dtype(d["dtype"]).kind == "f"]
    for batch in batches:
        interpreters.invoke_interpreter_signature(interpreter, batch, signature)
        for detail in details:
            if np.all(detail["shape"]):
                yield detail["name"], interpreter.get_tensor(detail["index"], subgraph)


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
