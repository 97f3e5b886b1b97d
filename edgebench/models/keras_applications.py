"""The models of keras.applications: their names, and how an image becomes their input."""

from __future__ import annotations

import ast
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from edgebench.errors import missing_extra
from edgebench.types import Preprocess

# `preprocess_input` of each module, as keras.applications.imagenet_utils defines the modes;
# the others take 0-255 as it is.
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
    plain = Preprocess(height=height, width=width, crop_fraction=0.875, layout="NHWC")
    if module in _TF_MODE:
        return replace(plain, mean=(127.5,), std=(127.5,))
    if module in _TORCH_MODE:
        return replace(plain, scale=1 / 255, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    if module in _CAFFE_MODE:
        return replace(plain, mean=(103.939, 116.779, 123.68), channels="BGR")
    return plain
