"""A .tflite file with its constants inside the flatbuffer, where every TFLite finds them.

ai-edge-quantizer puts those of larger models behind it, which runtimes from before 2023 do not know: tflite-runtime 2.8
says "Input tensor 80 lacks data". edgetpu_compiler 16 is older still.
"""

from __future__ import annotations


def with_constants_inside(model: bytes) -> bytes:
    """The same model; `model` is whole, as a quantizer returned it, and below the 2 GB of a flatbuffer."""
    import flatbuffers
    import numpy as np
    from ai_edge_litert import schema_py_generated as schema

    unpacked = schema.ModelT.InitFromPackedBuf(model, 0)
    for buffer in unpacked.buffers:
        if buffer.offset > 1:
            buffer.data = np.frombuffer(model, np.uint8, buffer.size, buffer.offset)
            buffer.offset = buffer.size = 0
    builder = flatbuffers.Builder(len(model))
    builder.Finish(unpacked.Pack(builder), b"TFL3")
    return bytes(builder.Output())
