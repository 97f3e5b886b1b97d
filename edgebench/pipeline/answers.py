"""What files answer to the evaluation samples, on the host and on devices: asked once, and kept in the run folder."""

from __future__ import annotations

import hashlib
import json
import threading
from typing import TYPE_CHECKING

from edgebench.arrays import Array, load_arrays, save_arrays
from edgebench.measure import feed, session
from edgebench.measure.feed_files import FeedFile, FeedFolder
from edgebench.pipeline.environment import fingerprint
from edgebench.pipeline.evaluation_set import EvaluationSet
from edgebench.pipeline.run_folder import RunFolder
from edgebench.types import Artifact, Format, Target

if TYPE_CHECKING:
    from edgebench.devices.protocol import Device

PROOF_RUNTIME = {Format.TFLITE: "litert", Format.ONNX: "onnxruntime"}
_PROOF_THREADS = 2


class Answers:
    """A run's answers. Another file, other samples, runtimes or device software are asked again.

    Threads may share it, each with a device of its own; the host answers one of them at a time.
    """

    def __init__(self, run: RunFolder, host: Device, timeout_s: float) -> None:
        self._run = run
        self._host = host
        self._timeout_s = timeout_s
        self._feeds = FeedFolder(run.path / "work" / "feeds")
        self._environments: dict[str, str] = {}
        self._one_proof = threading.Lock()

    def proof(self, artifact: Artifact, known: EvaluationSet) -> dict[str, Array]:
        """The file's outputs on the host, in the runtime of its format, by the baseline's names (see `feed.decode`).

        Raises:
            StageError: the file does not run.
        """
        target = Target(device="host", runtime=PROOF_RUNTIME[artifact.format], threads=_PROOF_THREADS)
        with self._one_proof:  # devices side by side want the same one at the same time, to be made once
            raw = self.raw(session.deploy(self._host, artifact, self._run.path, target), known)
        return feed.decode(raw, artifact.outputs)

    def raw(self, deployment: session.Deployment, known: EvaluationSet) -> dict[str, Array]:
        """The deployed file's outputs to every sample, by its own names, in its own dtypes; StageError as above."""
        kept = self._run.path / "outputs" / self._file_name(deployment, known)
        if kept.exists():
            return load_arrays(kept)
        feeds = self._feeds.files(known.sha256, known.samples.inputs, deployment.artifact.inputs)
        outputs = session.run_outputs(deployment, feeds, self._timeout_s)
        save_arrays(kept, outputs)
        return outputs

    def one_batch(self, artifact: Artifact, batch: int, known: EvaluationSet) -> dict[str, FeedFile]:
        """The feed of a measured round: the first samples, as many as one run takes."""
        return self._feeds.files(known.sha256, known.one_batch(batch), artifact.inputs)

    def _file_name(self, deployment: session.Deployment, known: EvaluationSet) -> str:
        device = deployment.device
        name = device.spec.name
        if name not in self._environments:
            facts = json.dumps(fingerprint(device), sort_keys=True)
            self._environments[name] = hashlib.sha256(facts.encode()).hexdigest()
        parts = [deployment.artifact.sha256[:16], known.sha256[:16], self._environments[name][:16]]
        how = [deployment.target.runtime, deployment.runner.kind]
        if deployment.runner.version:
            how += [deployment.target.delegate, deployment.runner.version[:16]]
        return "-".join([*parts, name, *how]) + ".npz"
