"""A converted file made into an `Artifact`: described as it was read back, kept in a folder named by its content."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.converters import inspection
from edgebench.converters.exported import Exported
from edgebench.errors import StageError
from edgebench.types import Artifact, Binding, TensorSpec

if TYPE_CHECKING:
    from edgebench.converters.inspection import FileFacts


@contextlib.contextmanager
def workshop(run_folder: Path) -> Iterator[Path]:
    """A folder for half-made files, on the same file system as the artifacts; removed with what is left in it."""
    home = run_folder / "work"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as folder:
        yield Path(folder)


def from_file(path: Path, run_folder: Path) -> Artifact:
    """A converted file that the user brought, copied into the run folder, its tensors bound to their own names."""
    path = path.absolute()
    facts = inspection.read(path)
    with workshop(run_folder) as folder:
        for file in facts.files:
            target = folder / file.relative_to(path.parent)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
        exported = Exported(
            path=folder / path.name,
            inputs=tuple(Binding(tensor=spec, baseline=spec.name) for spec in facts.inputs),
            outputs=tuple(Binding(tensor=spec, baseline=spec.name) for spec in facts.outputs),
            route="given",
            tool_versions={},
        )
        return keep(
            exported, inspection.read(exported.path), run_folder, batch=facts.batch, baseline_sha256=None, seconds=None
        )


def keep(
    exported: Exported,
    facts: FileFacts,
    run_folder: Path,
    *,
    batch: int | None,
    baseline_sha256: str | None,
    seconds: float | None,
) -> Artifact:
    """Move the files to artifacts/<content hash>/ in the run folder and describe them by `facts`.

    Raises:
        StageError: the file's inputs or outputs are not those that the conversion promised.
    """
    digest = hashlib.sha256()
    for file in facts.files:
        digest.update(file.relative_to(exported.path.parent).as_posix().encode() + b"\0")
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    home = run_folder / "artifacts" / digest.hexdigest()[:16]
    files = []
    for file in facts.files:
        target = home / file.relative_to(exported.path.parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.replace(target)
        files.append(target.relative_to(run_folder).as_posix())
    return Artifact(
        format=facts.format,
        files=tuple(files),
        sha256=digest.hexdigest(),
        size_bytes=facts.size_bytes,
        inputs=_rebound(exported.inputs, facts.inputs, "input"),
        outputs=_rebound(exported.outputs, facts.outputs, "output"),
        census=facts.census,
        batch=batch,
        baseline_sha256=baseline_sha256,
        route=exported.route,
        tool_versions=exported.tool_versions,
        conversion_s=seconds,
        cautions=exported.cautions,
    )


def exported_again(artifact: Artifact, run_folder: Path, folder: Path) -> Exported:
    """The artifact as its route left it, to be quantized.

    One with external data is copied to `folder`: the host links the files that it runs, and onnx reads no external data
    that has a second hard link.
    """
    path = run_folder / artifact.files[0]
    if len(artifact.files) > 1:
        home = path.parent
        for file in artifact.files:
            target = folder / (run_folder / file).relative_to(home)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(run_folder / file, target)
        path = folder / path.name
    return Exported(
        path=path,
        inputs=artifact.inputs,
        outputs=artifact.outputs,
        route=artifact.route,
        tool_versions=artifact.tool_versions,
        cautions=artifact.cautions,
    )


def _rebound(bindings: tuple[Binding, ...], specs: tuple[TensorSpec, ...], kind: str) -> tuple[Binding, ...]:
    """The bindings with shape, type and quantization as the file itself says them, matched by name."""
    by_name = {spec.name: spec for spec in specs}
    if set(by_name) != {binding.tensor.name for binding in bindings}:
        expected = ", ".join(sorted(binding.tensor.name for binding in bindings))
        raise StageError(f"the file's {kind}s are {', '.join(sorted(by_name))}; the conversion promised {expected}")
    return tuple(replace(binding, tensor=by_name[binding.tensor.name]) for binding in bindings)
