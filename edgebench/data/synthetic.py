"""Seeded made-up inputs for a model without data: enough for latency and a first look at errors, never for accuracy."""

from __future__ import annotations

import numpy as np

from edgebench.data.fitted import Fitted
from edgebench.data.numbers import dtype_of
from edgebench.data.samples import AnyArray, Kind
from edgebench.data.wording import shown_shape
from edgebench.types import Baseline, Caution, Preprocess, TensorSpec

DEFAULT_SAMPLES = 8
_OPEN_SEQUENCE = 16
_OPEN_IMAGE_SIDE = 224


def synthetic(baseline: Baseline, n: int, seed: int) -> Fitted:
    """Floats are standard normal; 8-bit integers cover their range; wider ones are 0 or 1, which any vocabulary has."""
    kinds = {spec.name: Kind(_shape(spec, baseline.preprocess), dtype_of(spec)) for spec in baseline.inputs}

    def read(index: int) -> dict[str, AnyArray]:
        rng = np.random.default_rng((seed, index))
        return {name: _values(rng, kind) for name, kind in kinds.items()}

    return Fitted(
        source="synthetic",
        names=tuple(f"synthetic {index}" for index in range(n)),
        inputs=kinds,
        read=read,
        targets={},
        task=baseline.task,
        cautions=(_caution(baseline, kinds),),
    )


def _values(rng: np.random.Generator, kind: Kind) -> AnyArray:
    shape, dtype = kind
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.itemsize == 1 and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    return rng.integers(0, 2, shape).astype(dtype)


def _shape(spec: TensorSpec, preprocess: Preprocess | None) -> tuple[int, ...]:
    sizes = spec.shape[1:]
    if spec.layout is None or len(sizes) != 3:
        return tuple(_OPEN_SEQUENCE if size is None else size for size in sizes)
    side = (_OPEN_IMAGE_SIDE, _OPEN_IMAGE_SIDE) if preprocess is None else (preprocess.height, preprocess.width)
    usual = (*side, 3) if spec.layout == "NHWC" else (3, *side)
    return tuple(fallback if size is None else size for size, fallback in zip(sizes, usual, strict=True))


def _caution(baseline: Baseline, kinds: dict[str, Kind]) -> Caution:
    assumed = [
        f"'{spec.name}' {shown_shape(spec.shape)} is fed as {shown_shape(kinds[spec.name].shape)} a sample"
        for spec in baseline.inputs
        if None in spec.shape[1:]
    ]
    return Caution(
        code="synthetic-inputs",
        message="no data was given, so inputs are random numbers: latency counts, errors against the baseline are only "
        "a hint, nothing can be calibrated" + ("; " + ", ".join(assumed) if assumed else ""),
        advice="name real data with --data (in a matrix: data.source)",
    )
