"""Activation ranges of a float ONNX file from calibration samples, in memory that does not grow with their number.

onnxruntime's own percentile calibration keeps every activation of every sample: 6.6 GB for 100 images of
EfficientNet-Lite0. Here one sample's activations are in memory at a time: a first pass finds each tensor's lowest and
highest value, a second counts the values in a histogram between the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgebench.errors import DataError, StageError
from edgebench.types import Calibration

if TYPE_CHECKING:
    from onnxruntime.quantization import TensorsData

_BINS = 4096


def ranges(
    model: Path,
    calibration: Calibration,
    samples: Mapping[str, NDArray[Any]],
    op_types: Sequence[str],
    workshop: Path,
) -> TensorsData:
    """The range of every float tensor around operators of `op_types`, for onnxruntime's quantizer.

    `samples` are the file's inputs by name, shape (n, ...), n samples on axis 0. Scratch files go to `workshop`.

    Raises:
        DataError: an input has no samples, or samples with NaN or Inf.
        StageError: a tensor had no finite value.
    """
    import onnxruntime
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, create_calibrator
    from onnxruntime.quantization.calibrate import TensorData, TensorsData

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no type information
        def __init__(self) -> None:
            self._feeds = feeds(model, samples)

        def get_next(self) -> dict[str, NDArray[Any]] | None:
            return next(self._feeds, None)

    calibrator = create_calibrator(
        model,
        list(op_types),
        augmented_model_path=str(workshop / "min-max.onnx"),
        calibrate_method=CalibrationMethod.MinMax,
    )
    calibrator.collect_data(Reader())
    limits = {
        name: (float(np.min(found.lowest)), float(np.max(found.highest)))
        for name, found in calibrator.compute_data().items()
    }
    for name, (low, high) in limits.items():
        if not (np.isfinite(low) and np.isfinite(high)):
            raise StageError(
                f"calibration: tensor '{name}' ranges from {low} to {high}, though the samples are finite; "
                "the model overflows on them"
            )
    if calibration.method == "percentile":
        limits = _percentiles(model, limits, samples, calibration.percentile, workshop, onnxruntime)
    return TensorsData(
        CalibrationMethod.MinMax,
        {
            name: TensorData(lowest=np.array(low, np.float32), highest=np.array(high, np.float32))
            for name, (low, high) in limits.items()
        },
    )


def feeds(model: Path, samples: Mapping[str, NDArray[Any]]) -> Iterator[dict[str, NDArray[Any]]]:
    """The inputs of each run, in the file's types; a fixed batch is filled up with the first samples again."""
    import onnx

    from edgebench.converters import onnx_file

    inputs, _ = onnx_file.io(onnx.load(model, load_external_data=False))
    missing = [spec.name for spec in inputs if spec.name not in samples]
    if missing:
        raise DataError(f"calibration has no samples for input '{missing[0]}'; it has: {', '.join(sorted(samples))}")
    lengths = {spec.name: len(samples[spec.name]) for spec in inputs}
    n = min(lengths.values(), default=0)
    if n == 0:
        raise DataError(f"calibration has no samples: {lengths}")
    for spec in inputs:
        # onnxruntime's minimum and maximum skip NaN, so the ranges would not show it.
        if spec.dtype.startswith("float") and not all(np.isfinite(sample).all() for sample in samples[spec.name]):
            raise DataError(f"calibration samples of input '{spec.name}' hold NaN or Inf; look at the data")
    batch = max((spec.shape[0] or 1 for spec in inputs if spec.shape), default=1)
    for start in range(0, n, batch):
        chosen = [index % n for index in range(start, start + batch)]
        yield {spec.name: np.ascontiguousarray(samples[spec.name][chosen], dtype=spec.dtype) for spec in inputs}


def _percentiles(
    model: Path,
    limits: Mapping[str, tuple[float, float]],
    samples: Mapping[str, NDArray[Any]],
    percentile: float,
    workshop: Path,
    onnxruntime: Any,
) -> dict[str, tuple[float, float]]:
    """Ranges that hold `percentile` % of each tensor's values, half of the rest cut at each end.

    They are right to 1/4096 of the tensor's full range.
    """
    import onnx

    inner = {name: limit for name, limit in limits.items() if limit[1] > limit[0]}
    tapped = onnx.load(model)
    known = {value.name: value for value in [*tapped.graph.value_info, *tapped.graph.input, *tapped.graph.output]}
    already = {value.name for value in tapped.graph.output}
    tapped.graph.output.extend(known[name] for name in inner if name not in already)
    path = workshop / "tapped.onnx"
    onnx.save(tapped, path)
    options = onnxruntime.SessionOptions()
    # Optimizations would fuse the tensors away that are looked at.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    counts = {name: np.zeros(_BINS, np.int64) for name in inner}
    for feed in feeds(model, samples):
        for name, values in zip(inner, session.run(list(inner), feed), strict=True):
            low, high = inner[name]
            bins = (values.reshape(-1) - np.float32(low)) * np.float32(_BINS / (high - low))
            counts[name] += np.bincount(np.clip(bins, 0, _BINS - 1).astype(np.int32), minlength=_BINS)
    found = {name: _inside(counts[name], *inner[name], percentile) for name in inner}
    return {name: found.get(name, limit) for name, limit in limits.items()}


def _inside(counts: NDArray[Any], low: float, high: float, percentile: float) -> tuple[float, float]:
    """The edges of the bins between which `percentile` % of the counted values lie."""
    share = np.cumsum(counts) / counts.sum()
    cut = (100 - percentile) / 200
    first = int(np.searchsorted(share, cut, side="right"))
    last = int(np.searchsorted(share, 1 - cut, side="left"))
    width = (high - low) / len(counts)
    return low + first * width, min(high, low + (last + 1) * width)
