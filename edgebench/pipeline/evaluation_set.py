"""The evaluation samples of a run, with what is needed to judge answers to them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgebench.arrays import Array
from edgebench.data.samples import Samples, open_samples
from edgebench.types import PreparedData, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSet:
    """Samples, labels, and the baseline's own answers by output name; None for a file that came without a baseline."""

    samples: Samples
    sha256: str
    task: Task | None
    classes: int | None
    baseline_outputs: dict[str, Array] | None

    @classmethod
    def of(cls, data: PreparedData, root: Path, baseline_outputs: dict[str, Array] | None) -> EvaluationSet:
        """The prepared evaluation samples; their path is relative to `root`."""
        return cls(
            samples=open_samples(root, data.evaluation),
            sha256=data.evaluation.sha256,
            task=data.task,
            classes=len(data.classes) or None,
            baseline_outputs=baseline_outputs,
        )

    def some(self, n: int) -> EvaluationSet:
        """`n` samples, evenly spread over all because their order may go by class; all where it has no more."""
        if len(self.samples) <= n:
            return self
        chosen = np.linspace(0, len(self.samples) - 1, n).astype(int)
        labels, outputs = self.samples.labels, self.baseline_outputs
        return replace(
            self,
            samples=Samples(
                inputs={name: array[chosen] for name, array in self.samples.inputs.items()},
                labels=None if labels is None else labels[chosen],
                targets={name: array[chosen] for name, array in self.samples.targets.items()},
                names=tuple(self.samples.names[place] for place in chosen),
            ),
            sha256=hashlib.sha256(f"{n} of {self.sha256}".encode()).hexdigest(),
            baseline_outputs=None if outputs is None else {name: array[chosen] for name, array in outputs.items()},
        )

    def one_batch(self, size: int) -> dict[str, Array]:
        """The first samples by input name, repeated where there are fewer than `size`."""
        return {name: np.resize(a[:size], (size, *a.shape[1:])) for name, a in self.samples.inputs.items()}
