"""A full-integer .tflite file compiled for the Edge TPU with the user's edgetpu_compiler, and its report read.

The compiler is closed and for x86-64 Linux only. What it prints (version 16.0) is known from its users' logs; sizes
are absent when it fails, and counts of operators when all were mapped.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from edgebench.converters.artifact_files import workshop
from edgebench.errors import ChildTimeoutError, MissingError, StageError
from edgebench.hashing import file_sha256
from edgebench.types import Artifact, Caution, EdgeTpuFacts

PROGRAM = "edgetpu_compiler"
TIME_LIMIT_S = 600.0
_OWN_LIMIT_S = 540  # the compiler's own, which lets it say what went on; its usual 180 s are too short for some models
_MAPPED = "Mapped to Edge TPU"
_UNITS = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_ROW = re.compile(r"^(?P<name>\S+)[ \t]+(?P<count>\d+)[ \t]+(?P<status>\S.*?)[ \t]*$", re.MULTILINE)
_REASONS = ("ERROR:", "Compilation failed:", "Internal compiler error", "Invalid model:", "Model could not be parsed")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerReport:
    """What the compiler printed and logged. Sizes in bytes; None is not said."""

    version: str
    mapped_ops: int
    total_ops: int
    subgraphs: int | None
    cached_bytes: int | None
    cache_left_bytes: int | None
    streamed_bytes: int | None
    cpu_ops: dict[str, int]


def compile(artifact: Artifact, run_folder: Path, time_limit_s: float = TIME_LIMIT_S) -> Artifact:
    """The artifact compiled: its file kept like any other's, with the compiler's facts, bound as the plain one is.

    Raises:
        MissingError: edgetpu_compiler is not on PATH.
        StageError: it failed, in its own words; ChildTimeoutError when it was ended at its limit.
    """
    plain = run_folder / artifact.files[0]
    with workshop(run_folder) as folder:
        # A plain name of ours: the compiler builds its outputs' names from it.
        source = folder / "model.tflite"
        shutil.copyfile(plain, source)
        arguments = ("-s", "-t", str(_OWN_LIMIT_S), "-o", str(folder), str(source))
        printed = _run(arguments, folder, time_limit_s)
        compiled, log = folder / "model_edgetpu.tflite", folder / "model_edgetpu.log"
        if "Compilation failed" in printed or not compiled.is_file():
            raise StageError(f"{PROGRAM} could not compile {plain.name}: {failure(printed)}")
        report = parse(printed, log.read_text(encoding="utf-8", errors="replace") if log.is_file() else "")
        digest = file_sha256(compiled)
        place = PurePosixPath("artifacts") / digest[:16] / f"{plain.stem}_edgetpu.tflite"
        (run_folder / place).parent.mkdir(parents=True, exist_ok=True)
        size_bytes = compiled.stat().st_size
        compiled.replace(run_folder / place)
    return replace(
        artifact,
        files=(str(place),),
        sha256=digest,
        size_bytes=size_bytes,
        route=f"{artifact.route} -> {PROGRAM}",
        tool_versions={**artifact.tool_versions, PROGRAM: report.version},
        cautions=artifact.cautions + _cautions(report),
        edgetpu=EdgeTpuFacts(
            compiler=report.version,
            plain_file=artifact.files[0],
            plain_sha256=artifact.sha256,
            mapped_ops=report.mapped_ops,
            total_ops=report.total_ops,
            subgraphs=report.subgraphs,
            cached_bytes=report.cached_bytes,
            cache_left_bytes=report.cache_left_bytes,
            streamed_bytes=report.streamed_bytes,
            cpu_ops=report.cpu_ops,
        ),
    )


def version() -> str:
    """The version of the edgetpu_compiler on PATH, "absent" without one."""
    try:
        return _version(_run(("-v",), Path.cwd(), 60))
    except (MissingError, StageError):
        return "absent"


def parse(printed: str, log: str) -> CompilerReport:
    """What the compiler says of a file that it compiled; `log` is its NAME_edgetpu.log, empty where there is none.

    Raises:
        StageError: neither text says how many operators were mapped.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for row in _ROW.finditer(log if _ROW.search(log) else printed):
        counts[row["name"], row["status"]] += int(row["count"])
    mapped = sum(n for (_, status), n in counts.items() if status == _MAPPED)
    total = _number(printed, "Total number of operations") or sum(counts.values())
    if not counts:  # all were mapped, or only the counts of the two sides are there
        on_tpu = _number(printed, "Number of operations that will run on Edge TPU")
        mapped = total if on_tpu is None and _number(printed, "Number of Edge TPU subgraphs") else on_tpu or 0
    if not total:
        raise StageError(f"{PROGRAM} did not say how many operators it mapped; its version is not known here")
    return CompilerReport(
        version=_version(printed),
        mapped_ops=mapped,
        total_ops=total,
        subgraphs=_number(printed, "Number of Edge TPU subgraphs"),
        cached_bytes=_size(printed, "On-chip memory used for caching model parameters"),
        cache_left_bytes=_size(printed, "On-chip memory remaining for caching model parameters"),
        streamed_bytes=_size(printed, "Off-chip memory used for streaming uncached model parameters"),
        cpu_ops={f"{name}: {status}": n for (name, status), n in sorted(counts.items()) if status != _MAPPED},
    )


def failure(printed: str) -> str:
    """The compiler's own reason in one line."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    told = [line for line in lines if line.startswith(_REASONS)]
    return " ".join(dict.fromkeys(told))[:500] or next((line for line in reversed(lines) if line), "it printed nothing")


def _run(arguments: tuple[str, ...], folder: Path, time_limit_s: float) -> str:
    program = shutil.which(PROGRAM)
    if program is None:
        raise MissingError(
            f"{PROGRAM} is not on PATH; on x86-64 Debian or Ubuntu install the package edgetpu-compiler as "
            "https://coral.ai/docs/edgetpu/compiler says"
        )
    try:
        done = subprocess.run(
            [program, *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=time_limit_s,
        )
    except subprocess.TimeoutExpired:
        raise ChildTimeoutError(f"{PROGRAM} was ended after its limit of {time_limit_s:g} s") from None
    except OSError as error:
        raise MissingError(f"{program} does not start: {error.strerror}; it is for x86-64 Linux only") from error
    if done.returncode != 0:
        raise StageError(f"{PROGRAM} ended with status {done.returncode}: {failure(done.stdout)}")
    return done.stdout


def _version(printed: str) -> str:
    found = re.search(r"Edge TPU Compiler version (\S+)", printed)
    return found[1] if found else "unknown"


def _number(printed: str, label: str) -> int | None:
    found = re.search(rf"^{re.escape(label)}: (\d+)\s*$", printed, re.MULTILINE)
    return int(found[1]) if found else None


def _size(printed: str, label: str) -> int | None:
    """A size such as "4.21MiB" in bytes; the compiler rounds it to two places."""
    found = re.search(rf"^{re.escape(label)}: ([\d.]+)(B|KiB|MiB|GiB)\s*$", printed, re.MULTILINE)
    return round(float(found[1]) * _UNITS[found[2]]) if found else None


def _cautions(report: CompilerReport) -> tuple[Caution, ...]:
    found = []
    reasons = ", ".join(f"{n} {reason}" for reason, n in report.cpu_ops.items())
    if report.mapped_ops == 0:
        message = (
            f"{PROGRAM} mapped none of {report.total_ops} operators: this is a CPU run ({reasons or 'no reason given'})"
        )
        advice = "see why with `edgebench inspect FILE` on the plain file"
        found.append(Caution(code="edgetpu-cpu-only", message=message, advice=advice))
    elif report.mapped_ops < report.total_ops:
        message = (
            f"{report.mapped_ops} of {report.total_ops} operators run on the Edge TPU, the rest on the CPU: {reasons}"
        )
        advice = "see what to change with `edgebench inspect FILE` on the plain file"
        found.append(Caution(code="edgetpu-partly-cpu", message=message, advice=advice))
    if report.streamed_bytes:
        message = (
            f"{report.streamed_bytes / 1e6:.2f} MB of parameters do not fit on the chip and are sent for each "
            "inference, which costs time, most over USB 2"
        )
        found.append(Caution(code="edgetpu-streams", message=message, advice="take a model that fits on the chip"))
    return tuple(found)
