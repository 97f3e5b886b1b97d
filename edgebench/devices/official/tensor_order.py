"""In which order a .tflite file has its inputs and outputs: programs take and give them by their place."""

from __future__ import annotations

import struct
from pathlib import Path

from edgebench.errors import StageError

# What flatbuffers raises where a file's offsets do not add up.
_BROKEN = (struct.error, IndexError, ValueError, TypeError, OverflowError, AttributeError)


def of(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The input and the output names in the order of the graph that runs.

    Names are those of an `Artifact`: the signature's where the file has one signature, else the tensors'.

    Raises:
        StageError: the file can't be read, or its signature leaves out a tensor of its graph.
    """
    from ai_edge_litert import schema_py_generated as schema

    try:
        model = schema.Model.GetRootAs(path.read_bytes(), 0)
        signature = model.SignatureDefs(0) if model.SignatureDefsLength() == 1 else None
        graph = model.Subgraphs(signature.SubgraphIndex() if signature else 0)
        if signature is None:
            named = {index: graph.Tensors(index).Name().decode() for index in range(graph.TensorsLength())}
            return (
                tuple(named[graph.Inputs(place)] for place in range(graph.InputsLength())),
                tuple(named[graph.Outputs(place)] for place in range(graph.OutputsLength())),
            )
        inputs = [signature.Inputs(place) for place in range(signature.InputsLength())]
        outputs = [signature.Outputs(place) for place in range(signature.OutputsLength())]
        named_inputs = {entry.TensorIndex(): entry.Name().decode() for entry in inputs}
        named_outputs = {entry.TensorIndex(): entry.Name().decode() for entry in outputs}
        return (
            tuple(named_inputs[graph.Inputs(place)] for place in range(graph.InputsLength())),
            tuple(named_outputs[graph.Outputs(place)] for place in range(graph.OutputsLength())),
        )
    except KeyError as error:
        raise StageError(f"{path.name}: tensor {error} of its graph is not in its signature") from error
    except (OSError, *_BROKEN) as error:
        raise StageError(f"{path.name} is damaged, so that the order of its tensors is unknown: {error}") from error
