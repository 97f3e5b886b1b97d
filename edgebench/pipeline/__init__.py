"""The stages in their order, over a matrix of cells, into records."""

from edgebench.pipeline.given import measure_files
from edgebench.pipeline.progress import Reporter, Silent
from edgebench.pipeline.run import convert_and_measure

__all__ = ["Reporter", "Silent", "convert_and_measure", "measure_files"]
