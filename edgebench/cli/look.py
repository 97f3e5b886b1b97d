"""inspect, recipes and report: commands that only look."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgebench.cli import options, results
from edgebench.cli.tables import print_table, row, table
from edgebench.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from edgebench.converters.edgetpu_readiness import Readiness
    from edgebench.converters.inspection import FileFacts
    from edgebench.types import TensorSpec


def add_to(app: typer.Typer) -> None:
    app.command(
        "inspect",
        short_help="What a .tflite or .onnx file holds.",
        epilog="Example:  edgebench inspect model_int8.tflite",
    )(inspect)
    app.command("recipes", short_help="List the recipes.", epilog="Example:  edgebench recipes --json")(recipes)
    app.command(
        "report",
        short_help="Show a run again, in any format.",
        epilog="Example:  edgebench report runs/mymodel --format markdown",
    )(report)


def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .tflite or .onnx file.")],
    as_json: options.Json = False,
) -> None:
    """Show what a converted file holds: inputs and outputs, operators, precision, weights, MACs."""
    from edgebench.codec import to_plain
    from edgebench.converters import edgetpu_readiness, inspection

    facts = inspection.read(file)
    from edgebench.types import Format

    readiness = edgetpu_readiness.read(file) if facts.format is Format.TFLITE else None
    if as_json:
        told = to_plain(facts) | ({"edgetpu": to_plain(readiness)} if readiness else {})
        results.print_text(json.dumps(told, indent=2))
        return
    from rich.console import Console

    console = Console(width=results.terminal_width())
    console.print(_headline(file, facts), markup=False, highlight=False)
    console.print(_tensors(facts))
    console.print(_operators(facts))
    if readiness:
        console.print(_edgetpu_headline(readiness), markup=False, highlight=False)
        if not readiness.blocker and not readiness.is_ready:
            console.print(_defects(readiness))


def recipes(as_json: options.Json = False) -> None:
    """List the recipes: yours in ./converters first, then the shipped ones."""
    from edgebench.codec import to_plain
    from edgebench.converters.recipes import catalogue

    recipes = catalogue().values()
    if as_json:
        results.print_text(json.dumps([to_plain(recipe) for recipe in recipes], indent=2))
        return
    found = table("recipe", "scheme", "inputs/outputs", "default", "what it is")
    for recipe in recipes:
        is_default = "yes" if recipe.default else ""
        row(found, recipe.name, recipe.scheme, recipe.io_dtype, is_default, recipe.description)
    print_table(found)


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    format: Annotated[str, typer.Option(help="table, markdown, csv, json or html.")] = "table",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write to this file, not stdout.")] = None,
    as_json: options.Json = False,
) -> None:
    """Show a run again, in any format. Nothing is measured."""
    from edgebench import reports

    chosen = "json" if as_json else format
    if chosen not in reports.FORMATS:
        raise ConfigError(f"--format {chosen}: unknown; possible: {', '.join(reports.FORMATS)}")
    with results.open_store(run) as store:
        text = reports.render(store.run(), store.records(), chosen, width=results.terminal_width())
    if out is None:
        results.print_text(text)
    else:
        out.write_text(text, encoding="utf-8")


def _headline(file: Path, facts: FileFacts) -> str:
    census = facts.census
    macs = f"{census.macs / 1e6:,.2f} million MACs a run" if census.macs is not None else "MACs unknown (open shapes)"
    weights = ", ".join(f"{kind} {size:,} bytes" for kind, size in sorted(census.weight_bytes.items()))
    lines = [
        f"{file.name}: {facts.format}, {census.precision}, {facts.size_bytes:,} bytes in {len(facts.files)} file(s)",
        f"{census.parameters:,} parameters ({weights}); {macs}; batch {facts.batch or 'open'}",
    ]
    if census.float_ops:
        floats = ", ".join(f"{count} {op}" for op, count in sorted(census.float_ops.items()))
        lines.append(f"operators that compute in float: {floats}")
    return "\n".join(lines)


def _tensors(facts: FileFacts) -> Table:
    found = table("", "name", "shape", "type", "quantization")
    for kind, specs in (("input", facts.inputs), ("output", facts.outputs)):
        for spec in specs:
            shape = " x ".join("?" if size is None else str(size) for size in spec.shape)
            row(found, kind, spec.name, shape, spec.dtype, _quantization(spec))
    return found


def _quantization(spec: TensorSpec) -> str:
    q = spec.quantization
    if q is None:
        return ""
    if q.axis is None:
        return f"scale {q.scales[0]:.6g}, zero point {q.zero_points[0]}"
    return f"{len(q.scales)} scales on axis {q.axis}"


def _operators(facts: FileFacts) -> Table:
    found = table("operator", "version", "computes in", "count")
    for op in sorted(facts.ops, key=lambda op: (-op.count, op.name)):
        row(found, op.name, "" if op.version is None else str(op.version), op.precision, str(op.count))
    return found


def _edgetpu_headline(readiness: Readiness) -> str:
    if readiness.blocker:
        return f"Edge TPU: not ready: {readiness.blocker}"
    words = "ready" if readiness.is_ready else "not ready as a whole"
    lines = [f"Edge TPU: {words}; {readiness.mapped} of {readiness.total} operators would run on it"]
    if first := readiness.first_cpu_op:
        lines.append(f"its part ends at op {first.index}, {first.name}, the first that would run on the CPU")
    lines.append(
        f"weights {readiness.weight_bytes / 1e6:.2f} MB; the chip holds about {readiness.on_chip_bytes / 1e6:.0f} MB"
    )
    return "\n".join([*lines, *readiness.notes])


def _defects(readiness: Readiness) -> Table:
    found = table("op", "operator", "version", "why not on the Edge TPU", "what to do")
    for op in readiness.ops:
        if op.reason:
            row(found, str(op.index), op.name, str(op.version), op.reason, op.remedy or "")
    return found
