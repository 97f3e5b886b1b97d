"""scikit-learn's handwritten digits, split once and for all into 1297 training and 500 test images.

Calibration and training only ever see the training split, accuracy only the test split.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from edgebench.errors import missing_extra

TEST_SAMPLES = 500
SPLIT_SEED = 0

Split = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]


def train_split() -> Split:
    """Return the training images (1297, 8, 8, 1), float32 in 0..1, and their labels (1297,), int64.

    Raises:
        MissingError: scikit-learn (extra `zoo`) is not installed.
    """
    return _splits()[0]


def test_split() -> Split:
    """Return the test images (500, 8, 8, 1), float32 in 0..1, and their labels (500,), int64.

    Raises:
        MissingError: scikit-learn (extra `zoo`) is not installed.
    """
    return _splits()[1]


@lru_cache(maxsize=1)
def _splits() -> tuple[Split, Split]:
    try:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    except ImportError as error:
        raise missing_extra("scikit-learn", "zoo", "the digits data set") from error
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[..., np.newaxis]
    labels = digits.target.astype(np.int64)
    train, test = train_test_split(
        np.arange(len(labels)), test_size=TEST_SAMPLES, stratify=labels, random_state=SPLIT_SEED
    )
    return (images[train], labels[train]), (images[test], labels[test])
