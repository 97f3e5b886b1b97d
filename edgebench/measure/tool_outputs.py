"""What an official program answers: a process a batch, raw bytes in and out."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgebench.arrays import Array
from edgebench.devices.official import commands, delegation
from edgebench.errors import ChildTimeoutError, StageError
from edgebench.measure.feed_files import FeedFile
from edgebench.measure.tool_process import Tool, new_job, push_batch, run, where
from edgebench.types import Artifact

if TYPE_CHECKING:
    from edgebench.measure.session import Deployment


def run_outputs(deployment: Deployment, tool: Tool, feed: Mapping[str, FeedFile], timeout_s: float) -> dict[str, Array]:
    """The file's raw outputs by name, a process a batch, as `session.run_outputs` describes them.

    Raises:
        StageError: the program gives no outputs, failed, ran on the CPU where a delegate was asked for, or wrote other
            bytes than the outputs' shapes and types say.
        ChildTimeoutError, ChildDiedError: all of it took longer than `timeout_s`, or a signal ended a process.
    """
    if tool.most_samples == 0:
        raise StageError(f"{where(deployment)}: the program gives no outputs")
    deadline = time.monotonic() + timeout_s
    batch = deployment.artifact.batch or 1
    samples = {name: np.load(file.path, mmap_mode="r", allow_pickle=False) for name, file in feed.items()}
    n = min(len(array) for array in samples.values())
    flags = commands.delegate_flags(tool.program, tool.spec, deployment.target.delegate)
    remote = new_job()
    parts: dict[str, list[Array]] = {name: [] for name in tool.outputs}
    try:
        with tempfile.TemporaryDirectory(prefix="edgebench-answers-") as folder:
            for start in range(0, n, batch):
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise ChildTimeoutError(f"{start} of {n} samples were answered within the limit of {timeout_s:g} s")
                rows = {name: array[start : start + batch] for name, array in samples.items()}
                inputs = push_batch(deployment, tool, rows, batch, f"{remote}/{start}", Path(folder) / str(start))
                output = f"{remote}/{start}/out.bin"
                arguments = commands.answering(deployment.model, deployment.target.threads, flags, inputs, output)
                log = run(deployment, tool, arguments, "outputs", left_s)
                delegation.read(log, deployment.target.delegate)
                local = Path(folder) / str(start) / "out.bin"
                deployment.device.pull(output, local)
                for name, array in _split(local.read_bytes(), deployment.artifact, tool.outputs, batch).items():
                    parts[name].append(array[: n - start])
    except StageError as error:
        raise type(error)(f"{where(deployment)}: {error}") from error
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def _split(data: bytes, artifact: Artifact, names: Sequence[str], batch: int) -> dict[str, Array]:
    """The outputs in the bytes of a file that has them one after the other, in the types that the artifact says."""
    specs = {binding.tensor.name: binding.tensor for binding in artifact.outputs}
    if set(specs) != set(names):
        raise StageError(f"the file's outputs are {sorted(names)}, the artifact's {sorted(specs)}")
    arrays: dict[str, Array] = {}
    start = 0
    for name in names:
        spec = specs[name]
        if not spec.shape or spec.shape[0] not in (None, batch) or None in spec.shape[1:]:
            raise StageError(
                f"output '{name}' has the shape {list(spec.shape)}: raw bytes of a batch of {batch} do not tell how to "
                "read it; use --runtime litert for its accuracy"
            )
        shape = (batch, *(size for size in spec.shape[1:] if size is not None))
        dtype = np.dtype(spec.dtype)
        count = int(np.prod(shape))
        end = start + count * dtype.itemsize
        if end <= len(data):
            arrays[name] = np.frombuffer(data, dtype, count, start).reshape(shape).copy()
        start = end
    if start != len(data):
        raise StageError(f"the program wrote {len(data)} bytes of outputs, where the file's shapes need {start}")
    return arrays
