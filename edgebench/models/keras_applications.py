"""The models of keras.applications: their names, and how an image becomes their input."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

from edgebench.errors import missing_extra
from edgebench.types import Preprocess

# `preprocess_input` of each module, as keras.applications.imagenet_utils defines the modes.
_TF_MODE = ("mobilenet", "mobilenet_v2", "inception_v3", "inception_resnet_v2", "xception", "nasnet", "resnet_v2")
_TORCH_MODE = ("densenet",)
_CAFFE_MODE = ("resnet", "vgg16", "vgg19")


def names() -> dict[str, str]:
    """Name of each model of the installed keras.applications -> its module; read from the source, not imported.

    Raises:
        MissingError: keras is not installed.
    """
    spec = find_spec("keras")
    if spec is None or spec.origin is None:
        raise missing_extra("keras", "tensorflow", "a keras:NAME model")
    listing = Path(spec.origin).parent / "applications" / "__init__.py"
    found: dict[str, str] = {}
    for node in ast.parse(listing.read_bytes()).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("keras.src.applications."):
            found |= {alias.name: node.module.rsplit(".", 1)[1] for alias in node.names}
    return found


def preprocess_of(name: str, height: int, width: int) -> Preprocess:
    """The preprocessing that the model's ImageNet weights expect: 0-255 RGB in, its `preprocess_input` applied.

    The middle 87.5 % of the shorter side is taken, the usual ImageNet evaluation crop.
    """
    module = names()[name]
    scale, mean, std = 1.0, (0.0,), (1.0,)
    channels = "BGR" if module in _CAFFE_MODE else "RGB"
    triple_mean, triple_std = None, None
    if module in _TF_MODE:
        mean, std = (127.5,), (127.5,)
    elif module in _TORCH_MODE:
        scale = 1 / 255
        triple_mean, triple_std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    elif module in _CAFFE_MODE:
        triple_mean = (103.939, 116.779, 123.68)
    return Preprocess(
        height=height,
        width=width,
        crop_fraction=0.875,
        scale=scale,
        mean=triple_mean or mean,
        std=triple_std or std,
        channels="BGR" if channels == "BGR" else "RGB",
        layout="NHWC",
    )
