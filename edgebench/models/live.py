"""Live models: what a snapshot is written from, and what training trains."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.errors import ModelError
from edgebench.models import checkpoint, keras_models, torch_models, zoo
from edgebench.models.source import Kind, Source
from edgebench.models.user_code import call
from edgebench.types import Caution, Framework, Preprocess, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveModel:
    """A torch module or a Keras model in memory.

    `example` are sample inputs in any form that `torch_models.bind` takes; None where nothing gave one.
    """

    framework: Framework
    model: Any
    example: Any = None
    preprocess: Preprocess | None = None
    task: Task | None = None
    cautions: tuple[Caution, ...] = ()


def load(source: Source, weights: Path | None, *, trust: bool, to_train: bool = False) -> LiveModel:
    """The model of `source` in memory, with its weights; `to_train`, as `zoo.load_to_train` says for a zoo network.

    Raises:
        ModelError: it can't be loaded, its weights do not fit, code would run without `trust`, or this kind of file
            holds no live model (SavedModel, .pt2, .onnx, .tflite).
        MissingError: an extra is not installed, or weights can't be downloaded.
    """
    name = source.target
    match source.kind:
        case Kind.ZOO:
            return _zoo(name, to_train=to_train)
        case Kind.KERAS_APPLICATION:
            model, preprocess, cautions = keras_models.load_application(name, weights)
            return LiveModel(
                framework=Framework.TENSORFLOW,
                model=model,
                preprocess=preprocess,
                task=Task.CLASSIFICATION,
                cautions=cautions,
            )
        case Kind.TIMM:
            module, example, preprocess, cautions = torch_models.load_timm(name, weights)
            return LiveModel(
                framework=Framework.TORCH,
                model=module,
                example=example,
                preprocess=preprocess,
                task=Task.CLASSIFICATION,
                cautions=cautions,
            )
        case Kind.KERAS_FILE:
            return LiveModel(framework=Framework.TENSORFLOW, model=keras_models.load_file(_path(source), trust=trust))
        case Kind.TORCH_FILE:
            return LiveModel(framework=Framework.TORCH, model=torch_models.load_file(_path(source), trust=trust))
        case Kind.FUNCTION:
            return _function(source, weights)
        case _:
            raise ModelError(
                f"MODEL '{source.text}' is a {source.kind} file, which can't be trained; pass a .keras file, "
                "zoo:NAME, keras:NAME or file.py:function"
            )


def _zoo(name: str, *, to_train: bool) -> LiveModel:
    entry = zoo.ENTRIES[name]
    return LiveModel(
        framework=entry.framework,
        model=zoo.load_to_train(name) if to_train else zoo.load(name),
        example=zoo.example(name),
        preprocess=entry.preprocess,
        task=entry.task,
    )


def _function(source: Source, weights: Path | None) -> LiveModel:
    result = call(source.text, _path(source), source.target, source.framework)
    model, example = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    framework = _framework_of(model)
    if framework is None:
        raise ModelError(
            f"MODEL '{source.text}' returned a {type(model).__name__}; return a torch.nn.Module, a Keras model, "
            "or (module, example_inputs)"
        )
    cautions: tuple[Caution, ...] = ()
    if weights is not None and framework is Framework.TORCH:
        cautions = checkpoint.load_into(model, weights)
    elif weights is not None:
        keras_models.load_weights(model, weights)
    return LiveModel(framework=framework, model=model, example=example, cautions=cautions)


def _framework_of(model: object) -> Framework | None:
    """Torch or TensorFlow by the classes of the object, so that the other framework need not be imported."""
    for base in type(model).__mro__:
        if (base.__module__, base.__name__) == ("torch.nn.modules.module", "Module"):
            return Framework.TORCH
        if base.__module__.startswith("keras.") and base.__name__ == "Model":
            return Framework.TENSORFLOW
    return None


def _path(source: Source) -> Path:
    assert source.path is not None  # every kind that asks has a file
    return source.path
