from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edgebench.types import Baseline, Framework, Preprocess, Task, TensorSpec

MakeBaseline = Callable[..., Baseline]


@pytest.fixture
def make_baseline() -> MakeBaseline:
    """A baseline that only says what the model takes and gives; no model file is needed to prepare data for it."""

    def make(
        *inputs: TensorSpec,
        outputs: tuple[TensorSpec, ...] = (TensorSpec(name="scores", shape=(None, 10), dtype="float32"),),
        task: Task | None = None,
        preprocess: Preprocess | None = None,
    ) -> Baseline:
        return Baseline(
            name="model",
            framework=Framework.ONNX,
            source="model.onnx",
            path="baseline/model.onnx",
            sha256="0" * 64,
            inputs=inputs,
            outputs=outputs,
            parameters=1,
            task=task,
            preprocess=preprocess,
        )

    return make


@pytest.fixture
def write_image() -> Callable[[Path, int], Path]:
    """Writes a 12x10 noise image, different for each seed."""

    def write(path: Path, seed: int = 0) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(seed).integers(0, 256, (12, 10, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(path, format="PNG")
        return path

    return write
