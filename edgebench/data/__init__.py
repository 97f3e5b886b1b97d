"""Data sets: read every form of DATA, fit it to a model, write calibration and evaluation samples, and audit them."""

from __future__ import annotations

from edgebench.data.audit import BLOCKING_CODES, audit
from edgebench.data.peek import peek
from edgebench.data.prepare import DataRequest, prepare
from edgebench.data.samples import Samples, open_samples
from edgebench.data.sources import check_source
from edgebench.data.training import TrainingData, load_training

__all__ = [
    "BLOCKING_CODES",
    "DataRequest",
    "Samples",
    "TrainingData",
    "audit",
    "check_source",
    "load_training",
    "open_samples",
    "peek",
    "prepare",
]
