"""Compare the range of calibration data with that of evaluation data, and find the samples that stretch it alone.

A post-training quantizer takes activation ranges from what it sees: data that is scaled otherwise, too narrow (values
are clipped) or too wide (steps are too coarse) costs accuracy silently.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from edgebench.data.profile import InputProfile
from edgebench.data.wording import shown
from edgebench.types import Caution

# A sample is wild when its largest value is beyond 8 robust standard deviations and 4 times the median sample's.
_WILD_DEVIATIONS = 8.0
_WILD_FACTOR = 4.0
# 0.6745 makes the median absolute deviation an estimate of the standard deviation (Iglewicz and Hoaglin, 1993).
_MAD_TO_SIGMA = 0.6745
_SCALED_FACTOR = 20.0
_CLIPPED_SHARE = 0.01
# Of N independent values, 2 / (N + 1) of their like are expected beyond the extremes: chance, not a narrow set.
_CLIPPED_BY_CHANCE = 3 * 2
_WIDER_FACTOR = 2.0
_QUANTILES = (0.001, 0.999)


def range_cautions(
    name: str, ours: InputProfile, theirs: InputProfile, calibration_names: tuple[str, ...]
) -> Iterable[Caution]:
    """Doubts about one input's range; nothing is said of an input that is constant, which has findings of its own."""
    if ours.low >= ours.high or theirs.low >= theirs.high:
        return
    if ours.dtype.kind in "iub":
        yield from _integer_cautions(name, ours, theirs)
        return
    wild = wild_samples(ours.largest)
    if len(wild):
        yield _wild_caution(name, ours, wild, calibration_names)
    tame = np.setdiff1d(np.arange(len(ours.lowest)), wild)
    yield from _scale_cautions(name, ours, theirs, tame)


def wild_samples(largest: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Indices of samples whose largest absolute value lies far above the others', widest first."""
    median = float(np.median(largest))
    deviation = float(np.median(np.abs(largest - median)))
    # Images often all reach the same maximum: their deviation is 0, and 5 % of the median stands in for it.
    spread = max(deviation, 0.05 * median, sys.float_info.min)
    is_wild = (_MAD_TO_SIGMA * (largest - median) / spread > _WILD_DEVIATIONS) & (largest > _WILD_FACTOR * median)
    indices = np.flatnonzero(is_wild)
    return indices[np.argsort(-largest[indices], kind="stable")]


def _wild_caution(name: str, ours: InputProfile, wild: npt.NDArray[np.int64], names: tuple[str, ...]) -> Caution:
    worst = int(wild[0])
    median = float(np.median(ours.largest))
    others = f" and {len(wild) - 1} more" if len(wild) > 1 else ""
    return Caution(
        code="calibration-outlier",
        message=f"input '{shown(name)}': calibration sample {worst} ({shown(names[worst])}){others} reaches "
        f"{ours.largest[worst]:g} where the median sample reaches {median:g}; min-max ranges follow it and the "
        "steps of all others grow",
        advice=f"check or remove calibration sample {worst} ({shown(names[worst])}){others}",
    )


def _scale_cautions(
    name: str, ours: InputProfile, theirs: InputProfile, tame: npt.NDArray[np.int64]
) -> Iterable[Caution]:
    our_low, our_high = _quantiles(ours.pooled[tame])
    their_low, their_high = _quantiles(theirs.pooled)
    spans = f"calibration spans {our_low:g} to {our_high:g}, evaluation {their_low:g} to {their_high:g}"
    our_size, their_size = max(abs(our_low), abs(our_high)), max(abs(their_low), abs(their_high))
    if min(our_size, their_size) > 0:
        ratio = our_size / their_size
        if ratio >= _SCALED_FACTOR or ratio <= 1 / _SCALED_FACTOR:
            larger, factor = ("calibration", ratio) if ratio > 1 else ("evaluation", 1 / ratio)
            likely = f"; {larger} looks unscaled (0-255)" if 100 <= factor <= 600 else ""
            yield Caution(
                code="calibration-range",
                message=f"input '{shown(name)}': {larger} values are {factor:.3g} times as large ({spans}){likely}",
                advice="prepare calibration and evaluation in the same way",
            )
            return
    clipped = _share_outside(theirs.pooled, float(ours.lowest[tame].min()), float(ours.highest[tame].max()))
    values_seen = int(np.isfinite(ours.pooled[tame]).sum())
    if clipped > max(_CLIPPED_SHARE, _CLIPPED_BY_CHANCE / (values_seen + 1)):
        yield Caution(
            code="calibration-range",
            message=f"input '{shown(name)}': {100 * clipped:.1f} % of the evaluation values lie outside of all "
            f"calibration values and would be clipped ({spans})",
            advice="take calibration samples as varied as the evaluation's",
        )
    elif our_high - our_low > _WIDER_FACTOR * (their_high - their_low):
        width = (our_high - our_low) / max(their_high - their_low, sys.float_info.min)
        yield Caution(
            code="calibration-range",
            message=f"input '{shown(name)}': calibration is {width:.3g} times as wide as evaluation ({spans}), "
            "which makes the steps coarser",
            advice="take calibration and evaluation samples from the same source",
        )


def _integer_cautions(name: str, ours: InputProfile, theirs: InputProfile) -> Iterable[Caution]:
    spans = f"calibration spans {ours.low:g} to {ours.high:g}, evaluation {theirs.low:g} to {theirs.high:g}"
    if ours.dtype.itemsize > 1 and min(ours.low, theirs.low) < 0:
        yield Caution(
            code="input-negative-ids",
            message=f"whole-numbered input '{shown(name)}' goes below 0 ({spans}): a negative index into an embedding "
            "table crashes or reads the wrong row",
            advice=f"check the ids in '{shown(name)}'",
        )
    if ours.high - ours.low < (theirs.high - theirs.low) / 2:
        yield Caution(
            code="calibration-range",
            message=f"whole-numbered input '{shown(name)}': calibration covers less than half of evaluation's range "
            f"({spans})",
            advice="take calibration samples as varied as the evaluation's",
        )


def _quantiles(pooled: npt.NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.nanquantile(pooled, _QUANTILES) if np.isfinite(pooled).any() else (0.0, 0.0)
    return float(low), float(high)


def _share_outside(pooled: npt.NDArray[np.float64], low: float, high: float) -> float:
    values = pooled[np.isfinite(pooled)]
    return float(np.mean((values < low) | (values > high))) if values.size else 0.0
