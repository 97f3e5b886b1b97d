"""edgebench: which file to ship to which device, what it costs in accuracy, and whether the number can be trusted."""

__version__ = "0.1.0"
