"""The environment a record was made in: versions, machine, device."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from edgebench import __version__

if TYPE_CHECKING:
    from edgebench.devices.protocol import Device

_PACKAGES = (
    "ai-edge-litert",
    "ai-edge-quantizer",
    "keras",
    "litert-torch",
    "numpy",
    "onnx",
    "onnxruntime",
    "tensorflow",
    "tensorflow-cpu",
    "tf2onnx",
    "tflite-runtime",
    "torch",
)


def fingerprint(device: Device) -> dict[str, str]:
    """Versions of edgebench, Python and the packages that decide results, and what the device says it is."""
    return _software() | {f"device.{key}": value for key, value in sorted(device.identity().items())}


@cache  # it reads a folder of a thousand entries for each package, and many devices ask
def _software() -> dict[str, str]:
    found = {"edgebench": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
