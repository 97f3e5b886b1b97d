"""The door to data: each form of DATA is one module here, and `open_source` finds the one that a text names."""

from __future__ import annotations

from pathlib import Path

from edgebench.data.sources.digits import Digits
from edgebench.data.sources.function import Function
from edgebench.data.sources.image_folder import ImageFolder
from edgebench.data.sources.manifest import Manifest
from edgebench.data.sources.npz import Npz
from edgebench.data.sources.protocol import EVALUATION_CAP, ArrayData, Dataset, Form, ImageData, Pools, Wanted
from edgebench.data.sources.sample_photos import SamplePhotos
from edgebench.data.wording import shown
from edgebench.errors import DataError

__all__ = [
    "EVALUATION_CAP",
    "FORMS",
    "ArrayData",
    "Dataset",
    "Form",
    "ImageData",
    "Pools",
    "Wanted",
    "check_source",
    "open_source",
]

FORMS: tuple[Form, ...] = (Digits(), SamplePhotos(), Function(), Npz(), Manifest(), ImageFolder())


def open_source(source: str, wanted: Wanted) -> Pools:
    """Open the data set that a user named; the first form that recognises the text takes it.

    Raises:
        DataError: no form matches, the file is missing, or its form can't read it.
        MissingError: the form needs an extra that is not installed.
    """
    return _form(source).open(source, wanted)


def check_source(source: str) -> None:
    """Raise DataError where `open_source` would find no form, or no file; nothing is opened or run."""
    file = _form(source).file(source)
    if file is not None and not file.exists():
        raise DataError(f"there is no file {shown(file)}")


def _form(source: str) -> Form:
    for form in FORMS:
        if form.recognises(source):
            return form
    known = "; ".join(form.syntax for form in FORMS)
    found = "is a file of another kind" if source and Path(source).exists() else "does not exist"
    raise DataError(f"data '{shown(source)}' {found}; data can be: {known}")
