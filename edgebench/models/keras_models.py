"""Keras models: load them from a file or keras.applications, give them weights, and write their SavedModel."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgebench.errors import MissingError, ModelError, missing_extra, one_line
from edgebench.models import keras_applications
from edgebench.models.checkpoint import refuse_other_keys
from edgebench.models.contents import random_weights
from edgebench.models.savedmodel import SIGNATURE, SINGLE_SIGNATURE
from edgebench.models.source import RANDOM_WEIGHTS
from edgebench.types import Caution, Preprocess

Example = dict[str, np.ndarray[Any, Any]]


def import_keras(needed_for: str) -> Any:
    """Keras on TensorFlow; raises MissingError that names the extra."""
    try:
        import keras
        import tensorflow  # noqa: F401 - the back end, which Keras imports only when it is used
    except ImportError as error:
        raise missing_extra(str(error.name or "keras"), "tensorflow", needed_for) from error
    return keras


def load_file(path: Path, *, trust: bool) -> Any:
    """The model of a .keras or .h5 file, without its optimizer.

    Raises:
        ModelError: the file is corrupt, holds weights only, needs classes that are not in it, or runs code
            (a Lambda layer) without `trust`.
    """
    keras = import_keras(f"MODEL '{path}'")
    keras.utils.clear_session()
    try:
        return keras.saving.load_model(path, compile=False, safe_mode=not trust)
    except Exception as error:  # Keras raises whatever zipfile, h5py, json or a layer does
        text = str(error)
        if "safe_mode" in text or "unsafe" in text.lower():
            raise ModelError(
                f"{path} holds a Lambda layer or the like, which runs code when loaded; if you trust it add --trust"
            ) from error
        if "No model config found" in text or "model_config" in text:
            raise ModelError(
                f"{path} holds weights only: name their architecture, file.py:function --weights {path.name}"
            ) from error
        raise ModelError(f"{path} can't be loaded by Keras: {one_line(error)}") from error


def load_application(name: str, weights: Path | None) -> tuple[Any, Preprocess, tuple[Caution, ...]]:
    """A model of keras.applications with its ImageNet weights, a file's, or seeded random ones.

    Raises:
        MissingError: the ImageNet weights can't be downloaded.
        ModelError: the file's weights do not fit.
    """
    keras = import_keras(f"MODEL 'keras:{name}'")
    build: Callable[..., Any] = getattr(keras.applications, name)
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    cautions: tuple[Caution, ...] = ()
    if weights is None:
        try:
            model = build(weights="imagenet")
        except Exception as error:  # keras.utils.get_file raises bare Exception where the download fails
            raise MissingError(
                f"the ImageNet weights of keras:{name} can't be downloaded ({one_line(error, 120)}); pass --weights "
                "FILE, or --weights random to measure latency only"
            ) from error
    else:
        model = build(weights=None)
        if weights == RANDOM_WEIGHTS:
            cautions = (random_weights(f"keras:{name}"),)
        else:
            load_weights(model, weights)
    _, height, width, _ = model.input_shape
    return model, keras_applications.preprocess_of(name, height, width), cautions


def load_weights(model: Any, weights: Path) -> None:
    """Give `model` the weights of a .weights.h5, .h5 or .keras file.

    Raises:
        ModelError: keys are missing or unexpected (the first 5 are listed), or a shape differs.
    """
    try:
        if weights.name.endswith((".weights.h5", ".keras")):
            found = _weight_keys(weights)
            with tempfile.TemporaryDirectory() as folder:
                mine = Path(folder) / "own.weights.h5"
                model.save_weights(mine)
                refuse_other_keys(weights, expected=_weight_keys(mine), found=found)
        model.load_weights(weights)
    except ModelError:
        raise
    except Exception as error:  # Keras raises whatever h5py, zipfile or a layer does
        raise ModelError(f"weights '{weights}' do not fit the model: {one_line(error)}") from error


def write_savedmodel(model: Any, folder: Path, example: Example | None) -> tuple[list[str], list[str]]:
    """Write the SavedModel of `model` in inference mode, its batch open; returns its input and output names in order.

    A model whose input shapes are unknown, or open beyond the batch, takes them from `example`.

    Raises:
        ModelError: the model can't be traced, or its input shapes are unknown.
    """
    import keras
    import tensorflow as tf

    inputs = _inputs(model, example)
    takes_dict = isinstance(getattr(model, "input", None), dict) or (not _is_graph(model) and len(inputs) > 1)
    layer_names = _output_names(model)
    output_names: list[str] = []

    def run(tensors: Sequence[Any]) -> dict[str, Any]:
        given: Any = dict(zip(inputs, tensors, strict=True)) if takes_dict else list(tensors)
        result = model(given if takes_dict or len(inputs) > 1 else tensors[0], training=False)
        if isinstance(result, dict):
            named = {str(key): value for key, value in result.items()}
        else:
            leaves = tf.nest.flatten(result)
            numbered = ["output"] if len(leaves) == 1 else [f"output_{index}" for index in range(len(leaves))]
            named = dict(zip(layer_names or numbered, leaves, strict=True))
        output_names[:] = named
        return named

    def serve(*tensors: Any) -> dict[str, Any]:
        return run(tensors)

    try:
        if not model.built:
            run([tf.zeros([1, *shape[1:]], dtype) for shape, dtype in inputs.values()])
        archive = keras.export.ExportArchive()
        archive.track(model)
        signature = [tf.TensorSpec(shape, dtype, name=name) for name, (shape, dtype) in inputs.items()]
        archive.add_endpoint(SIGNATURE, serve, input_signature=signature)
        if any(isinstance(layer, keras.layers.RNN) for layer in model._flatten_layers()):
            # TFLite fuses a recurrent layer only where it was traced at a fixed batch.
            single = [tf.TensorSpec([1, *spec.shape[1:]], spec.dtype, name=spec.name) for spec in signature]
            archive.add_endpoint(SINGLE_SIGNATURE, serve, input_signature=single)
        archive.write_out(str(folder), verbose=False)
    except Exception as error:  # whatever a layer raises while it is traced
        raise ModelError(f"model '{model.name}' can't be written as a SavedModel: {one_line(error)}") from error
    return list(inputs), output_names


def input_names(model: Any) -> list[str]:
    """Names of the Input layers (their tensors' may be 'keras_tensor_7'), or the keys of a dict; [] for a subclass."""
    if not _is_graph(model):
        return []
    structure = getattr(model, "input", None)
    if isinstance(structure, dict):
        return list(structure)
    return [str(tensor._keras_history.operation.name) for tensor in model.inputs]


def _is_graph(model: Any) -> bool:
    """Whether the model knows its own inputs: a functional or a built sequential one, not a subclass."""
    return bool(getattr(model, "inputs", None))


def _inputs(model: Any, example: Example | None) -> dict[str, tuple[tuple[int | None, ...], str]]:
    """Name -> (shape with an open batch, dtype), in the model's order."""
    if _is_graph(model):
        names = input_names(model)
        return {
            name: (_fill(tuple(tensor.shape), name, example), str(tensor.dtype))
            for name, tensor in zip(names, model.inputs, strict=True)
        }
    if not example:
        raise ModelError(
            f"model '{model.name}' does not say the shape of its inputs: build it in the function "
            "(keras.Input), or pass --data"
        )
    if list(example) == [""]:
        example = {"input": example[""]}
    return {name: ((None, *array.shape[1:]), array.dtype.name) for name, array in example.items()}


def _fill(shape: tuple[int | None, ...], name: str, example: Example | None) -> tuple[int | None, ...]:
    """The shape with what is open beyond the batch taken from the sample."""
    array = (example or {}).get(name, (example or {}).get(""))
    if array is None or array.ndim != len(shape):
        return shape
    return (
        shape[0],
        *(own if own is not None else given for own, given in zip(shape[1:], array.shape[1:], strict=True)),
    )


def _output_names(model: Any) -> list[str] | None:
    """The names of the layers that make the outputs; None for a subclassed model."""
    if not _is_graph(model):
        return None
    import keras

    names = [str(name) for name in keras.Model(model.inputs, model.outputs).output_names]
    return [name if names.count(name) == 1 else f"{name}_{index}" for index, name in enumerate(names)]


def _weight_keys(path: Path) -> set[str]:
    """The paths of the weights in a .weights.h5, or in the one inside a .keras file; the optimizer's are left out."""
    import h5py  # type: ignore[import-untyped]  # no stubs

    keys: set[str] = set()

    def visit(name: str, entry: object) -> None:
        if isinstance(entry, h5py.Dataset) and not name.startswith("optimizer"):
            keys.add(name)

    if path.suffix == ".keras":
        with (
            zipfile.ZipFile(path) as archive,
            archive.open("model.weights.h5") as stream,
            h5py.File(stream, "r") as file,
        ):
            file.visititems(visit)
    else:
        with h5py.File(path, "r") as file:
            file.visititems(visit)
    return keys
