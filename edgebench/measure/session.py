"""Run an artifact on a device: put it there once, then measure rounds or fetch outputs, each in a fresh process."""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from edgebench.arrays import Array
from edgebench.devices import runners
from edgebench.devices.protocol import CommandResult, Device
from edgebench.devices.runners import Runner
from edgebench.errors import InputError, RefusedError, StageError
from edgebench.measure import tool_outputs, tool_session
from edgebench.measure.feed_files import FeedFile
from edgebench.measure.processes import LOGGED_CHARACTERS, logged, refuse_signal
from edgebench.measure.tool_process import Tool
from edgebench.types import Artifact, Caution, Plan, Round, Target

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """An artifact on a device. `model` is a remote path, `cpus` what the process is pinned to.

    `log` gets one line of JSON for each process that ran; `cautions` belong to every measurement made here. `tool` is
    the official program that runs it, None where a runner of ours does.
    """

    device: Device
    artifact: Artifact
    target: Target
    runner: Runner
    model: str
    cpus: tuple[int, ...]
    log: Path
    cautions: tuple[Caution, ...] = ()
    tool: Tool | None = None

    @property
    def most_samples(self) -> int | None:
        """How many samples can be answered there; None is any number, 0 none."""
        return self.tool.most_samples if self.tool else None


def deploy(device: Device, artifact: Artifact, run_folder: Path, target: Target) -> Deployment:
    """The artifact's files and the runner on the device, and the CPUs chosen: as many of the fastest as threads.

    Raises:
        InputError: a file is gone from the run folder, or threads is below 1.
        MissingError: the device has no runner for the runtime.
        StageError: a file did not arrive whole.
        RefusedError: the file was compiled for an accelerator that the target is not, or was not and should be.
    """
    if target.threads < 1:
        raise InputError(f"threads {target.threads}: at least 1 is needed")
    artifact, cautions = _fitting(artifact, target)
    runner = runners.choose(device, target.runtime)
    folder = PurePosixPath(f"model-{artifact.sha256[:16]}")
    home = PurePosixPath(artifact.files[0]).parent  # external data lies where the model file says, relative to it
    for file in artifact.files:
        local = run_folder / file
        if not local.is_file():
            raise InputError(f"{local} is gone; the run folder has changed since it was written: convert again")
        device.push(local, str(folder / PurePosixPath(file).relative_to(home)))
    for remote, local in runner.files.items():
        device.push(local, remote)
    available = device.cpus()
    cpus = available[: target.threads]
    model = run_folder / artifact.files[0]
    tool = tool_session.prepare(device, runner, model, target, cpus) if runner.is_official else None
    return Deployment(
        device=device,
        artifact=artifact,
        target=target,
        runner=runner,
        model=str(folder / PurePosixPath(artifact.files[0]).name),
        cpus=cpus,
        log=run_folder / "logs" / "runners.jsonl",
        cautions=cautions + _thread_cautions(target, len(available)) + (tool.cautions if tool else ()),
        tool=tool,
    )


def measure_round(deployment: Deployment, plan: Plan, index: int, feed: Mapping[str, FeedFile]) -> Round:
    """One round: the latencies of a fresh process that runs one batch over and over.

    `feed`: one batch by the file's input names. The batch is the file's; a file with an open batch runs all of `feed`
    as one. Fewer samples than the batch are repeated up to it.

    Raises:
        StageError: the runner failed; says so in its words.
        ChildTimeoutError, ChildDiedError: it ran longer than `plan.timeout_s`, or a signal ended it.
    """
    if deployment.tool is not None:
        return tool_session.measure_round(deployment, deployment.tool, plan, index, feed)
    batch = deployment.artifact.batch or _count(feed)
    job = {
        "mode": "latency",
        "batch": batch,
        "min_runs": plan.min_runs,
        "min_ns": round(plan.min_seconds * _NS),
        "max_runs": plan.max_runs,
        "max_ns": round(plan.max_seconds * _NS),
        "warmup_min_runs": plan.warmup_min_runs,
        "warmup_max_ns": round(plan.warmup_max_seconds * _NS),
    }
    before = deployment.device.conditions()
    result, _ = _run(deployment, job, feed, plan.timeout_s)
    after = deployment.device.conditions()
    try:
        return Round(
            index=index,
            latencies_ns=tuple(result["latencies_ns"]),
            warmup_ns=tuple(result["warmup_ns"]),
            load_ns=result["load_ns"],
            first_ns=result["first_ns"],
            peak_rss_bytes=result["peak_rss_bytes"],
            runtime_version=result["runtime_version"],
            delegate=result["delegate"],
            delegated_fraction=result["delegated_fraction"],
            affinity=None if result["affinity"] is None else tuple(result["affinity"]),
            before=before,
            after=after,
            is_steady=result["is_steady"],
            non_finite=result["non_finite"],
            cpu_time_ns=result["cpu_time_ns"],
            involuntary_switches=result["involuntary_switches"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StageError(f"{_where(deployment)}: the runner's result can't be used: {error!r}") from error


def run_outputs(deployment: Deployment, feed: Mapping[str, FeedFile], timeout_s: float) -> dict[str, Array]:
    """What the file gives for every sample: raw arrays by the file's output names, shape (n, ...), the file's dtype.

    `feed`: all samples by the file's input names. A file with an open batch runs one sample at a time. Values that are
    not finite come back as they are.

    Raises:
        StageError, ChildTimeoutError, ChildDiedError: as `measure_round` does.
    """
    if deployment.tool is not None:
        return tool_outputs.run_outputs(deployment, deployment.tool, feed, timeout_s)
    job = {"mode": "outputs", "batch": deployment.artifact.batch or 1}
    names = [binding.tensor.name for binding in deployment.artifact.outputs]
    _, outputs = _run(deployment, job, feed, timeout_s, outputs=names)
    return outputs


def _run(
    deployment: Deployment,
    job: dict[str, Any],
    feed: Mapping[str, FeedFile],
    timeout_s: float,
    outputs: Sequence[str] = (),
) -> tuple[dict[str, Any], dict[str, Array]]:
    """The runner's result and the output arrays; a folder of its own on the device keeps jobs apart."""
    device, target = deployment.device, deployment.target
    remote = f"job-{uuid.uuid4().hex[:12]}"
    # Tensor names may hold any character, so files are numbered, and inputs go by their hash.
    remote_inputs = {name: f"inputs/{file.sha256[:24]}.npy" for name, file in feed.items()}
    remote_outputs = {name: f"{remote}/output-{place}.npy" for place, name in enumerate(outputs)}
    job |= {
        "runtime": target.runtime,
        "delegate": target.delegate,
        "delegate_options": {"device": device.spec.address} if target.delegate == "edgetpu" else {},
        "model": deployment.model,
        "threads": target.threads,
        "cpus": list(deployment.cpus),
        # A thread that spins while it waits keeps the others of a shared CPU from working.
        "spinning": target.threads <= len(deployment.cpus),
        "inputs": remote_inputs,
        "outputs": remote_outputs,
    }
    with tempfile.TemporaryDirectory(prefix="edgebench-job-") as temporary:
        local = Path(temporary)
        for name, remote_path in remote_inputs.items():
            device.push(feed[name].path, remote_path)
        (local / "job.json").write_text(json.dumps(job), encoding="utf-8")
        device.push(local / "job.json", f"{remote}/job.json")
        result = _process(deployment, str(job["mode"]), remote, local / "result.json", timeout_s)
        if result["input_sha256"] != {name: file.sha256 for name, file in feed.items()}:
            raise StageError(f"{_where(deployment)}: the runner read other inputs than were sent; measure again")
        arrays = {}
        for name, remote_path in remote_outputs.items():
            path = local / PurePosixPath(remote_path).name
            device.pull(remote_path, path)
            arrays[name] = np.load(path, allow_pickle=False)
    return result, arrays


def _process(deployment: Deployment, mode: str, remote: str, local: Path, timeout_s: float) -> dict[str, Any]:
    """Start the runner, wait for its result, and log what became of it."""
    argv = [*deployment.runner.command, f"{remote}/job.json", f"{remote}/result.json"]
    target = deployment.target
    facts: dict[str, Any] = {"mode": mode, "what": _where(deployment), "threads": target.threads}
    facts |= {"device": target.device, "began_s": round(time.time(), 3)}  # seconds since 1970
    with logged(deployment.log, facts):
        finished = deployment.device.run(argv, timeout_s)
        facts |= {"exit_code": finished.exit_code, "stderr": finished.stderr[-LOGGED_CHARACTERS:]}
        result = _result(deployment, finished, f"{remote}/result.json", local)
        facts["loop_ns"] = result["loop_ns"]
        return result


def _result(deployment: Deployment, finished: CommandResult, remote: str, local: Path) -> dict[str, Any]:
    where = _where(deployment)
    refuse_signal(finished, where)
    try:
        deployment.device.pull(remote, local)
        result = json.loads(local.read_text(encoding="utf-8"))
    except (StageError, ValueError) as error:
        last = (finished.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise StageError(f"{where}: the runner ended with status {finished.exit_code}: {last[:300]}") from error
    if "error" in result:
        raise StageError(f"{where}: {result['error']}")
    if finished.exit_code != 0:
        raise StageError(f"{where}: the runner wrote a result, but ended with status {finished.exit_code}")
    fields: dict[str, Any] = result
    return fields


def _where(deployment: Deployment) -> str:
    target = deployment.target
    return f"{Path(deployment.artifact.files[0]).name} with {target.runtime} on device '{target.device}'"


def _count(feed: Mapping[str, FeedFile]) -> int:
    return min((file.n for file in feed.values()), default=0)


def _fitting(artifact: Artifact, target: Target) -> tuple[Artifact, tuple[Caution, ...]]:
    """The file that the target can run: of one compiled for the Edge TPU, the CPU runs what it was compiled from."""
    name = Path(artifact.files[0]).name
    if target.delegate == "edgetpu":
        if not artifact.is_for_edgetpu:
            raise RefusedError(
                f"{name} is not compiled for the Edge TPU, so device '{target.device}' would run it on the CPU; "
                "take the recipe tflite-int8-edgetpu, or --device host"
            )
        return artifact, ()
    if not artifact.is_for_edgetpu or target.delegate == "external":  # whose library may be libedgetpu
        return artifact, ()
    if artifact.edgetpu is None:
        raise RefusedError(f"{name} is compiled for the Edge TPU, which device '{target.device}' does not have")
    plain = replace(artifact, files=(artifact.edgetpu.plain_file,), sha256=artifact.edgetpu.plain_sha256, edgetpu=None)
    message = f"device '{target.device}' has no Edge TPU: this is a CPU run of the file that was compiled for it"
    advice = "for the Edge TPU's speed: --device coral-usb"
    return plain, (Caution(code="edgetpu-file-on-cpu", message=message, advice=advice),)


def _thread_cautions(target: Target, available: int) -> tuple[Caution, ...]:
    if target.threads <= available:
        return ()
    message = (
        f"{target.threads} threads shared {available} CPUs of device '{target.device}', so they waited for each other"
    )
    advice = f"for a speed that means something: --threads {available}"
    return (Caution(code="more-threads-than-cpus", message=message, advice=advice),)
