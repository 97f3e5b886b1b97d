"""Class scores on the last axis: how a decision is read from them, and when it is a near-tie."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgebench.arrays import Array

# A decision is clear when its best class leads the second by more than this in logits. Logits are log-probabilities up
# to a constant, so for probabilities the lead is taken between their logarithms: in both cases the best class is more
# than e^0.1 = 1.105 times as probable as the second, whatever the number of classes.
CLEAR_MARGIN = 0.1

_SUM_TOLERANCE = 1e-3


def are_probabilities(scores: Array) -> bool:
    """Whether all scores are within 0..1 and each set of two or more sums to 1."""
    if scores.min() < 0 or scores.max() > 1:
        return False
    return scores.shape[-1] == 1 or bool(np.all(np.abs(scores.sum(axis=-1, dtype=np.float64) - 1) < _SUM_TOLERANCE))


def two_or_more(scores: Array, is_probability: bool) -> Array:
    """The scores; a two-class model's single score becomes two of the same margin (p > 0.5, or logit > 0: class 1)."""
    if scores.shape[-1] > 1:
        return scores
    return np.concatenate([1 - scores if is_probability else np.zeros_like(scores), scores], axis=-1)


def is_clear(scores: Array, is_probability: bool) -> NDArray[np.bool_]:
    """Where the best of two or more scores leads the second by more than `CLEAR_MARGIN` nats."""
    best_two = np.partition(scores, -2, axis=-1)[..., -2:].astype(np.float64)
    if is_probability:
        with np.errstate(divide="ignore"):
            best_two = np.log(best_two)  # -inf for a second class of probability 0: infinitely clear
    clear: NDArray[np.bool_] = best_two[..., 1] - best_two[..., 0] > CLEAR_MARGIN
    return clear
