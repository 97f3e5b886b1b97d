"""DATA as `file.py:function`: the user's own function, which yields one dict a sample."""

from __future__ import annotations

import difflib
import importlib.util
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from edgebench.data.fitted import text_labels
from edgebench.data.samples import AnyArray
from edgebench.data.sources.protocol import EVALUATION_CAP, ArrayData, Pools, Wanted
from edgebench.data.wording import listed, shown, shown_shape
from edgebench.errors import DataError
from edgebench.types import Caution

_SYNTAX = re.compile(r"(?P<file>.+\.py):(?P<function>[A-Za-z_]\w*)")


class Function:
    """Each dict has one array (without a batch axis) per model input, and may have `label` and `target:OUTPUT`.

    The function is called without arguments. It may be endless: no more samples are taken than calibration and
    evaluation need, always the first ones. Naming the file is the consent to run it.
    """

    syntax = "file.py:function yielding one dict a sample"

    def recognises(self, source: str) -> bool:
        return _SYNTAX.fullmatch(source) is not None

    def file(self, source: str) -> Path:
        return Path(source.rpartition(":")[0])

    def open(self, source: str, wanted: Wanted) -> Pools:
        asked = EVALUATION_CAP if wanted.evaluation_samples is None else wanted.evaluation_samples
        limit = wanted.calibration_samples + asked
        spool = _Spool(source, Path(tempfile.mkdtemp(dir=wanted.scratch)))
        cautions: tuple[Caution, ...] = ()
        for sample in _samples(source):
            if spool.n == limit:
                cautions = (
                    Caution(
                        code="data-truncated",
                        message=f"{shown(source)} yields more than {limit} samples; the first {limit} are used",
                        advice="shuffle inside the function if the order of its samples matters",
                    ),
                )
                break
            spool.add(sample)
        names = tuple(str(index) for index in range(spool.n))
        return Pools(evaluation=ArrayData(source=source, names=names, arrays=spool.arrays(), cautions=cautions))


def _samples(source: str) -> Iterator[dict[str, Any]]:
    match = _SYNTAX.fullmatch(source)
    assert match is not None  # `recognises` was asked before
    path, name = Path(match["file"]), match["function"]
    function = _load(path, name)
    try:
        yielded = function()
        if isinstance(yielded, dict) or not isinstance(yielded, Iterable):
            raise DataError(f"{shown(source)} must yield one dict a sample; it returned a {type(yielded).__name__}")
        for index, sample in enumerate(yielded):
            if not isinstance(sample, dict) or not all(isinstance(key, str) for key in sample):
                raise DataError(
                    f"{shown(source)}: sample {index} is a {type(sample).__name__}; "
                    "it must be a dict of input name to array"
                )
            yield {"labels" if key == "label" else key: value for key, value in sample.items()}
    except DataError:
        raise
    except (Exception, SystemExit) as error:
        # Whatever the user's code raises is the user's to see, told as the data set's failure.
        raise DataError(f"{shown(source)} raised {type(error).__name__}: {shown(error)}") from error


def _load(path: Path, name: str) -> Any:
    if not path.is_file():
        raise DataError(f"there is no file {shown(path)}")
    spec = importlib.util.spec_from_file_location(f"_edgebench_data_{path.stem}", path)
    assert spec is not None  # a name ending in .py always has a loader
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)  # the file may import its neighbours, now and while it yields
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise DataError(f"{shown(path)} can't be imported: {type(error).__name__}: {shown(error)}") from error
    function = getattr(module, name, None)
    if not callable(function):
        found = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        near = difflib.get_close_matches(name, found, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"it has {listed(found)}"
        raise DataError(f"{shown(path)} has no function '{name}'; {hint}")
    return function


class _Spool:
    """Samples go to disk as they come, so a long data set needs no memory."""

    def __init__(self, source: str, folder: Path) -> None:
        self.n = 0
        self._source = source
        self._folder = folder
        self._kinds: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        self._files: dict[str, BinaryIO] = {}

    def add(self, sample: dict[str, Any]) -> None:
        arrays = {name: self._array(name, value) for name, value in sample.items()}
        if self.n == 0:
            self._kinds = {name: (array.shape, array.dtype) for name, array in arrays.items()}
            self._files = {name: (self._folder / f"{place}.bin").open("wb") for place, name in enumerate(self._kinds)}
        if arrays.keys() != self._kinds.keys():
            raise DataError(
                f"{shown(self._source)}: sample {self.n} has the keys {listed(arrays)}, "
                f"sample 0 had {listed(self._kinds)}"
            )
        for name, array in arrays.items():
            shape, dtype = self._kinds[name]
            if array.shape != shape or array.dtype != dtype:
                raise DataError(
                    f"{shown(self._source)}: '{shown(name)}' of sample {self.n} is {array.dtype} "
                    f"{shown_shape(array.shape)}, of sample 0 {dtype} {shown_shape(shape)}: yield one shape and type"
                )
            self._files[name].write(np.ascontiguousarray(array).tobytes())
        self.n += 1

    def arrays(self) -> dict[str, AnyArray]:
        if not self._kinds:
            raise DataError(f"{shown(self._source)} yielded no sample")
        arrays: dict[str, AnyArray] = {}
        for name, (shape, dtype) in self._kinds.items():
            file = self._files[name]
            file.close()
            arrays[name] = np.memmap(file.name, dtype=dtype, mode="r", shape=(self.n, *shape))
        return arrays

    def _array(self, name: str, value: object) -> AnyArray:
        array = np.asarray(value)
        if array.size == 0:
            raise DataError(
                f"{shown(self._source)}: '{shown(name)}' of sample {self.n} is empty {shown_shape(array.shape)}"
            )
        if name == "labels" and array.dtype.kind in "US":
            raise text_labels(self._source, array)
        if array.dtype.kind not in "biuf":
            raise DataError(f"{shown(self._source)}: '{shown(name)}' of sample {self.n} is {array.dtype}, not numbers")
        return array
