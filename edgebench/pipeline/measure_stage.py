"""The measuring stages of a run: what the files answer, then rounds, interleaved over the cells that share a device."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgebench.devices import inventory
from edgebench.devices.cooldown import wait_until_cool
from edgebench.devices.lease import lease
from edgebench.errors import EdgebenchError, StageError
from edgebench.measure import accuracy, feed, session
from edgebench.pipeline.answers import PROOF_RUNTIME, Answers
from edgebench.pipeline.build import costing_one_cell
from edgebench.pipeline.cells import Cell
from edgebench.pipeline.environment import fingerprint
from edgebench.pipeline.evaluation_set import EvaluationSet
from edgebench.pipeline.progress import Reporter
from edgebench.pipeline.run_folder import RunFolder
from edgebench.types import Artifact, Caution, Evaluation, Measurement, Plan, Precision, Round

if TYPE_CHECKING:
    from edgebench.devices.protocol import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A cell whose file is there. `float_artifact` is the float file of its format, None where there is no baseline."""

    cell: Cell
    artifact: Artifact
    evaluation_set: EvaluationSet
    float_artifact: Artifact | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deployed:
    """A cell whose file lies on its device and answered there; `evaluation` is None where it can't give answers."""

    item: Ready
    deployment: session.Deployment
    evaluation: Evaluation | None


class MeasureStage:
    """Evaluates and measures cells on their devices, into a run's store."""

    def __init__(self, run: RunFolder, answers: Answers, reporter: Reporter) -> None:
        self._run = run
        self._answers = answers
        self._reporter = reporter
        self._is_stopping = threading.Event()

    def measure_all(self, ready: Sequence[Ready]) -> None:
        """Leave a record of each of these cells in the store.

        Devices work side by side, each on one cell at a time; then those that are this machine, one after the other and
        alone, because driving the others takes its CPUs.
        """
        by_device: dict[str, list[Ready]] = {}
        for item in ready:
            by_device.setdefault(item.cell.target.device, []).append(item)
        remote = {name: cells for name, cells in by_device.items() if not inventory.is_this_machine(name)}
        if remote:
            self._begin(remote)
            with ThreadPoolExecutor(len(remote), thread_name_prefix="device") as pool:
                try:
                    for _ in pool.map(self._measure_on, remote, remote.values()):
                        pass
                except BaseException:  # Ctrl-C most of all: each device ends the round it is at, and is left clean
                    self._is_stopping.set()
                    self._reporter.notice("stopping as soon as each device has ended its round and is as it was found")
                    raise
        for name in [name for name in by_device if name not in remote]:
            self._begin({name: by_device[name]})
            self._measure_on(name, by_device[name])

    def _begin(self, by_device: dict[str, list[Ready]]) -> None:
        """The progress bar: a step for each cell's evaluation, and one for each of its rounds."""
        where = next(iter(by_device)) if len(by_device) == 1 else f"{len(by_device)} devices"
        plans = [item.cell.plan for cells in by_device.values() for item in cells]
        self._reporter.phase(f"Measuring on {where}", sum(1 + (plan.rounds if plan else 0) for plan in plans))

    def _measure_on(self, device_name: str, ready: Sequence[Ready]) -> None:
        with lease(inventory.lease_name(device_name), self._reporter.notice):
            try:
                device = inventory.open_device(device_name)
            except EdgebenchError as error:
                self._all_ended(ready, error)
                return
            try:
                try:
                    environment = fingerprint(device)
                except StageError as error:  # it was reached, and does not say what it is
                    self._all_ended(ready, error)
                else:
                    self._measure_here(device, ready, environment)
            finally:
                try:
                    device.close()
                except EdgebenchError as error:  # something of ours stays on it, which costs no cell
                    self._reporter.notice(f"{error}")

    def _all_ended(self, ready: Sequence[Ready], error: EdgebenchError) -> None:
        """The device can't be reached: its cells end, those of others go on."""
        for item in ready:
            self._ended(item, "connect", error, {})

    def _measure_here(self, device: Device, ready: Sequence[Ready], environment: dict[str, str]) -> None:
        deployed = [each for item in ready if (each := self._deploy(device, item, environment))]
        errors = self._measure_interleaved(deployed, environment)
        for each in deployed:
            item = each.item
            if item.cell.id in errors or self._is_stopping.is_set():
                continue
            measurement = None
            if item.cell.plan:
                measurement = Measurement(
                    rounds=self._run.store.rounds(item.cell.id),
                    origin=device.origin,
                    runner=each.deployment.runner.kind,
                    cautions=each.deployment.cautions,
                )
            self._run.store.add(item.cell.done(item.artifact, measurement, each.evaluation, environment))

    def _deploy(self, device: Device, item: Ready, environment: dict[str, str]) -> _Deployed | None:
        """The cell's file on the device with what it answers; None where it fails, which becomes a record."""
        if self._is_stopping.is_set():
            return None
        self._reporter.detail(describe(item.cell))
        stage = "deploy"
        try:
            deployment = session.deploy(device, item.artifact, self._run.path, item.cell.target)
            stage = "evaluate"
            evaluation = self._evaluate(deployment, item)
        except EdgebenchError as error:
            self._ended(item, stage, error, environment)
            return None
        self._reporter.step("")
        return _Deployed(item=item, deployment=deployment, evaluation=evaluation)

    def _measure_interleaved(self, deployed: Sequence[_Deployed], environment: dict[str, str]) -> set[str]:
        """Take the rounds of each cell that has a plan, each kept in the store at once; returns the cells that failed.

        Each round takes all cells in a new seeded order, so that drift hits all alike. A cell that fails drops out of
        the later rounds, and rounds that the store has are not repeated.
        """
        measuring = [(each, each.item.cell.plan) for each in deployed if each.item.cell.plan]
        failed: set[str] = set()
        for index in range(max((plan.rounds for _, plan in measuring), default=0)):
            for each, plan in _shuffled(measuring, index):
                cell = each.item.cell
                if index >= plan.rounds or cell.id in failed or self._is_stopping.is_set():
                    continue
                if not self._run.store.has_round(cell.id, index):
                    try:
                        round_ = self._measure_once(each, plan, index)
                    except EdgebenchError as error:
                        failed.add(cell.id)
                        self._ended(each.item, "measure", error, environment)
                        continue
                    self._run.store.add_round(cell.id, round_)
                self._reporter.step("")
        return failed

    def _measure_once(self, each: _Deployed, plan: Plan, index: int) -> Round:
        cell, artifact, device = each.item.cell, each.item.artifact, each.deployment.device
        if plan.cooldown == "until-cool":
            now = wait_until_cool(
                device,
                plan.cool_c,
                plan.cooldown_max_seconds,
                lambda now: self._reporter.detail(f"{device.spec.name} cools down: {now.temperature_c} °C"),
            )
            if now.temperature_c is not None and now.temperature_c > plan.cool_c:
                self._reporter.notice(
                    f"{device.spec.name} is still {now.temperature_c:.0f} °C warm after "
                    f"{plan.cooldown_max_seconds:g} s; measuring it as it is"
                )
        self._reporter.detail(f"round {index + 1}: {describe(cell)}")
        one_batch = self._answers.one_batch(artifact, cell.batch or 1, each.item.evaluation_set)
        return session.measure_round(each.deployment, plan, index, one_batch)

    def _evaluate(self, deployment: session.Deployment, item: Ready) -> Evaluation | None:
        most = deployment.most_samples
        if most is None or most >= len(item.evaluation_set.samples):
            return self._evaluate_on(deployment, item, item.evaluation_set)
        if most == 0:
            return None
        evaluation = self._evaluate_on(deployment, item, item.evaluation_set.some(most))
        message = (
            f"{item.cell.target.runtime} answers one batch a process, so that accuracy there is of {most} of "
            f"{len(item.evaluation_set.samples)} samples"
        )
        advice = f"for the accuracy of all samples: --runtime {PROOF_RUNTIME[item.artifact.format]}"
        doubt = Caution(code="some-samples", message=message, advice=advice)
        return replace(evaluation, cautions=(*evaluation.cautions, doubt))

    def _evaluate_on(self, deployment: session.Deployment, item: Ready, known: EvaluationSet) -> Evaluation:
        artifact, target = item.artifact, item.cell.target
        raw = self._answers.raw(deployment, known)
        float_outputs = host_outputs = None
        if item.float_artifact and item.float_artifact.sha256 != artifact.sha256:
            float_outputs = self._answers.proof(item.float_artifact, known)
        if target.device != "host" or target.runtime != PROOF_RUNTIME[artifact.format]:
            host_outputs = self._answers.proof(artifact, known)
        return accuracy.evaluate(
            task=known.task,
            outputs=feed.decode(raw, artifact.outputs),
            raw_outputs=raw,
            artifact_outputs=artifact.outputs,
            baseline_outputs=known.baseline_outputs,
            float_outputs=float_outputs,
            host_outputs=host_outputs,
            is_fp32=artifact.census.precision is Precision.FP32,
            labels=known.samples.labels,
            targets=known.samples.targets,
            classes=known.classes,
        )

    def _ended(self, item: Ready, stage: str, error: EdgebenchError, environment: dict[str, str]) -> None:
        self._run.store.add(item.cell.ended(stage, costing_one_cell(error), environment, item.artifact))
        self._reporter.step(f"{describe(item.cell)} ({stage}): {error}")


def describe(cell: Cell) -> str:
    """The cell in a few words, for progress lines."""
    target = cell.target
    runtime = target.runtime if target.delegate == "cpu" else f"{target.runtime}:{target.delegate}"
    words = [cell.recipe.name if cell.recipe else cell.model, f"on {target.device},", runtime]
    words.append(f"{cell.target.threads} thread{'s' if cell.target.threads > 1 else ''}")
    if cell.batch != 1:
        words.append(f"batch {cell.batch or 'open'}")
    return " ".join(words)


def _shuffled(measuring: Sequence[tuple[_Deployed, Plan]], index: int) -> list[tuple[_Deployed, Plan]]:
    order = list(measuring)
    random.Random(f"{order[0][1].seed}/{index}").shuffle(order)
    return order
