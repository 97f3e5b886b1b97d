"""Regression: mean absolute error, root mean square error and R² against targets."""

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
class Regression:
    """Errors of the outputs that have targets of the same shape (n, ...), in the targets' unit."""

    targets: dict[str, NDArray[np.float64]]
    cautions: tuple[Caution, ...] = ()

    def metrics(self, outputs: Outputs) -> dict[str, Estimate]:
        """`mae`, `rmse` and `r2` with bootstrap intervals over samples; with several targets `mae/OUTPUT` and so on.

        R² = 1 - sum of squared errors / sum of squared distances from the column's mean, over all columns together
        (scikit-learn's r2_score with multioutput="variance_weighted"); left out where the targets are constant.
        """
        metrics = {}
        for name, target in self.targets.items():
            suffix = f"/{name}" if len(self.targets) > 1 else ""
            found = outputs[name].reshape(len(target), -1).astype(np.float64)
            for metric, estimate in _errors(target, found).items():
                metrics[metric + suffix] = estimate
        return metrics

    def drop(self, outputs: Outputs) -> Drop | None:
        """None: an error in the targets' unit has no percentage points."""
        return None

    def agreement(self, reference: Outputs, outputs: Outputs) -> Agreement | None:
        """None: a number is no decision."""
        return None


def bind(context: Context) -> Regression:
    """The regression of each output that has a target by its name; one target fits a model's only output by any name.

    Without targets, labels are the only output's targets, where it is one number a sample.

    Raises:
        DataError: a target names no output, or its shape is not the output's.
    """
    outputs, truth = context.baseline_outputs, context.truth
    targets = dict(truth.targets)
    if not targets and truth.labels is not None:
        targets = {"labels": truth.labels}
    if len(targets) == 1 and len(outputs) == 1:
        targets = {next(iter(outputs)): next(iter(targets.values()))}
    unknown = sorted(set(targets) - set(outputs))
    if unknown:
        raise DataError(f"target '{unknown[0]}' names no output; the model has: {', '.join(outputs)}")
    return Regression(targets={name: _like(outputs[name], target, name) for name, target in targets.items()})


def _like(output: Array, target: Array, name: str) -> NDArray[np.float64]:
    if target.shape[0] != output.shape[0] or target.size != output.size:
        raise DataError(f"target of output '{name}' has shape {list(target.shape)}, the output {list(output.shape)}")
    return target.reshape(len(output), -1).astype(np.float64)


def _errors(target: NDArray[np.float64], found: NDArray[np.float64]) -> dict[str, Estimate]:
    absolute = np.abs(found - target).mean(axis=1)
    squared = ((found - target) ** 2).mean(axis=1)

    def r2(index: NDArray[np.intp]) -> float:
        drawn = target[index]
        total = float(((drawn - drawn.mean(axis=0)) ** 2).mean())
        return 1 - float(squared[index].mean()) / total if total > 0 else float("nan")

    n = len(target)
    (rmse,) = stats.bootstrap(lambda index: np.sqrt(squared[index].mean()), n)
    (r2_estimate,) = stats.bootstrap(r2, n)
    metrics = {"mae": stats.bootstrap_mean(absolute), "rmse": rmse}
    if not np.isnan(r2_estimate.value):
        metrics["r2"] = r2_estimate
    return metrics
