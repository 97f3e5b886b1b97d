"""Look at evaluation samples before anything is converted: what no metric survives is refused, other doubts told."""

from __future__ import annotations

import numpy as np

from edgebench.data.samples import Samples
from edgebench.data.wording import shown
from edgebench.errors import DataError
from edgebench.types import Caution


def refuse_not_finite(source: str, samples: Samples) -> None:
    """Raise DataError where an evaluation input, label or target is NaN or Inf: no output or metric could be judged."""
    arrays = {**samples.inputs, **{f"target:{name}": values for name, values in samples.targets.items()}}
    if samples.labels is not None:
        arrays["labels"] = samples.labels
    for name, values in arrays.items():
        if not np.issubdtype(values.dtype, np.floating):
            continue
        bad = [index for index, value in enumerate(values) if not np.isfinite(value).all()]
        if bad:
            raise DataError(
                f"{shown(source)}: '{shown(name)}' has NaN or Inf in {len(bad)} of {len(values)} samples, first in "
                f"{shown(samples.names[bad[0]])}; mend or remove them (what is too large for {values.dtype} is Inf)"
            )


def embedding_cautions(samples: Samples) -> tuple[Caution, ...]:
    """Doubts about an embedding's targets: a vector of zeros has no direction, equal vectors tell nothing apart."""
    cautions = []
    for name, values in samples.targets.items():
        zero = [index for index, value in enumerate(values) if not np.any(value)]
        if zero:
            message = (
                f"'target:{shown(name)}' is all zeros in {len(zero)} of {len(values)} evaluation samples (first in "
                f"sample {shown(samples.names[zero[0]])}): their cosine is undefined and counts as 0"
            )
            advice = "remove the samples whose target is all zeros"
            cautions.append(Caution(code="embedding-zero-target", message=message, advice=advice))
        elif len(values) > 1 and all(np.array_equal(value, values[0]) for value in values):
            message = (
                f"'target:{shown(name)}' is the same vector in all {len(values)} evaluation samples: a model that "
                "ignores its input reaches the same cosine"
            )
            advice = "check where the targets come from"
            cautions.append(Caution(code="embedding-constant-target", message=message, advice=advice))
    return tuple(cautions)
