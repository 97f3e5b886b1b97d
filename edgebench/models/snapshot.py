"""MODEL -> Baseline: load it once, with its code if need be, and leave a snapshot that loads without that code."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgebench.errors import ModelError
from edgebench.models import keras_models, live, onnx_tflite, pt2, savedmodel, torch_export, torch_models
from edgebench.models import source as sources
from edgebench.models.contents import Contents
from edgebench.models.source import Kind, Source
from edgebench.naming import printable
from edgebench.types import Baseline, Caution, Framework, Preprocess, Task

FOLDER = "baseline"

Example = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """A snapshot on disk, and what its files do not tell. `parameters` None: as many as the files hold."""

    framework: Framework
    path: Path
    order: savedmodel.Order | None = None
    parameters: int | None = None
    preprocess: Preprocess | None = None
    task: Task | None = None
    cautions: tuple[Caution, ...] = ()


def snapshot(
    source: str,
    run_folder: Path,
    *,
    weights: Path | None = None,
    trust: bool = False,
    example: Example | None = None,
) -> Baseline:
    """Load `source` in inference mode and write its snapshot to `run_folder/baseline`, replacing an older one.

    The same source gives the same `sha256` in a second run. `example` is one sample by input name with a batch axis of
    1 ("" for the only input); only models that do not say their inputs' shapes use it.

    Raises:
        ModelError: the model can't be loaded or exported; weights do not fit; code would run without `trust`.
        MissingError: an extra is not installed, or weights can't be downloaded.
    """
    parsed = sources.parse(source)
    sources.check_weights(parsed, weights)
    folder = run_folder / FOLDER
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    if parsed.kind in (Kind.SAVED_MODEL, Kind.EXPORTED_PROGRAM, Kind.ONNX, Kind.TFLITE):
        written = _copy(parsed, folder, trust=trust)
    else:
        written = _write(parsed, folder, live.load(parsed, weights, trust=trust), example)
    contents = _read(written, trust=trust)
    _refuse_unusable(parsed, contents)
    return Baseline(
        name=parsed.name,
        framework=written.framework,
        source=source,
        path=f"{FOLDER}/{written.path.name}",
        sha256=contents.sha256,
        inputs=contents.inputs,
        outputs=contents.outputs,
        parameters=contents.parameters if written.parameters is None else written.parameters,
        task=written.task,
        preprocess=written.preprocess,
        cautions=(*written.cautions, *contents.cautions),
    )


def _copy(source: Source, folder: Path, *, trust: bool) -> _Written:
    path = source.path
    assert path is not None  # these kinds are files or folders
    if source.kind is Kind.SAVED_MODEL:
        savedmodel.copy(path, folder / "savedmodel", trust=trust)
        return _Written(framework=Framework.TENSORFLOW, path=folder / "savedmodel")
    if source.kind is Kind.EXPORTED_PROGRAM:
        torch_models.import_torch(f"MODEL '{source.text}'")
        pt2.open_program(path, trust=trust)
        shutil.copyfile(path, folder / "model.pt2")
        return _Written(framework=Framework.TORCH, path=folder / "model.pt2")
    if source.kind is Kind.ONNX:
        onnx_tflite.copy_onnx(path, folder / "model.onnx")
        return _Written(framework=Framework.ONNX, path=folder / "model.onnx")
    onnx_tflite.read_tflite(path)  # so that what is wrong is said of the user's own file
    shutil.copyfile(path, folder / "model.tflite")
    return _Written(framework=Framework.TFLITE, path=folder / "model.tflite")


def _write(source: Source, folder: Path, loaded: live.LiveModel, example: Example | None) -> _Written:
    cautions = loaded.cautions
    given = loaded.example if loaded.example is not None else example
    order = None
    parameters: int
    if loaded.framework is Framework.TENSORFLOW:
        path = folder / "savedmodel"
        order = keras_models.write_savedmodel(loaded.model, path, _by_name(given))
        parameters = int(loaded.model.count_params())
    else:
        if given is None:
            raise ModelError(
                f"MODEL '{source.text}' does not say the shape of its inputs: return (model, example_inputs) from the "
                "function, or pass --data, for images with --preprocess"
            )
        path = folder / "model.pt2"
        cautions += torch_export.write_pt2(loaded.model, given, path, source.name)
        parameters = sum(weight.numel() for weight in loaded.model.parameters())
    return _Written(
        framework=loaded.framework,
        path=path,
        order=order,
        parameters=parameters,
        preprocess=loaded.preprocess,
        task=loaded.task,
        cautions=cautions,
    )


def _by_name(example: Any) -> Example | None:
    """A Keras function's example inputs as arrays by name."""
    if example is None:
        return None
    if isinstance(example, dict):
        return {name: np.asarray(array) for name, array in example.items()}
    return {"": np.asarray(example)}


def _read(written: _Written, *, trust: bool) -> Contents:
    match written.framework:
        case Framework.TENSORFLOW:
            return savedmodel.read(written.path, written.order)
        case Framework.TORCH:
            return pt2.read(written.path, trust=trust)
        case Framework.ONNX:
            return onnx_tflite.read_onnx(written.path)
        case Framework.TFLITE:
            return onnx_tflite.read_tflite(written.path)


def _refuse_unusable(source: Source, contents: Contents) -> None:
    """Raise ModelError for a model without inputs or outputs, with quantized inputs, or open beyond the batch."""
    if not contents.inputs or not contents.outputs:
        raise ModelError(f"MODEL '{source.text}' has no {'outputs' if contents.inputs else 'inputs'}")
    for spec in contents.inputs:
        if spec.quantization is not None:
            raise ModelError(
                f"MODEL '{source.text}' is quantized already (input '{printable(spec.name)}' is {spec.dtype}), recipes "
                "start from a float model: convert the one that it was made from, or measure the file as it is: "
                "edgebench measure FILE"
            )
        if None in spec.shape[1:]:
            shape = "x".join("?" if size is None else str(size) for size in spec.shape)
            raise ModelError(
                f"MODEL '{source.text}': input '{spec.name}' is {shape}; only the batch may be open, so fix the other "
                "axes when the model is built or exported"
            )
