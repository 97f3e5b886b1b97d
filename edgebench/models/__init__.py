"""Baselines: load a model in any form that edgebench takes, snapshot it, and run the snapshot.

`describe` is cheap and imports no framework; `snapshot` and `baseline_outputs` run in a child process.
"""

from __future__ import annotations

from edgebench.models.predict import baseline_outputs
from edgebench.models.snapshot import snapshot
from edgebench.models.source import SourceInfo, describe

__all__ = ["SourceInfo", "baseline_outputs", "describe", "snapshot"]
