"""Baselines: load a model in any form that edgebench takes, snapshot it, run the snapshot, and train a model.

`describe` is cheap and imports no framework; `snapshot`, `baseline_outputs` and `train` run in a child process.
"""

from __future__ import annotations

from edgebench.models.predict import baseline_outputs
from edgebench.models.snapshot import snapshot
from edgebench.models.source import SourceInfo, describe
from edgebench.models.train_loop import train
from edgebench.models.training import Progress, TrainOptions, TrainResult

__all__ = [
    "Progress",
    "SourceInfo",
    "TrainOptions",
    "TrainResult",
    "baseline_outputs",
    "describe",
    "snapshot",
    "train",
]
