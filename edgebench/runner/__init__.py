"""What travels to a device: `runner.py`, one file that runs a model there and never imports edgebench."""

from __future__ import annotations

from pathlib import Path

RUNNER = Path(__file__).with_name("runner.py")
