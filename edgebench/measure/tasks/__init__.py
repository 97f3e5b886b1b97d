"""Tasks: which metrics, and what a decision is. One module a task; `bind` gives the measure for a model's outputs."""

from __future__ import annotations

from edgebench.measure.tasks import classification, detection, embedding, regression, segmentation
from edgebench.measure.tasks.protocol import Context, TaskMeasure
from edgebench.types import Task


def bind(task: Task, context: Context) -> TaskMeasure:
    """The measure of a task on these outputs and this truth; raises DataError where they don't fit the task."""
    match task:
        case Task.CLASSIFICATION:
            return classification.bind(context)
        case Task.REGRESSION:
            return regression.bind(context)
        case Task.EMBEDDING:
            return embedding.bind(context)
        case Task.DETECTION:
            return detection.bind(context)
        case Task.SEGMENTATION:
            return segmentation.bind(context)
