"""The conversion stages of a run: each file is made in a child process once, and reused while nothing changed."""

from __future__ import annotations

from dataclasses import replace

from edgebench.converters import convert
from edgebench.errors import ChildDiedError, ChildTimeoutError, EdgebenchError, RefusedError, StageError
from edgebench.isolation import Finished, Worker
from edgebench.pipeline.run_folder import RunFolder
from edgebench.pipeline.subject import Subject
from edgebench.types import Artifact, Format, Recipe, Scheme


class Builder:
    """Makes artifacts for one subject. A float export that failed for good is not tried again for the next recipe."""

    def __init__(self, subject: Subject, run: RunFolder, worker: Worker, timeout_s: float) -> None:
        self._subject = subject
        self._run = run
        self._worker = worker
        self._timeout_s = timeout_s
        self._hopeless: dict[tuple[Format, int | None], StageError] = {}

    def float_artifact(self, format: Format, batch: int | None) -> Artifact:
        """The float file of `format`, from which its recipes start."""
        if error := self._hopeless.get((format, batch)):
            raise error
        key = convert.artifact_key(self._subject.baseline, format, None, None, batch)
        if artifact := self._stored(key):
            return artifact
        try:
            finished = self._worker.call(
                f"exporting {format} in float, batch {batch or 'open'}",
                self._timeout_s,
                convert.export_float,
                self._subject.baseline,
                format,
                self._run.path,
                batch,
            )
        except (ChildDiedError, ChildTimeoutError):
            raise  # may go well next time
        except EdgebenchError as error:
            self._hopeless[format, batch] = costing_one_cell(error)
            raise self._hopeless[format, batch] from error
        return self._kept(key, finished)

    def artifact(self, recipe: Recipe, float_artifact: Artifact) -> Artifact:
        """The file that `recipe` asks for.

        Raises:
            StageError: it could not be made; RefusedError when it would not be what was asked for.
        """
        if recipe.scheme is Scheme.FP32:
            return replace(float_artifact, recipe=recipe)
        calibration = self._subject.data.calibration
        self._refuse_bad_calibration(recipe)
        batch = float_artifact.batch
        key = convert.artifact_key(self._subject.baseline, recipe.format, recipe, calibration, batch)
        if artifact := self._stored(key):
            return self._without_what_the_data_told(replace(artifact, recipe=recipe))
        try:
            finished = self._worker.call(
                f"converting by {recipe.name}, batch {batch or 'open'}",
                self._timeout_s,
                convert.quantize,
                self._subject.baseline,
                float_artifact,
                recipe,
                calibration,
                self._run.path,
            )
        except EdgebenchError as error:
            raise costing_one_cell(error) from error
        return self._without_what_the_data_told(self._kept(key, finished))

    def _without_what_the_data_told(self, artifact: Artifact) -> Artifact:
        """Drop the file's own words on a doubt of the data, such as too few calibration samples: one of them is enough.

        The stored artifact keeps them, because another run may prepare its data without that doubt.
        """
        told = {caution.code for caution in self._subject.data.cautions}
        return replace(artifact, cautions=tuple(caution for caution in artifact.cautions if caution.code not in told))

    def _refuse_bad_calibration(self, recipe: Recipe) -> None:
        from edgebench.data import BLOCKING_CODES

        if recipe.calibration is None:
            return
        findings = [f"{c.message}: {c.advice}" for c in self._subject.data.cautions if c.code in BLOCKING_CODES]
        if findings:
            raise RefusedError(f"recipe '{recipe.name}' can't calibrate with these samples: {'; '.join(findings)}")

    def _kept(self, key: str, finished: Finished[Artifact]) -> Artifact:
        artifact = replace(finished.value, conversion_peak_rss_bytes=finished.peak_rss_bytes)
        self._run.store.add_artifact(key, artifact)
        return artifact

    def _stored(self, key: str) -> Artifact | None:
        artifact = self._run.store.artifact(key)
        if artifact is None or not all((self._run.path / file).is_file() for file in artifact.files):
            return None
        return artifact


def costing_one_cell(error: EdgebenchError) -> StageError:
    """The error as one that costs a cell; what was wrong or missing for one recipe does not end the run."""
    return error if isinstance(error, StageError) else RefusedError(str(error))
