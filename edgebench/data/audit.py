"""Audit calibration data before it is used: a bad calibration set ruins an int8 file without any error.

Every finding is a caution with a stable code, the numbers that were seen, the likely cause and what to do. Codes in
`BLOCKING_CODES` mean that no useful range can come of the data: recipes that calibrate should be refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from edgebench.data.profile import InputProfile, hashes, profile
from edgebench.data.range_checks import range_cautions
from edgebench.data.samples import Samples
from edgebench.data.wording import shown, shown_shape
from edgebench.types import Caution

FEW_SAMPLES = 32
BLOCKING_CODES = frozenset(
    {
        "calibration-nan",
        "calibration-zero",
        "calibration-constant",
        "calibration-inputs",
        "calibration-dtype",
        "calibration-shape",
    }
)
# A class with ten times the samples of another dominates the ranges of its own features.
_IMBALANCE = 10


def audit(calibration: Samples, evaluation: Samples) -> tuple[Caution, ...]:
    """Every doubt about the calibration set, judged by itself and against the evaluation set, which must be finite.

    Reads every sample of both sets once, holding one in memory.
    """
    if calibration.inputs.keys() != evaluation.inputs.keys():
        message = f"calibration has the inputs {sorted(calibration.inputs)}, evaluation {sorted(evaluation.inputs)}"
        advice = "prepare calibration and evaluation for the same model"
        return (Caution(code="calibration-inputs", message=message, advice=advice),)
    cautions = [*_count(calibration)]
    ours, theirs = profile(calibration), profile(evaluation)
    for name in ours:
        cautions += _type_cautions(name, ours[name], theirs[name])
        cautions += _not_finite(name, ours[name], calibration)
        cautions += _constants(name, ours[name], theirs[name], calibration, is_only_input=len(ours) == 1)
        cautions += range_cautions(name, ours[name], theirs[name], calibration.names)
    cautions += _repeats(calibration, evaluation)
    cautions += _classes(calibration, evaluation)
    return tuple(cautions)


def which(indices: Sequence[int] | npt.NDArray[np.int64], names: tuple[str, ...], limit: int = 3) -> str:
    """The first samples by index and name, as "0 (a.png), 7 (b.png) and 3 more"."""
    first = ", ".join(f"{index} ({shown(names[index])})" for index in indices[:limit])
    rest = len(indices) - limit
    return first + (f" and {rest} more" if rest > 0 else "")


def _count(calibration: Samples) -> Iterable[Caution]:
    if len(calibration) < FEW_SAMPLES:
        yield Caution(
            code="calibration-few",
            message=f"{len(calibration)} calibration samples: below {FEW_SAMPLES} the ranges depend on which samples "
            "they are",
            advice="give more data or ask for more calibration samples",
        )


def _type_cautions(name: str, ours: InputProfile, theirs: InputProfile) -> Iterable[Caution]:
    if ours.dtype != theirs.dtype:
        yield Caution(
            code="calibration-dtype",
            message=f"input '{shown(name)}': calibration is {ours.dtype}, evaluation {theirs.dtype}",
            advice="use one type for calibration and evaluation",
        )
    if ours.shape != theirs.shape:
        yield Caution(
            code="calibration-shape",
            message=f"input '{shown(name)}': a calibration sample is {shown_shape(ours.shape)}, an evaluation sample "
            f"{shown_shape(theirs.shape)}",
            advice="use one shape for calibration and evaluation",
        )


def _not_finite(name: str, ours: InputProfile, calibration: Samples) -> Iterable[Caution]:
    bad = np.flatnonzero(ours.not_finite)
    if len(bad):
        yield Caution(
            code="calibration-nan",
            message=f"input '{shown(name)}': {int(ours.not_finite.sum())} values in {len(bad)} of {len(calibration)} "
            "calibration samples are NaN or Inf and spoil the ranges",
            advice=f"repair or remove calibration samples {which(bad, calibration.names)}",
        )


def _constants(
    name: str, ours: InputProfile, theirs: InputProfile, calibration: Samples, *, is_only_input: bool
) -> Iterable[Caution]:
    where = f"input '{shown(name)}'"
    if ours.low == ours.high:
        if theirs.low == theirs.high == ours.low and not is_only_input:
            yield Caution(
                code="input-constant",
                message=f"{where} is {ours.low:g} everywhere, in calibration and evaluation",
                advice=f"unless {where} is a flag or a mask, check where its data comes from",
            )
        elif ours.low == 0:
            yield Caution(
                code="calibration-zero",
                message=f"{where} is 0 in all {len(calibration)} calibration samples, evaluation spans "
                f"{theirs.low:g} to {theirs.high:g}: the data was probably never loaded",
                advice="give real calibration samples",
            )
        else:
            yield Caution(
                code="calibration-constant",
                message=f"{where} is {ours.low:g} in all {len(calibration)} calibration samples, evaluation spans "
                f"{theirs.low:g} to {theirs.high:g}",
                advice="give real calibration samples",
            )
        return
    blank = np.flatnonzero((ours.lowest == ours.highest) & (ours.not_finite == 0))
    if len(blank) and int(np.prod(ours.shape)) > 1:
        yield Caution(
            code="calibration-constant-samples",
            message=f"{where}: {len(blank)} of {len(calibration)} calibration samples hold one single value "
            "(a blank image, a failed read)",
            advice=f"look at calibration samples {which(blank, calibration.names)}",
        )
    channels = _constant_channels(ours, theirs)
    if len(channels):
        yield Caution(
            code="calibration-constant-channel",
            message=f"{where}: {len(channels)} channels or features (index {', '.join(map(str, channels[:5]))}"
            f"{' ...' if len(channels) > 5 else ''}) never change in calibration, but do in evaluation",
            advice="take calibration samples from the same source as the evaluation's",
        )


def _constant_channels(ours: InputProfile, theirs: InputProfile) -> npt.NDArray[np.int64]:
    if (
        ours.channels_lowest is None
        or ours.channels_highest is None
        or theirs.channels_lowest is None
        or theirs.channels_highest is None
        or ours.shape != theirs.shape
    ):
        return np.zeros(0, dtype=np.int64)
    still = ours.channels_lowest == ours.channels_highest
    return np.flatnonzero(still & (theirs.channels_lowest < theirs.channels_highest))


def _repeats(calibration: Samples, evaluation: Samples) -> Iterable[Caution]:
    ours, theirs = hashes(calibration), hashes(evaluation)
    seen = set(theirs)
    shared = [index for index, digest in enumerate(ours) if digest in seen]
    if shared:
        yield Caution(
            code="calibration-overlap",
            message=f"{len(shared)} of {len(ours)} calibration samples are also evaluation samples, which flatters the "
            "accuracy",
            advice=f"use other samples for one of the two; calibration samples {which(shared, calibration.names)}",
        )
    for purpose, digests, names, harm in (
        ("calibration", ours, calibration.names, "so it is smaller than it looks"),
        ("evaluation", theirs, evaluation.names, "so intervals are too narrow"),
    ):
        again = _later_copies(digests)
        if again:
            yield Caution(
                code=f"{purpose}-duplicates",
                message=f"{len(again)} of {len(digests)} {purpose} samples repeat an earlier one, {harm}",
                advice=f"remove copies; {purpose} samples {which(again, names)}",
            )


def _later_copies(digests: Sequence[bytes]) -> list[int]:
    seen: set[bytes] = set()
    copies = []
    for index, digest in enumerate(digests):
        if digest in seen:
            copies.append(index)
        seen.add(digest)
    return copies


def _classes(calibration: Samples, evaluation: Samples) -> Iterable[Caution]:
    if calibration.labels is None or evaluation.labels is None:
        return
    if calibration.labels.ndim != 1 or evaluation.labels.ndim != 1:
        return
    counts = Counter(calibration.labels.tolist())
    every = set(evaluation.labels.tolist())
    missing = sorted(every - counts.keys())
    if missing:
        yield Caution(
            code="calibration-missing-classes",
            message=f"{len(missing)} of {len(every)} classes of the evaluation data have no calibration sample "
            f"(classes {', '.join(map(str, missing[:5]))}{' ...' if len(missing) > 5 else ''})",
            advice="take more calibration samples",
        )
    (most, highest), (least, lowest) = counts.most_common()[0], counts.most_common()[-1]
    if highest >= _IMBALANCE * lowest and highest >= FEW_SAMPLES // 2:
        yield Caution(
            code="calibration-imbalance",
            message=f"class {most} has {highest} calibration samples, class {least} has {lowest}",
            advice="draw the classes of the calibration samples more evenly",
        )
