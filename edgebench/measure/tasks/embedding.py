"""Embeddings: the cosine of each sample's vector with its target's, or with the baseline's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench import stats
from edgebench.arrays import Array
from edgebench.errors import DataError
from edgebench.measure.tasks.protocol import Agreement, Context, Drop, Outputs
from edgebench.types import Caution, Estimate


@dataclass(frozen=True, kw_only=True)
class Embedding:
    """Vectors of the output named `output`, each sample's numbers (all axes after the first) taken as one vector."""

    output: str
    baseline: Array | None
    target: Array | None
    cautions: tuple[Caution, ...] = ()

    def metrics(self, outputs: Outputs) -> dict[str, Estimate]:
        """`cosine`, the mean cosine with the targets; without targets `cosine_to_baseline`. Bootstrap over samples.

        Empty where there is neither.
        """
        found = outputs[self.output]
        if self.target is not None:
            return {"cosine": stats.bootstrap_mean(_cosines(found, self.target))}
        if self.baseline is not None:
            return {"cosine_to_baseline": stats.bootstrap_mean(_cosines(found, self.baseline))}
        return {}

    def drop(self, outputs: Outputs) -> Drop | None:
        """Of the mean cosine with the targets, in hundredths; bootstrap over the samples' differences."""
        if self.target is None or self.baseline is None:
            return None
        lost = _cosines(self.baseline, self.target) - _cosines(outputs[self.output], self.target)
        return Drop(pp=stats.bootstrap_mean(100 * lost))

    def agreement(self, reference: Outputs, outputs: Outputs) -> Agreement | None:
        """None: a vector is no decision."""
        return None


def bind(context: Context) -> Embedding:
    """The embedding of the output that has a target, else of the first output.

    Raises:
        DataError: the target names no output, or has another size than the output.
    """
    outputs, targets = context.baseline_outputs, context.truth.targets
    name, target = next(iter(outputs)), None
    if targets:
        target_name, target = next(iter(targets.items()))
        if target_name in outputs:
            name = target_name
        elif len(outputs) > 1:
            raise DataError(f"target '{target_name}' names no output; the model has: {', '.join(outputs)}")
        if target.shape[0] != outputs[name].shape[0] or target.size != outputs[name].size:
            raise DataError(
                f"target of output '{name}' has shape {list(target.shape)}, the output {list(outputs[name].shape)}"
            )
    return Embedding(output=name, baseline=outputs[name] if context.has_baseline else None, target=target)


def _cosines(a: Array, b: Array) -> NDArray[np.float64]:
    """The cosine of each sample's pair; 0 where one vector is all zeros."""
    left, right = (values.reshape(len(values), -1).astype(np.float64) for values in (a, b))
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    products = np.einsum("nk,nk->n", left, right)
    return np.divide(products, lengths, out=np.zeros(len(left)), where=lengths > 0)
