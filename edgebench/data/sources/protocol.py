"""What a form of DATA must do, and the two kinds of data set that every form opens as: images or arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from PIL import Image

from edgebench.data.samples import AnyArray, IntArray
from edgebench.types import Caution, Layout, TensorSpec

# Evaluation takes so many samples where the user asks for no number: intervals narrow slowly beyond.
EVALUATION_CAP = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the samples are for. Most forms ignore it; those that make samples on demand, or know the layout, need it.

    `inputs` are the model's where a model is known already. `scratch` is a folder for large temporary files; the caller
    removes it when it is done with the data set.
    """

    scratch: Path
    calibration_samples: int
    evaluation_samples: int | None
    seed: int
    inputs: tuple[TensorSpec, ...] = ()
    layout: Layout | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageData:
    """Images that still need a `Preprocess`. `read` decodes the image of one index; `labels` index `classes`."""

    source: str
    names: tuple[str, ...]
    read: Callable[[int], Image.Image]
    labels: IntArray | None = None
    classes: tuple[str, ...] = ()
    cautions: tuple[Caution, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayData:
    """Arrays under the source's own names, `labels` and `target:OUTPUT` among them; samples on each first axis.

    The only array of an unnamed input has the name "".
    """

    source: str
    names: tuple[str, ...]
    arrays: dict[str, AnyArray]
    classes: tuple[str, ...] = ()
    cautions: tuple[Caution, ...] = ()


Dataset = ImageData | ArrayData


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """What calibration and evaluation may draw from. Calibration None: both draw, disjointly, from `evaluation`."""

    evaluation: Dataset
    calibration: Dataset | None = None


class Form(Protocol):
    """One way to name a data set. To add one: a module with a Form, and its line in `edgebench.data.sources.FORMS`."""

    syntax: str
    """How a user writes it; shown when nothing matches."""

    def recognises(self, source: str) -> bool:
        """Whether the text is of this form, whether or not it can be opened."""

    def file(self, source: str) -> Path | None:
        """The file or folder that a recognised text names; None where it names none."""

    def open(self, source: str, wanted: Wanted) -> Pools:
        """The data set; raises DataError that names the file and what is wrong with it."""
