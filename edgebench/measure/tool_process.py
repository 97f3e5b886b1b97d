"""An official program on a device: what it is there, its inputs put there, and one process of it."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgebench.arrays import Array
from edgebench.devices.official import commands
from edgebench.devices.official.commands import FileInput
from edgebench.errors import StageError
from edgebench.measure.processes import LOGGED_CHARACTERS, logged, refuse_signal
from edgebench.types import Caution, OfficialTool

if TYPE_CHECKING:
    from edgebench.measure.session import Deployment

MOST_SAMPLES = 100  # each is a process and two transfers
_TROUBLE = re.compile(r"\bERROR\b|\bFATAL\b|[Ff]ailed|[Ee]rror:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """An official program ready on a device. `command` starts it, pinned to the CPUs of `affinity` (None: to none).

    `inputs` and `outputs` are the file's names in the order of its graph, for the program that takes and gives tensors
    by their place. `most_samples` is how many answers it is asked for; 0 is a program that gives none.
    """

    program: str
    spec: OfficialTool
    version: str
    command: tuple[str, ...]
    affinity: tuple[int, ...] | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    cautions: tuple[Caution, ...]

    @property
    def most_samples(self) -> int:
        return MOST_SAMPLES if self.program == commands.TFLITE else 0


def run(deployment: Deployment, tool: Tool, arguments: Sequence[str], mode: str, timeout_s: float) -> str:
    """What the program printed, stdout and stderr as one text: where its log goes differs between builds."""
    target = deployment.target
    facts: dict[str, Any] = {"mode": mode, "what": where(deployment), "threads": target.threads}
    facts |= {"device": target.device, "began_s": round(time.time(), 3)}  # seconds since 1970
    with logged(deployment.log, facts):
        finished = deployment.device.run([*tool.command, *arguments], timeout_s)
        log = f"{finished.stdout}\n{finished.stderr}"
        facts |= {"exit_code": finished.exit_code, "printed": log[-LOGGED_CHARACTERS:]}
        refuse_signal(finished, tool.program)
        if finished.exit_code != 0:
            raise StageError(f"the program ended with status {finished.exit_code}: {_last_words(log)}")
        return log


def _last_words(log: str) -> str:
    """The last line that tells of trouble, else the last line; the programs end with "Benchmarking failed." always."""
    lines = [" ".join(line.split()) for line in log.splitlines() if line.strip()]
    trouble = [line for line in lines if _TROUBLE.search(line) and "Benchmarking failed" not in line]
    return (trouble or lines or ["it printed nothing"])[-1][:300]


def push_batch(
    deployment: Deployment, tool: Tool, rows: Mapping[str, Array], batch: int, remote: str, local: Path
) -> list[FileInput]:
    """One batch on the device, a file of raw bytes an input, in the graph's order; too few rows are repeated."""
    if set(rows) != set(tool.inputs):
        raise StageError(f"the file's inputs are {sorted(tool.inputs)}, the samples are for {sorted(rows)}")
    local.mkdir(parents=True, exist_ok=True)
    dtypes = {binding.tensor.name: binding.tensor.dtype for binding in deployment.artifact.inputs}
    inputs = []
    for place, name in enumerate(tool.inputs):
        if rows[name].dtype != np.dtype(dtypes[name]):  # bytes tell no type
            raise StageError(f"input '{name}' of the file is {dtypes[name]}, the samples are {rows[name].dtype}")
        array = np.resize(rows[name], (batch, *rows[name].shape[1:]))
        path = local / f"in{place}.bin"
        path.write_bytes(array.tobytes())
        deployment.device.push(path, f"{remote}/{path.name}")
        inputs.append(FileInput(remote=f"{remote}/{path.name}", shape=array.shape))
    return inputs


def new_job() -> str:
    return f"job-{uuid.uuid4().hex[:12]}"


def where(deployment: Deployment) -> str:
    target = deployment.target
    file = Path(deployment.artifact.files[0]).name
    return f"{file} with {target.runtime}:{target.delegate} on device '{target.device}'"
