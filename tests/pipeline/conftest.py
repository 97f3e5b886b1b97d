"""A small real model and data that need no framework: the checked-in float .tflite, and a matrix over it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgebench.converters.recipes import load_recipes
from edgebench.matrix import Axes, DataSource, Matrix, ModelSource
from edgebench.types import Plan

FILES = Path(__file__).parent.parent / "files"
QUICK = Plan(rounds=2, min_runs=5, max_runs=20, min_seconds=0, max_seconds=1, warmup_max_seconds=0.1, timeout_s=60)


@pytest.fixture
def data_file(tmp_path: Path) -> Path:
    from edgebench.converters import inspection

    spec = inspection.read(FILES / "tiny-float.tflite").inputs[0]
    rng = np.random.default_rng(0)
    path = tmp_path / "data.npz"
    samples = rng.normal(size=(80, *spec.shape[1:])).astype("float32")
    np.savez(path, **{spec.name: samples, "labels": rng.integers(0, 3, 80)})
    return path


@pytest.fixture
def make_matrix(data_file: Path) -> Callable[..., Matrix]:
    def make(*recipes: str, plan: Plan = QUICK, threads: tuple[int, ...] = (1,)) -> Matrix:
        return Matrix(
            name="tiny",
            model=ModelSource(source=str(FILES / "tiny-float.tflite")),
            data=DataSource(source=str(data_file), calibration=40),
            recipes=tuple(load_recipes(list(recipes))),
            axes=Axes(threads=threads, plan=plan),
        )

    return make
