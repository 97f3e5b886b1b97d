"""What a quantizing route gives beside the file that it wrote."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgebench.types import Caution


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantized:
    """How a quantized file came to be. `route` names the tool ("ai-edge-quantizer"), `tool_versions` its versions.

    Names, axis order and types of the file's tensors are read back from the file itself, by `inspection.read`.
    """

    route: str
    tool_versions: dict[str, str]
    cautions: tuple[Caution, ...] = field(default=())
