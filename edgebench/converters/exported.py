"""What a float route gives: a float file and which of its tensors stands for which of the baseline's."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from edgebench.types import Binding, Caution


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A float .tflite or .onnx file. `path` is absolute; an external-data file lies beside it.

    `route` names the tools in order ("litert-torch"), `tool_versions` their versions.
    """

    path: Path
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    route: str
    tool_versions: dict[str, str]
    cautions: tuple[Caution, ...] = field(default=())
