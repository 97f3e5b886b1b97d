"""The parts of the HTML page as plain texts, for its template to lay out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgebench.reports import grid, pareto
from edgebench.reports.notation import MISSING, decibels, megabytes, number, one_line
from edgebench.reports.summary import Row, baselines, worst_sqnr_db
from edgebench.store import RunInfo
from edgebench.types import Artifact, Divergence, EdgeTpuFacts, Origin, OutputError, Precision, Split, Status

# A bar is full at 0 dB, where the error is as strong as the signal, and empty from here, where float32 rounding lies.
_NO_ERROR_DB = 120.0
_WORST_SLICES = 5


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure of the headline."""

    title: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the results. `outcome` is why a cell has no figures, `origin` said only when not measured.

    The baseline's line has no verdict.
    """

    names: tuple[str, ...]
    figures: tuple[str, ...]
    outcome: str
    verdict: str
    origin: str


@dataclass(frozen=True, slots=True)
class Share:
    """The error that one step added, `percent` of a bar on the scale of decibels."""

    text: str
    percent: float
    is_largest: bool


@dataclass(frozen=True, slots=True)
class OutputTable:
    label: str
    lines: tuple[tuple[str, ...], ...]


def facts(run: RunInfo | None, rows: Sequence[Row]) -> dict[str, str]:
    """What was measured, where, when and with which versions."""
    rounds = [(row, round_) for row in rows if row.record.measurement for round_ in row.record.measurement.rounds]
    runtimes = sorted({f"{row.record.runtime} {round_.runtime_version}" for row, round_ in rounds})
    devices = dict.fromkeys(_device(row) for row in rows)
    told = {"Devices": ", ".join(devices), "Runtimes": ", ".join(runtimes)}
    if run:
        asked = {"Model": run.model, "Data": run.data or "seeded synthetic inputs", "Started": run.created_at}
        told = asked | told | {"edgebench": run.environment.get("edgebench", "")}
    return {name: one_line(text) for name, text in told.items() if text}


def tiles(rows: Sequence[Row]) -> Iterator[Tile]:
    """The counts of cells, and the best files of one model, each among those that may be compared."""
    counts = {status: sum(row.record.status is status for row in rows) for status in Status}
    others = ", ".join(f"{n} {status}" for status, n in counts.items() if n and status is not Status.OK)
    yield Tile("cells done", f"{counts[Status.OK]} of {len(rows)}", others or "none failed")
    label = labels_by_cell(rows)
    done = [row for row in rows if row.is_ok and row.origin in (None, Origin.MEASURED)]
    if len({row.record.model for row in done}) != 1:
        return
    sizes = [(row.size_bytes, row) for row in done if row.size_bytes]
    if sizes:
        size_bytes, row = min(sizes, key=lambda pair: pair[0])
        floats = [size for size, other in sizes if other.precision is Precision.FP32 and other.format is row.format]
        note = f", 1/{number(floats[0] / size_bytes)} of fp32" if floats and row.precision is not Precision.FP32 else ""
        yield Tile("smallest file", f"{megabytes(size_bytes)} MB", label[row.record.cell] + note)
    times = [(row.latency.p50_ms.value, row) for row in done if row.latency and row.is_stable]
    if times and len({(row.record.device, row.record.batch) for _, row in times}) == 1:
        p50_ms, row = min(times, key=lambda pair: pair[0])
        note = f", {number(row.speed_up.value)}× as fast as fp32" if row.speed_up else ""
        yield Tile("fastest, p50", f"{number(p50_ms)} ms", label[row.record.cell] + note)
    axis = pareto.quality_axis(done)
    smaller = [row for row in done if row.precision is not Precision.FP32]
    qualities = [(value, row) for row in smaller if axis and (value := axis.value(row)) is not None]
    if axis and qualities:
        best = min if axis.is_smaller_better else max
        value, row = best(qualities, key=lambda pair: pair[0])
        was = next((one.estimate.value for one in baselines([row]) if axis.title == one_line(one.metric)), None)
        note = f"; baseline {number(was)}" if was is not None else ""
        yield Tile(f"{axis.title}, best besides fp32", number(value), label[row.record.cell] + note)


def lines(rows: Sequence[Row], columns: Sequence[grid.Column]) -> Iterator[Line]:
    """The lines of the results table, the baseline first; `columns` are the grid's."""
    *shown, _ = columns
    names = sum(column.is_name for column in shown)
    floats = len(baselines(rows))
    for i in range(floats):
        cells = tuple(column.cells[i] for column in shown)
        yield Line(names=cells[:names], figures=cells[names:], outcome="", verdict="", origin="")
    for i, row in enumerate(rows, floats):
        cells = tuple(column.cells[i] for column in shown)
        figures = cells[names:]
        has_figures = any(figure != MISSING for figure in figures)
        yield Line(
            names=cells[:names],
            figures=figures if has_figures else (),
            outcome="" if row.is_ok else grid.outcome(row),
            verdict=row.trust.verdict.value if row.trust and row.is_ok else row.record.status.value,
            origin="" if row.origin in (None, Origin.MEASURED) else str(row.origin),
        )


def splits(rows: Sequence[Row]) -> Iterator[tuple[str, tuple[Share, ...]]]:
    """For each row that knows them: the errors of conversion, quantization and device, each of the worst output."""
    for label, row in zip(grid.labels(rows), rows, strict=True):
        split = row.record.evaluation.split if row.record.evaluation else Split()
        found = [_sqnr(part) for part in (split.conversion, split.quantization, split.device)]
        if any(sqnr_db is not None for sqnr_db in found):
            known = [sqnr_db for sqnr_db in found if sqnr_db is not None and sqnr_db < _NO_ERROR_DB]
            worst = min(known, default=None)
            yield label, tuple(_share(sqnr_db, worst) for sqnr_db in found)


def outputs(rows: Sequence[Row]) -> Iterator[OutputTable]:
    """For each row that has a baseline, its outputs' errors against it."""
    for label, row in zip(grid.labels(rows), rows, strict=True):
        if row.divergence:
            yield OutputTable(label, tuple(_output(name, error) for name, error in row.divergence.outputs.items()))


def _output(name: str, error: OutputError) -> tuple[str, ...]:
    worst = sorted(error.slices, key=lambda part: part.sqnr_db)[:_WORST_SLICES]
    return (
        one_line(name),
        decibels(error.sqnr_db),
        f"{error.cosine:.6f}",
        number(error.max_abs_error),
        number(error.mean_abs_error),
        ", ".join(f"[{part.index}] {decibels(part.sqnr_db)} dB" for part in worst) or MISSING,
    )


def files(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """Each artifact once: name, precision, MB, batch, parameters, MACs, how it was made, seconds, start of its hash."""
    artifacts = {row.record.artifact.sha256: row.record.artifact for row in rows if row.record.artifact}
    for artifact in artifacts.values():
        yield (
            one_line(artifact.files[0]),
            artifact.census.precision.value,
            megabytes(artifact.size_bytes),
            "open" if artifact.batch is None else str(artifact.batch),
            f"{artifact.census.parameters:,}",
            MISSING if artifact.census.macs is None else f"{artifact.census.macs:,}",
            one_line(_made_by(artifact)),
            number(artifact.conversion_s),
            artifact.sha256[:12],
        )


def environments(run: RunInfo | None, rows: Sequence[Row]) -> Iterator[tuple[str, dict[str, str]]]:
    """The environment of the run and that of each device, by name."""
    if run and run.environment:
        yield "This machine", _clean(run.environment)
    seen: list[tuple[str, dict[str, str]]] = []
    for row in rows:
        found = (_device(row), _clean(row.record.environment))
        if row.record.environment and found not in seen:
            seen.append(found)
            yield found


def labels_by_cell(rows: Sequence[Row]) -> dict[str, str]:
    return dict(zip((row.record.cell for row in rows), grid.labels(rows), strict=True))


def _device(row: Row) -> str:
    is_measured = row.origin in (None, Origin.MEASURED)
    return one_line(row.record.device if is_measured else f"{row.record.device} ({row.origin})")


def _sqnr(divergence: Divergence | None) -> float | None:
    return worst_sqnr_db(divergence) if divergence else None


def _share(sqnr_db: float | None, worst_db: float | None) -> Share:
    if sqnr_db is None:
        return Share(MISSING, 0.0, False)
    percent = 100 * min(1.0, max(0.0, 1 - sqnr_db / _NO_ERROR_DB))
    text = "equal" if sqnr_db == float("inf") else f"{decibels(sqnr_db)} dB"
    return Share(text, round(percent, 1), sqnr_db == worst_db)


def _made_by(artifact: Artifact) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in artifact.tool_versions.items())
    made = f"{artifact.route} ({versions})" if versions else artifact.route or MISSING
    return f"{made}; {_on_edgetpu(artifact.edgetpu)}" if artifact.edgetpu else made


def _on_edgetpu(facts: EdgeTpuFacts) -> str:
    sizes = [
        f"{megabytes(size_bytes)} MB of its parameters {word}"
        for word, size_bytes in (("cached", facts.cached_bytes), ("streamed", facts.streamed_bytes))
        if size_bytes is not None
    ]
    return ", ".join([f"{facts.mapped_ops} of {facts.total_ops} operators on the Edge TPU", *sizes])


def _clean(environment: dict[str, str]) -> dict[str, str]:
    return {one_line(name): one_line(text) for name, text in environment.items()}
