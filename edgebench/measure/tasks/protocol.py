"""What a task must answer, so that accuracy is evaluated alike for all.

A new task is one module beside this one, and its line in `tasks.bind`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from edgebench.arrays import Array
from edgebench.types import Caution, Estimate, Layout

Outputs = Mapping[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is right: integer `labels`, shape (n,), and `targets` by name, samples on axis 0. Either may be absent."""

    labels: Array | None = None
    targets: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a task chooses its outputs by. `classes` is their count where known, `layouts` the baseline's by output.

    Without a baseline (`has_baseline` False), `baseline_outputs` are the file's own: compare nothing with them.
    """

    baseline_outputs: Outputs
    truth: Truth
    classes: int | None = None
    layouts: Mapping[str, Layout | None] = field(default_factory=dict)
    has_baseline: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """How much of the headline metric is lost, in percentage points, and a paired test's p-value where there is one."""

    pp: Estimate
    p_value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The fraction of equal decisions, over all samples, and over those where the reference has no near-tie."""

    everywhere: Estimate
    clear: Estimate | None


class TaskMeasure(Protocol):
    """A task bound to the outputs of one model. Outputs are the baseline's by name, float32, samples on axis 0."""

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """Doubts about how the outputs were read."""

    def metrics(self, outputs: Outputs) -> dict[str, Estimate]:
        """Metrics against the truth, the headline first; without truth empty, or what the baseline can stand for."""

    def drop(self, outputs: Outputs) -> Drop | None:
        """Baseline minus `outputs` of the headline; None where it is no fraction, or there is no truth."""

    def agreement(self, reference: Outputs, outputs: Outputs) -> Agreement | None:
        """How often both decide alike; None for a task without decisions."""
