"""Rounds by an official program, which takes no job of ours: a command line goes in, a log comes out."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgebench.devices.official import benchmark_log, commands, delegation, perf_test, tensor_order
from edgebench.devices.official.commands import FileInput
from edgebench.devices.official.delegation import Delegation
from edgebench.devices.protocol import Device
from edgebench.devices.runners import Runner
from edgebench.errors import MissingError, RefusedError, StageError
from edgebench.measure.feed_files import FeedFile
from edgebench.measure.tool_process import Tool, new_job, push_batch, run, where
from edgebench.types import Caution, LatencySummary, Plan, Round, Target

if TYPE_CHECKING:
    from edgebench.measure.session import Deployment

_SMALL_LIMIT_S = 30.0


def prepare(device: Device, runner: Runner, model: Path, target: Target, cpus: tuple[int, ...]) -> Tool:
    """The runner's program, which lies on the device already, made executable and pinned; `model` is the local file.

    Raises:
        InputError: the program has no such delegate, or the device's file does not say where it lies.
        StageError: it can't be made executable, or the order of the file's tensors can't be read.
    """
    (program,) = runner.command
    spec = getattr(device.spec.tools, runner.kind)
    if runner.kind == perf_test.NAME:
        perf_test.arguments("", "", target.threads, 1, target.delegate, spec)
    else:
        commands.delegate_flags(runner.kind, spec, target.delegate)
    made = device.run(("chmod", "755", program), _SMALL_LIMIT_S)
    if made.exit_code != 0:
        raise StageError(f"device '{device.spec.name}': {runner.kind} can't be made executable: {made.stderr[-200:]}")
    pin = _pin(device, cpus)
    inputs, outputs = tensor_order.of(model) if runner.kind == commands.TFLITE else ((), ())
    return Tool(
        program=runner.kind,
        spec=spec,
        version=f"sha256 {runner.version[:12]}",
        command=(*pin, program),
        affinity=cpus if pin else None,
        inputs=inputs,
        outputs=outputs,
        cautions=_cautions(runner.kind, bool(pin)),
    )


def measure_round(deployment: Deployment, tool: Tool, plan: Plan, index: int, feed: Mapping[str, FeedFile]) -> Round:
    """One round as `session.measure_round` describes it, with what the program says and no more.

    Raises:
        RefusedError: the program can't run this batch.
        StageError: it failed, its log is cut, or it ran on the CPU where a delegate was asked for.
        ChildTimeoutError, ChildDiedError: it ran longer than `plan.timeout_s`, or a signal ended it.
    """
    batch = deployment.artifact.batch or min((file.n for file in feed.values()), default=1)
    if tool.program != commands.TFLITE and deployment.artifact.batch is None and batch > 1:
        raise RefusedError(f"{tool.program} runs an open batch with one sample only; measure it with --batch 1")
    before = deployment.device.conditions()
    try:
        if tool.program == perf_test.NAME:
            told = _perf_test(deployment, tool, plan)
        else:
            told = _benchmark(deployment, tool, plan, feed, batch)
    except StageError as error:
        raise type(error)(f"{where(deployment)}: {error}") from error
    return Round(
        index=index,
        latencies_ns=told.latencies_ns,
        warmup_ns=told.warmup_ns,
        load_ns=told.load_ns,
        first_ns=told.first_ns,
        peak_rss_bytes=told.peak_bytes,
        runtime_version=tool.version,
        delegate=told.ran.name,
        delegated_fraction=told.ran.fraction,
        affinity=tool.affinity,
        before=before,
        after=deployment.device.conditions(),
        summary=told.summary,
        memory_growth_bytes=told.growth_bytes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What a program said of a round, named as in `types.Round`; latencies where it keeps them, else a summary."""

    ran: Delegation
    load_ns: int | None
    first_ns: int | None
    peak_bytes: int | None
    latencies_ns: tuple[int, ...] = ()
    warmup_ns: tuple[int, ...] = ()
    summary: LatencySummary | None = None
    growth_bytes: int | None = None


def _benchmark(deployment: Deployment, tool: Tool, plan: Plan, feed: Mapping[str, FeedFile], batch: int) -> _Told:
    target = deployment.target
    inputs: Sequence[FileInput] = ()
    with tempfile.TemporaryDirectory(prefix="edgebench-feed-") as folder:
        if tool.program == commands.TFLITE:
            rows = {name: np.load(file.path, mmap_mode="r", allow_pickle=False)[:batch] for name, file in feed.items()}
            inputs = push_batch(deployment, tool, rows, batch, new_job(), Path(folder))
        flags = commands.delegate_flags(tool.program, tool.spec, target.delegate)
        arguments = commands.timed(deployment.model, target.threads, plan, flags, inputs)
        log = run(deployment, tool, arguments, "latency", plan.timeout_s)
    ran = delegation.read(log, target.delegate)
    told = benchmark_log.read(log)
    return _Told(
        ran=ran,
        load_ns=told.load_ns,
        first_ns=told.first_ns,
        peak_bytes=told.peak_bytes,
        summary=told.result,
        growth_bytes=told.growth_bytes,
    )


def _perf_test(deployment: Deployment, tool: Tool, plan: Plan) -> _Told:
    """A verbose process of a few runs shows who runs the operators and how long a run takes; the next one is timed."""
    remote = new_job()
    proof, log = _perf_test_process(deployment, tool, f"{remote}-proof.csv", perf_test.PROOF_RUNS, plan, is_proof=True)
    ran = perf_test.delegation(log, deployment.target.delegate)
    runs = plan.warmup_min_runs + perf_test.runs_for(plan, proof)
    timed, _ = _perf_test_process(deployment, tool, f"{remote}.csv", runs, plan, is_proof=False)
    return _Told(
        ran=ran,
        load_ns=timed.load_ns,
        first_ns=timed.first_ns,
        peak_bytes=timed.peak_bytes,
        warmup_ns=timed.latencies_ns[: plan.warmup_min_runs],
        latencies_ns=timed.latencies_ns[plan.warmup_min_runs :],
    )


def _perf_test_process(
    deployment: Deployment, tool: Tool, remote: str, runs: int, plan: Plan, *, is_proof: bool
) -> tuple[perf_test.Timed, str]:
    target = deployment.target
    arguments = perf_test.arguments(deployment.model, remote, target.threads, runs, target.delegate, tool.spec)
    arguments = ["-v", *arguments] if is_proof else arguments
    log = run(deployment, tool, arguments, "proof" if is_proof else "latency", plan.timeout_s)
    with tempfile.TemporaryDirectory(prefix="edgebench-times-") as folder:
        local = Path(folder) / "times.csv"
        deployment.device.pull(remote, local)
        return perf_test.read(log, local.read_text(encoding="utf-8", errors="replace"), runs), log


def _pin(device: Device, cpus: tuple[int, ...]) -> tuple[str, ...]:
    """The command before a command that keeps it on these CPUs; none where the device has no taskset."""
    mask = f"{sum(1 << cpu for cpu in cpus):x}"
    try:
        works = device.run(("taskset", mask, "true"), _SMALL_LIMIT_S).exit_code == 0
    except MissingError:
        works = False
    return ("taskset", mask) if works else ()


def _cautions(program: str, is_pinned: bool) -> tuple[Caution, ...]:
    cautions = []
    if program != perf_test.NAME:
        message = (
            f"{program} keeps no single latencies: the mean, the least and the greatest of its runs are its own "
            "figures; p50, p90 and a slowing down within a round are unknown"
        )
        advice = "for p50 and p90: --runtime litert"
        cautions.append(Caution(code="tool-summary", message=message, advice=advice))
    if program != commands.TFLITE:
        runtime = "litert" if program == commands.LITERT else "onnxruntime"
        message = f"{program} makes its own random inputs and gives no outputs, so that accuracy there is unknown"
        cautions.append(Caution(code="random-inputs", message=message, advice=f"for accuracy: --runtime {runtime}"))
    if not is_pinned:
        message = (
            f"{program} ran on whatever CPUs the system chose, because the device has no taskset; its times may come "
            "from slower cores"
        )
        advice = "install util-linux or toybox on the device"
        cautions.append(Caution(code="not-pinned", message=message, advice=advice))
    return tuple(cautions)
