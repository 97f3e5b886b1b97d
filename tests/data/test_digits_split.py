from __future__ import annotations

import numpy as np

from edgebench.data import digits


def test_the_splits_are_disjoint_complete_and_stratified() -> None:
    train_images, train_labels = digits.train_split()
    test_images, test_labels = digits.test_split()
    assert train_images.shape == (1297, 8, 8, 1)
    assert test_images.shape == (500, 8, 8, 1)
    assert train_images.dtype == np.float32
    assert train_images.min() == 0.0
    assert train_images.max() == 1.0
    train_shares = np.bincount(train_labels) / len(train_labels)
    test_shares = np.bincount(test_labels) / len(test_labels)
    np.testing.assert_allclose(train_shares, test_shares, atol=0.003)
    assert not {image.tobytes() for image in train_images} & {image.tobytes() for image in test_images}


def test_the_split_never_changes() -> None:
    _, labels = digits.test_split()
    assert labels[:12].tolist() == [4, 8, 8, 3, 9, 0, 6, 3, 9, 8, 4, 5]
