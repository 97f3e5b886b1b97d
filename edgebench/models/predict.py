"""Run a baseline's snapshot on prepared samples; the user's code is not needed any more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from edgebench.arrays import save_arrays
from edgebench.errors import ModelError, one_line
from edgebench.naming import printable
from edgebench.types import Baseline, Framework, SampleSet, TensorSpec

Arrays = dict[str, np.ndarray[Any, Any]]

OPEN_BATCH = 32
"""Samples in one call of a snapshot whose batch is open."""


class Predictor(Protocol):
    """A loaded snapshot: arrays by input name in the baseline's dtype -> arrays by output name, for one batch."""

    def __call__(self, inputs: Arrays) -> Arrays: ...


def baseline_outputs(baseline: Baseline, run_folder: Path, samples: SampleSet, out: Path) -> None:
    """Write the snapshot's outputs on all samples to `out` (.npz): float32, shape (n, ...), by output name.

    Raises:
        ModelError: the snapshot can't be loaded, or an output does not have the samples on its first axis.
    """
    from edgebench.data.samples import open_samples

    prepared = open_samples(run_folder, samples)
    outputs = predict_all(open_predictor(baseline, run_folder), baseline, dict(prepared.inputs), prepared.names)
    save_arrays(out, outputs)


def predict_all(predictor: Predictor, baseline: Baseline, inputs: Arrays, names: Sequence[str] = ()) -> Arrays:
    """Outputs (n, ...), float32, for inputs (n, ...); a fixed batch is filled by repeating the last sample.

    `names` say in errors which sample is meant; its position does where they are absent.

    Raises:
        ModelError: the model fails on a sample, or an output does not have the samples on its first axis.
    """
    n = len(inputs[baseline.inputs[0].name])
    batch = batch_of(baseline)
    size = OPEN_BATCH if batch is None else batch
    collected: dict[str, list[np.ndarray[Any, Any]]] = {spec.name: [] for spec in baseline.outputs}
    for start in range(0, n, size):
        rows = min(size, n - start)
        group = {
            spec.name: _filled(inputs[spec.name][start : start + rows], rows if batch is None else size).astype(
                spec.dtype, copy=False
            )
            for spec in baseline.inputs
        }
        try:
            outputs = predictor(group)
        except Exception as error:  # each framework raises its own
            found = names[start : start + rows] or [str(index) for index in range(start, start + rows)]
            raise _told(predictor, baseline, group, found, error) from error
        for spec in baseline.outputs:
            array = np.asarray(outputs[spec.name])
            expected = len(group[baseline.inputs[0].name])
            if array.ndim == 0 or len(array) != expected:
                raise ModelError(
                    f"output '{spec.name}' of {baseline.name} has shape {array.shape} for a batch of {expected}; its "
                    "first axis must be the batch: let the model give one row a sample, or leave this output out of it"
                )
            collected[spec.name].append(_as_float(array[:rows], spec))
    return {name: np.concatenate(parts) for name, parts in collected.items()}


def _told(
    predictor: Predictor, baseline: Baseline, group: Arrays, names: Sequence[str], error: Exception
) -> ModelError:
    """Why the model failed on a group of samples: because of one of them, or because they came together."""
    if batch_of(baseline) is not None:
        which = printable(names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}")
        return ModelError(f"{baseline.name} fails on evaluation sample {which}: {one_line(error)}; check its values")
    for index, name in enumerate(names):
        try:
            predictor({key: array[index : index + 1] for key, array in group.items()})
        except Exception as alone:  # each framework raises its own
            return ModelError(
                f"{baseline.name} fails on evaluation sample {printable(name)}: {one_line(alone)}; check its values "
                "(an id outside of the vocabulary, for example)"
            )
    return ModelError(
        f"{baseline.name} runs on one sample but not on {len(names)} together, though its batch is said to be open: "
        f"{one_line(error)}; export it with a batch of 1"
    )


def batch_of(baseline: Baseline) -> int | None:
    """The batch that the snapshot is fixed to; None where it is open."""
    sizes = [spec.shape[0] for spec in baseline.inputs if spec.shape]
    return None if not sizes or None in sizes else sizes[0]


def open_predictor(baseline: Baseline, run_folder: Path) -> Predictor:
    """The snapshot, loaded by its own framework on the CPU.

    Raises:
        ModelError: it can't be loaded.
    """
    path = run_folder / baseline.path
    match baseline.framework:
        case Framework.TENSORFLOW:
            return _tensorflow(path)
        case Framework.TORCH:
            return _torch(path, [spec.name for spec in baseline.inputs])
        case Framework.ONNX:
            return _onnx(path, [spec.name for spec in baseline.outputs])
        case Framework.TFLITE:
            return _tflite(path)


def _tensorflow(path: Path) -> Predictor:
    from edgebench.models import savedmodel

    loaded, function = savedmodel.load(path)
    import tensorflow as tf

    def predict(inputs: Arrays) -> Arrays:
        outputs = function(**{name: tf.constant(array) for name, array in inputs.items()})
        return {name: tensor.numpy() for name, tensor in outputs.items()}

    predict.keeps = loaded  # type: ignore[attr-defined]  # its variables die with the loaded object
    return predict


def _torch(path: Path, names: list[str]) -> Predictor:
    import torch

    from edgebench.models import pt2

    program = pt2.open_program(path, trust=True)  # a snapshot: checked, or trusted, when it was taken
    run = pt2.runner(program, names)

    def predict(inputs: Arrays) -> Arrays:
        with torch.no_grad():
            outputs = run({name: torch.from_numpy(np.array(array)) for name, array in inputs.items()})
        return {name: tensor.numpy() for name, tensor in outputs.items()}

    return predict


def _onnx(path: Path, names: list[str]) -> Predictor:
    from edgebench.models import onnx_tflite

    session = onnx_tflite.onnx_session(path)

    def predict(inputs: Arrays) -> Arrays:
        return dict(zip(names, session.run(names, inputs), strict=True))

    return predict


def _tflite(path: Path) -> Predictor:
    from edgebench.models import onnx_tflite

    interpreter = onnx_tflite.tflite_interpreter(path)
    input_indices, output_indices = onnx_tflite.tflite_names(interpreter)

    def predict(inputs: Arrays) -> Arrays:
        shapes = {each["index"]: tuple(each["shape"]) for each in interpreter.get_input_details()}
        changed = [name for name, array in inputs.items() if shapes[input_indices[name]] != array.shape]
        for name in changed:
            interpreter.resize_tensor_input(input_indices[name], inputs[name].shape)
        if changed:
            interpreter.allocate_tensors()
        for name, array in inputs.items():
            interpreter.set_tensor(input_indices[name], array)
        interpreter.invoke()
        return {name: interpreter.get_tensor(index) for name, index in output_indices.items()}

    return predict


def _filled(array: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    missing = size - len(array)
    return np.concatenate([array, np.repeat(array[-1:], missing, axis=0)]) if missing else np.asarray(array)


def _as_float(array: np.ndarray[Any, Any], spec: TensorSpec) -> np.ndarray[Any, Any]:
    """float32, dequantized where the output of a .tflite baseline is quantized."""
    if spec.quantization is None or not np.issubdtype(array.dtype, np.integer):
        return array.astype(np.float32)
    shape = [1] * array.ndim
    if spec.quantization.axis is not None:
        shape[spec.quantization.axis] = -1
    scales = np.asarray(spec.quantization.scales, np.float32).reshape(shape)
    zero_points = np.asarray(spec.quantization.zero_points, np.float32).reshape(shape)
    real: np.ndarray[Any, Any] = (array.astype(np.float32) - zero_points) * scales
    return real
