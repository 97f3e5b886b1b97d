"""Turn an image into a model's input, as a declared `Preprocess` says."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from edgebench.errors import DataError
from edgebench.types import Preprocess

_SIXTEEN_BIT_MODES = ("I;16", "I;16L", "I;16B", "I;16N")


def apply(image: Image.Image, preprocess: Preprocess) -> npt.NDArray[np.generic]:
    """The model's input for one image: shape (h, w, c) or (c, h, w) by `preprocess.layout`, dtype `preprocess.dtype`.

    EXIF orientation is obeyed, 16-bit gray becomes 8-bit, alpha is dropped (as torchvision's and Keras' loaders do).
    Resizing is Pillow's bicubic with antialiasing on 8-bit values; integer dtypes are rounded half to even and clipped.

    Raises:
        DataError: the `preprocess` is impossible, or the image holds values whose range isn't known.
    """
    check(preprocess)
    upright = ImageOps.exif_transpose(image)
    mode = "L" if preprocess.channels == "gray" else "RGB"
    resized = _resize(_eight_bit(upright, image.format).convert(mode), preprocess)
    pixels = np.asarray(resized, dtype=np.float64).reshape(preprocess.height, preprocess.width, -1)
    if preprocess.channels == "BGR":
        pixels = pixels[:, :, ::-1]
    values = (pixels * preprocess.scale - np.array(preprocess.mean)) / np.array(preprocess.std)
    if preprocess.layout == "NCHW":
        values = values.transpose(2, 0, 1)
    dtype = np.dtype(preprocess.dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = np.clip(np.rint(values), limits.min, limits.max)
    return np.ascontiguousarray(values, dtype=dtype)


def check(preprocess: Preprocess) -> None:
    """Refuse a `Preprocess` that can't be applied.

    Raises:
        DataError: names the field, its value and what would be possible.
    """
    channels = channel_count(preprocess)
    for field, values in (("mean", preprocess.mean), ("std", preprocess.std)):
        if len(values) not in (1, channels):
            raise DataError(
                f"preprocess {field} has {len(values)} values for {channels} channels ({preprocess.channels}): "
                f"give 1 or {channels}"
            )
    if not all(value > 0 for value in preprocess.std):
        raise DataError(f"preprocess std {preprocess.std} must be above 0")
    if preprocess.height < 1 or preprocess.width < 1:
        raise DataError(f"preprocess size {preprocess.height}x{preprocess.width} must be at least 1x1")
    if not 0 < preprocess.crop_fraction <= 1:
        raise DataError(f"preprocess crop_fraction {preprocess.crop_fraction} must be above 0 and at most 1")
    try:
        kind = np.dtype(preprocess.dtype).kind
    except TypeError:
        kind = "?"
    if kind not in "fiu":
        raise DataError(f"preprocess dtype '{preprocess.dtype}' is no number type: use float32, uint8 or int8")


def channel_count(preprocess: Preprocess) -> int:
    """1 for gray, else 3."""
    return 1 if preprocess.channels == "gray" else 3


def output_shape(preprocess: Preprocess) -> tuple[int, int, int]:
    """The shape that `apply` gives, without the batch."""
    channels = channel_count(preprocess)
    if preprocess.layout == "NCHW":
        return (channels, preprocess.height, preprocess.width)
    return (preprocess.height, preprocess.width, channels)


def _eight_bit(image: Image.Image, file_format: str | None) -> Image.Image:
    # Pillow's own conversion clips 16-bit values at 255 instead of scaling them. Old versions open a 16-bit PNG as I.
    is_sixteen_bit = image.mode in _SIXTEEN_BIT_MODES or (image.mode == "I" and file_format == "PNG")
    if is_sixteen_bit:
        values = np.asarray(image).astype(np.float64)
        return Image.fromarray(np.rint(np.clip(values / 257.0, 0, 255)).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise DataError(
            f"an image of mode '{image.mode}' holds 32-bit values of unknown range: convert it to 8 or 16 bits, "
            "or give arrays in an .npz"
        )
    return image


def _resize(image: Image.Image, preprocess: Preprocess) -> Image.Image:
    height, width = preprocess.height, preprocess.width
    if preprocess.resize == "stretch":
        return image.resize((width, height), Image.Resampling.BICUBIC)
    ratio = max(
        int(height / preprocess.crop_fraction) / image.height,
        int(width / preprocess.crop_fraction) / image.width,
    )
    # The small addend keeps an exact product such as 256.0 from being truncated to 255.
    covering_height = max(height, int(image.height * ratio + 1e-6))
    covering_width = max(width, int(image.width * ratio + 1e-6))
    covering = image.resize((covering_width, covering_height), Image.Resampling.BICUBIC)
    top, left = round((covering_height - height) / 2), round((covering_width - width) / 2)
    return covering.crop((left, top, left + width, top + height))
