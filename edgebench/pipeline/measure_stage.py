"""The measuring stages of a run: what the files answer, then rounds, interleaved over the cells that share a device."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgebench.arrays import Array, load_arrays, save_arrays
from edgebench.devices import inventory
from edgebench.devices.lease import lease
from edgebench.errors import EdgebenchError, StageError
from edgebench.measure import accuracy, feed, session
from edgebench.measure.feed_files import FeedFolder
from edgebench.pipeline.build import costing_one_cell
from edgebench.pipeline.cells import Cell
from edgebench.pipeline.environment import fingerprint
from edgebench.pipeline.evaluation_set import EvaluationSet
from edgebench.pipeline.progress import Reporter
from edgebench.pipeline.run_folder import RunFolder
from edgebench.types import Artifact, Evaluation, Format, Measurement, Plan, Target

if TYPE_CHECKING:
    from edgebench.devices.protocol import Device

_PROOF_RUNTIME = {Format.TFLITE: "litert", Format.ONNX: "onnxruntime"}
_PROOF_THREADS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A cell whose file is there. `float_artifact` is the float file of its format, None where there is no baseline."""

    cell: Cell
    artifact: Artifact
    evaluation_set: EvaluationSet
    float_artifact: Artifact | None


class MeasureStage:
    """Proves files on the host, and evaluates and measures cells on any device, into a run's store."""

    def __init__(self, run: RunFolder, host: Device, reporter: Reporter, timeout_s: float) -> None:
        self._run = run
        self._host = host
        self._reporter = reporter
        self._timeout_s = timeout_s
        self._feeds = FeedFolder(run.path / "work" / "feeds")

    def proof(self, artifact: Artifact, evaluation_set: EvaluationSet) -> dict[str, Array]:
        """The file's raw answers on the host, in the runtime of its format; StageError when it does not run."""
        target = Target(device="host", runtime=_PROOF_RUNTIME[artifact.format], threads=_PROOF_THREADS)
        return self._answers(self._host, artifact, target, evaluation_set)

    def measure_all(self, ready: Sequence[Ready]) -> None:
        """Leave a record of each of these cells in the store, one device after the other."""
        by_device: dict[str, list[Ready]] = {}
        for item in ready:
            by_device.setdefault(item.cell.target.device, []).append(item)
        for device_name, here in by_device.items():
            self._measure_on(device_name, here)

    def _measure_on(self, device_name: str, ready: Sequence[Ready]) -> None:
        with lease(device_name, self._reporter.detail), closing(inventory.open_device(device_name)) as device:
            environment = fingerprint(device)
            evaluations = self._evaluate_all(device, ready, environment)
            deployed = [item for item in ready if item.cell.id in evaluations]
            outcomes = self._measure_interleaved(device, deployed)
            for item in deployed:
                outcome = outcomes.get(item.cell.id)
                if isinstance(outcome, StageError):
                    record = item.cell.ended("measure", outcome, environment, item.artifact)
                else:
                    record = item.cell.done(item.artifact, outcome, evaluations[item.cell.id], environment)
                self._run.store.add(record)

    def _evaluate_all(
        self, device: Device, ready: Sequence[Ready], environment: dict[str, str]
    ) -> dict[str, Evaluation]:
        """Evaluations by cell; a cell whose file does not answer becomes a record."""
        self._reporter.phase(f"Evaluating on {device.spec.name}", len(ready))
        evaluations = {}
        for item in ready:
            self._reporter.detail(describe(item.cell))
            try:
                evaluations[item.cell.id] = self._evaluate(device, item)
            except EdgebenchError as error:
                self._run.store.add(item.cell.ended("evaluate", costing_one_cell(error), environment, item.artifact))
                self._reporter.step(f"{describe(item.cell)}: {error}")
                continue
            self._reporter.step("")
        return evaluations

    def _measure_interleaved(self, device: Device, ready: Sequence[Ready]) -> dict[str, Measurement | StageError]:
        """What came of each cell that has a plan, its rounds kept in the store one by one.

        Each round takes all cells in a new seeded order, so that drift hits all alike. A cell that fails drops out of
        the later rounds, and rounds that the store has are not repeated.
        """
        measuring = [(item, item.cell.plan) for item in ready if item.cell.plan]
        if not measuring:
            return {}
        self._reporter.phase(f"Measuring on {device.spec.name}", sum(plan.rounds for _, plan in measuring))
        deployments: dict[str, session.Deployment] = {}
        errors: dict[str, StageError] = {}
        for index in range(max(plan.rounds for _, plan in measuring)):
            for item, plan in _shuffled(measuring, index):
                if index < plan.rounds and item.cell.id not in errors:
                    try:
                        if item.cell.id not in deployments:
                            deployments[item.cell.id] = session.deploy(
                                device, item.artifact, self._run.path, item.cell.target
                            )
                        self._measure_once(deployments[item.cell.id], item, plan, index)
                    except EdgebenchError as error:
                        errors[item.cell.id] = costing_one_cell(error)
                        self._reporter.step(f"{describe(item.cell)}: {error}")
        return errors | {
            id: Measurement(rounds=self._run.store.rounds(id), origin=device.origin, cautions=deployment.cautions)
            for id, deployment in deployments.items()
            if id not in errors
        }

    def _measure_once(self, deployment: session.Deployment, item: Ready, plan: Plan, index: int) -> None:
        cell = item.cell
        if all(round_.index != index for round_ in self._run.store.rounds(cell.id)):
            self._reporter.detail(f"round {index + 1}: {describe(cell)}")
            known = item.evaluation_set
            one_batch = self._feeds.files(known.sha256, known.one_batch(cell.batch or 1), item.artifact.inputs)
            self._run.store.add_round(cell.id, session.measure_round(deployment, plan, index, one_batch))
        self._reporter.step("")

    def _evaluate(self, device: Device, item: Ready) -> Evaluation:
        artifact, known = item.artifact, item.evaluation_set
        raw = self._answers(device, artifact, item.cell.target, known)
        float_outputs = host_outputs = None
        if item.float_artifact and item.float_artifact.sha256 != artifact.sha256:
            float_outputs = feed.decode(self.proof(item.float_artifact, known), item.float_artifact.outputs)
        if device.spec.name != "host" or item.cell.target.runtime != _PROOF_RUNTIME[artifact.format]:
            host_outputs = feed.decode(self.proof(artifact, known), artifact.outputs)
        return accuracy.evaluate(
            task=known.task,
            outputs=feed.decode(raw, artifact.outputs),
            raw_outputs=raw,
            artifact_outputs=artifact.outputs,
            baseline_outputs=known.baseline_outputs,
            float_outputs=float_outputs,
            host_outputs=host_outputs,
            labels=known.samples.labels,
            targets=known.samples.targets,
            classes=known.classes,
        )

    def _answers(self, device: Device, artifact: Artifact, target: Target, known: EvaluationSet) -> dict[str, Array]:
        """The file's raw outputs to every sample, by its own names; kept in outputs/ and reused."""
        kept = self._run.path / "outputs" / _answers_file(device, artifact, target, known)
        if kept.exists():
            return load_arrays(kept)
        deployment = session.deploy(device, artifact, self._run.path, target)
        feeds = self._feeds.files(known.sha256, known.samples.inputs, artifact.inputs)
        outputs = session.run_outputs(deployment, feeds, self._timeout_s)
        save_arrays(kept, outputs)
        return outputs


def describe(cell: Cell) -> str:
    """The cell in a few words, for progress lines."""
    words = [cell.recipe.name if cell.recipe else cell.model, f"on {cell.target.device},", cell.target.runtime]
    words.append(f"{cell.target.threads} thread{'s' if cell.target.threads > 1 else ''}")
    if cell.batch != 1:
        words.append(f"batch {cell.batch or 'open'}")
    return " ".join(words)


def _answers_file(device: Device, artifact: Artifact, target: Target, known: EvaluationSet) -> str:
    return f"{artifact.sha256[:16]}-{known.sha256[:16]}-{device.spec.name}-{target.runtime}.npz"


def _shuffled(measuring: Sequence[tuple[Ready, Plan]], index: int) -> list[tuple[Ready, Plan]]:
    order = list(measuring)
    random.Random(f"{order[0][1].seed}/{index}").shuffle(order)
    return order
