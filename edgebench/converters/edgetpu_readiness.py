"""Whether a .tflite file is ready for the Edge TPU, op by op, predicted from the flatbuffer alone.

Ready means full int8 or uint8, constants inside the flatbuffer, fixed shapes, and supported operators at versions that
edgetpu_compiler reads (`edgetpu_ops` has the sources). The compiler makes one part for the Edge TPU: "the first point
in the model graph where an unsupported operation occurs" ends it, and everything after runs on the CPU
(coral.ai/docs/edgetpu/models-intro).
Only edgetpu_compiler itself knows for sure; sizes, for example, may keep an operator off that is supported otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgebench.converters import inspect_tflite
from edgebench.converters.edgetpu_ops import COMPILED_OP, Finding, OperatorView, finding
from edgebench.converters.tflite_details import TfliteDetails
from edgebench.types import Precision

ON_CHIP_BYTES = 8_000_000  # about: it is shared with the program, and edgetpu_compiler tells what is left for weights


@dataclass(frozen=True, slots=True, kw_only=True)
class OpReadiness:
    """An operator in the order of execution. `reason` is its own defect; None on what is only behind another's.

    `is_on_tpu` is the prediction: no defect, and none that ended the Edge TPU's part came before.
    """

    index: int
    name: str
    version: int
    is_on_tpu: bool
    reason: str | None = None
    remedy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """`blocker` is why nothing at all can be mapped, None where something can.

    `first_cpu_op` is where the Edge TPU's part ends: the first operator that runs on the CPU, a QUANTIZE of float
    inputs aside, which comes before that part. `weight_bytes` are the file's weights, of which about `ON_CHIP_BYTES`
    stay on the chip.
    """

    is_ready: bool
    blocker: str | None
    mapped: int
    total: int
    first_cpu_op: OpReadiness | None
    ops: tuple[OpReadiness, ...]
    weight_bytes: int
    on_chip_bytes: int
    notes: tuple[str, ...]


def read(path: Path) -> Readiness:
    """The readiness of a .tflite file.

    Raises:
        ModelError: the file is absent, damaged or no .tflite file.
    """
    facts = inspect_tflite.read(path)
    details = TfliteDetails.load(path)
    file = details.file
    graph = file.main
    place = next(place for place, subgraph in enumerate(file.subgraphs) if subgraph is graph)
    found = [
        finding(OperatorView(operator, graph, details.options(place, index), details))
        for index, operator in enumerate(graph.operators)
    ]
    blocker = _blocker(facts.census.precision, details, found)
    ops: list[OpReadiness] = []
    has_ended = blocker is not None
    first_cpu_op = None
    for index, (operator, defect) in enumerate(zip(graph.operators, found, strict=True)):
        is_before = operator.name == "QUANTIZE" and set(operator.inputs) <= set(graph.inputs)
        is_on_tpu = defect is None and not has_ended
        ops.append(
            OpReadiness(
                index=index,
                name=operator.name,
                version=operator.version,
                is_on_tpu=is_on_tpu,
                reason=defect.reason if defect else None,
                remedy=defect.remedy if defect else None,
            )
        )
        if not is_on_tpu and not is_before:
            first_cpu_op = first_cpu_op or ops[-1]
            has_ended = True
    weight_bytes = sum(facts.census.weight_bytes.values())
    mapped = sum(op.is_on_tpu for op in ops)
    return Readiness(
        is_ready=mapped == len(ops) > 0,
        blocker=blocker,
        mapped=mapped,
        total=len(ops),
        first_cpu_op=first_cpu_op,
        ops=tuple(ops),
        weight_bytes=weight_bytes,
        on_chip_bytes=ON_CHIP_BYTES,
        notes=() if blocker else tuple(_notes(details, ops, weight_bytes)),
    )


def _blocker(precision: Precision, details: TfliteDetails, found: list[Finding | None]) -> str | None:
    """What keeps the whole file off."""
    graph = details.file.main
    if any(operator.name == COMPILED_OP for operator in graph.operators):
        return None
    if precision not in (Precision.FULL_INT8, Precision.MIXED):
        return f"the file is {precision}; the Edge TPU computes in full int8 or uint8: take tflite-int8-edgetpu"
    if details.has_constants_behind():
        return (
            "its constants lie behind the flatbuffer, where edgetpu_compiler, which is older than that, does not find "
            "them: take the recipe tflite-int8-edgetpu"
        )
    refused = next((index for index, defect in enumerate(found) if defect and defect.is_refused), None)
    if refused is not None and (defect := found[refused]):
        return f"{graph.operators[refused].name} (op {refused}): {defect.reason}; {defect.remedy}"
    if any(None in graph.tensors[index].shape for index in graph.inputs):
        return "the batch is open, so that edgetpu_compiler maps nothing: convert with --batch 1"
    return None


def _notes(details: TfliteDetails, ops: list[OpReadiness], weight_bytes: int) -> list[str]:
    file = details.file
    notes = []
    if any(op.name == COMPILED_OP for op in ops):
        notes.append(f"it is compiled already: each {COMPILED_OP} stands for many operators")
    if len(file.subgraphs) > 1:
        notes.append(f"it has {len(file.subgraphs)} subgraphs; only the one that runs first is looked at")
    if any(tensor.dtype == "float32" for tensor in (*file.inputs().values(), *file.outputs().values())):
        notes.append("float inputs or outputs: QUANTIZE and DEQUANTIZE run on the CPU; take int8 ones (io_dtype: int8)")
    if weight_bytes > ON_CHIP_BYTES:
        streamed = (weight_bytes - ON_CHIP_BYTES) / 1e6
        notes.append(f"the weights do not fit on the chip: about {streamed:.1f} MB or more are sent for each inference")
    behind = sum(op.reason is None and not op.is_on_tpu for op in ops)
    if behind:
        notes.append(f"{behind} operators without a defect run on the CPU because one with a defect comes before them")
    return notes
