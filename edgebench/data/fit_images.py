"""Fit images to a model: find the one image input, settle how images become its values, and read them so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from edgebench.data import preprocess as images
from edgebench.data.fitted import Fitted, inferred_task
from edgebench.data.numbers import dtype_of
from edgebench.data.samples import AnyArray, Kind
from edgebench.data.sources import ImageData
from edgebench.data.wording import listed, shown, shown_shape
from edgebench.errors import DataError
from edgebench.types import Baseline, Caution, Layout, Preprocess, Task, TensorSpec

HOW_TO_DECLARE = (
    "give --preprocess FILE.yaml, or `data.preprocess` in a matrix, with height, width, scale, mean, std, channels"
)


@dataclass(frozen=True, slots=True)
class _ImageInput:
    """The model's image input taken apart; None is an open size. `rank` 2 (without batch) is gray without channels."""

    name: str
    height: int | None
    width: int | None
    channels: int | None
    layout: Layout
    dtype: np.dtype[np.generic]
    rank: int
    shape: tuple[int | None, ...]


def fit_images(data: ImageData, baseline: Baseline, declared: Preprocess | None, task: Task | None) -> Fitted:
    """The images as the model's only input: by the `declared` preprocessing, else the model's own, else a guess.

    Raises:
        DataError: the model has no image input, or more than one input, or the sizes can't agree.
    """
    target = _image_input(baseline)
    given = declared or baseline.preprocess
    cautions = list(data.cautions)
    if given is None:
        given = _guess(target)
        cautions.append(_guess_caution(target, given))
    # Layout and dtype are facts of the model, not choices of whoever declares the preprocessing.
    settled = replace(given, layout=target.layout, dtype=target.dtype.name)
    images.check(settled)
    _check_size(target, settled)
    shape = images.output_shape(settled)[: 2 if target.rank == 2 else 3]

    def read(index: int) -> dict[str, AnyArray]:
        return {target.name: read_input(data, index, settled).reshape(shape)}

    return Fitted(
        source=data.source,
        names=data.names,
        inputs={target.name: Kind(shape, target.dtype)},
        read=read,
        labels=data.labels,
        targets={},
        task=inferred_task(task, baseline.task, data.labels, {}),
        classes=data.classes,
        preprocess=settled,
        cautions=tuple(cautions),
    )


def read_input(data: ImageData, index: int, preprocess: Preprocess) -> AnyArray:
    """One image as the model's values, shaped as `preprocess` says; raises DataError that names the image."""
    image = data.read(index)
    try:
        return images.apply(image, preprocess)
    except DataError as error:
        raise DataError(f"{shown(data.source)}: image '{shown(data.names[index])}': {error}") from error


def declared_for(source: str, preprocess: Preprocess | None, layout: Layout | None) -> Preprocess:
    """The declared preprocessing in the model's layout; raises DataError without one, as nothing tells the size."""
    if preprocess is None:
        raise DataError(f"{shown(source)} gives images and the model's input size is not known yet: {HOW_TO_DECLARE}")
    settled = preprocess if layout is None else replace(preprocess, layout=layout)
    images.check(settled)
    return settled


def _image_input(baseline: Baseline) -> _ImageInput:
    if len(baseline.inputs) != 1:
        raise DataError(
            f"images can feed a model with one input, this one has {listed(spec.name for spec in baseline.inputs)}: "
            "give an .npz with one array for each"
        )
    (spec,) = baseline.inputs
    shape = spec.shape[1:]
    if len(shape) == 2:
        return _ImageInput(spec.name, shape[0], shape[1], 1, "NHWC", dtype_of(spec), 2, spec.shape)
    if len(shape) != 3:
        raise DataError(
            f"images can't feed the model's input '{shown(spec.name)}' of shape {shown_shape(spec.shape)}: "
            "give an .npz with arrays of that shape"
        )
    layout = spec.layout or _layout(spec)
    height, width, channels = shape if layout == "NHWC" else (shape[1], shape[2], shape[0])
    return _ImageInput(spec.name, height, width, channels, layout, dtype_of(spec), 3, spec.shape)


def _layout(spec: TensorSpec) -> Layout:
    first, last = spec.shape[1], spec.shape[3]
    if last in (1, 3):
        return "NHWC"
    if first in (1, 3):
        return "NCHW"
    raise DataError(
        f"the model's input '{shown(spec.name)}' {shown_shape(spec.shape)} has no axis of 1 or 3 channels, "
        "so images can't feed it: give an .npz with arrays of that shape"
    )


def _guess(target: _ImageInput) -> Preprocess:
    if target.height is None or target.width is None:
        raise DataError(
            f"the model's input '{shown(target.name)}' {shown_shape(target.shape)} leaves the image size open: "
            f"{HOW_TO_DECLARE}"
        )
    channels: Literal["RGB", "gray"] = "gray" if target.channels == 1 else "RGB"
    scale = 1 / 255 if target.dtype.kind == "f" else 1.0
    return Preprocess(height=target.height, width=target.width, scale=scale, channels=channels)


def _guess_caution(target: _ImageInput, guess: Preprocess) -> Caution:
    values = "0 to 1 (pixel / 255, no mean or std)" if target.dtype.kind == "f" else "the raw pixels 0 to 255"
    return Caution(
        code="preprocess-guessed",
        message=f"nothing says how images become '{shown(target.name)}', so this is assumed: short side resized to "
        f"{guess.height}x{guess.width}, middle cropped, {guess.channels}, {values}; accuracy is wrong if the model was "
        "trained otherwise",
        advice=HOW_TO_DECLARE,
    )


def _check_size(target: _ImageInput, settled: Preprocess) -> None:
    pairs = (
        (target.height, settled.height),
        (target.width, settled.width),
        (target.channels, images.channel_count(settled)),
    )
    if any(wanted is not None and wanted != given for wanted, given in pairs):
        raise DataError(
            f"the preprocessing gives {settled.height}x{settled.width} pixels with {pairs[2][1]} channels "
            f"({settled.channels}), the model's input '{shown(target.name)}' takes {shown_shape(target.shape)} "
            f"({target.layout}): {HOW_TO_DECLARE}"
        )
