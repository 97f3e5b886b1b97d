"""Named arrays in one file: whole or not at all, any names, never pickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgebench.atomic import replacing

Array: TypeAlias = NDArray[Any]


def save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write the arrays to an .npz file. Names are data in it, so that no name can clash or become a path."""
    numbered = {f"array-{index}": array for index, array in enumerate(arrays.values())}
    with replacing(path) as half:
        np.savez(half, names=np.array(json.dumps(list(arrays))), **numbered)


def load_arrays(path: Path) -> dict[str, Array]:
    """The arrays that `save_arrays` wrote, in the same order."""
    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[f"array-{index}"] for index, name in enumerate(json.loads(str(stored["names"])))}
