"""DATA `sample-photos`: unlabelled square crops of the two real photos that scikit-learn ships.

A crop's side is drawn evenly between 60 % and 100 % of the photo's short side (427 pixels), its place evenly inside the
photo, and about every other one is mirrored. Crop i depends only on the seed, the purpose and i. Calibration and
evaluation crops are different crops of the same photos and may share pixels: two photos show what quantization does to
a network, not how well its ranges carry over to other scenes.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image

from edgebench.data.sources.protocol import ImageData, Pools, Wanted
from edgebench.errors import missing_extra

DEFAULT_EVALUATION_CROPS = 400
_SMALLEST_SIDE = 0.6


class SamplePhotos:
    """As many crops as are asked for; 400 for evaluation when nothing is asked."""

    syntax = "sample-photos"

    def recognises(self, source: str) -> bool:
        return source == "sample-photos"

    def file(self, source: str) -> None:
        return None

    def open(self, source: str, wanted: Wanted) -> Pools:
        photos = _photos()
        return Pools(
            evaluation=_crops(
                source,
                photos,
                DEFAULT_EVALUATION_CROPS if wanted.evaluation_samples is None else wanted.evaluation_samples,
                (wanted.seed, 0),
            ),
            calibration=_crops(source, photos, wanted.calibration_samples, (wanted.seed, 1)),
        )


def _crops(source: str, photos: tuple[npt.NDArray[np.uint8], ...], n: int, seed: tuple[int, int]) -> ImageData:
    def read(index: int) -> Image.Image:
        rng = np.random.default_rng((*seed, index))
        photo = photos[rng.integers(len(photos))]
        short_side = min(photo.shape[:2])
        side = int(rng.integers(int(_SMALLEST_SIDE * short_side), short_side + 1))
        top = int(rng.integers(photo.shape[0] - side + 1))
        left = int(rng.integers(photo.shape[1] - side + 1))
        crop = photo[top : top + side, left : left + side]
        return Image.fromarray(np.ascontiguousarray(crop[:, ::-1] if rng.integers(2) else crop))

    return ImageData(source=source, names=tuple(f"crop {index}" for index in range(n)), read=read)


@lru_cache(maxsize=1)
def _photos() -> tuple[npt.NDArray[np.uint8], ...]:
    try:
        from sklearn.datasets import load_sample_images
    except ImportError as error:
        raise missing_extra("scikit-learn", "zoo", "the sample photos") from error
    return tuple(load_sample_images().images)
