"""From a baseline to an artifact: choose the route, export in float, quantize, read the file back, check what it is.

Both steps run in a child process and use the baseline's snapshot only. The float file of a format is made once and
every recipe of that format starts from it, so that a recipe's error can be split into conversion and quantization.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from edgebench import environments
from edgebench.arrays import Array
from edgebench.converters import edgetpu_compiler, inspection
from edgebench.converters.artifact_files import exported_again, keep, workshop
from edgebench.converters.exported import Exported
from edgebench.errors import RefusedError, StageError
from edgebench.naming import file_name
from edgebench.types import (
    Artifact,
    Baseline,
    Binding,
    Caution,
    Format,
    Framework,
    Precision,
    Recipe,
    SampleSet,
    Scheme,
)

if TYPE_CHECKING:
    from edgebench.converters.inspection import FileFacts

# The packages whose version changes what a route writes: part of the key under which an artifact is reused. What the
# side environment of ONNX to .tflite holds comes on top.
_TOOLS = (
    "tensorflow-cpu",
    "tensorflow",
    "torch",
    "litert-torch",
    "ai-edge-quantizer",
    "onnx",
    "onnxscript",
    "onnxruntime",
    "tf2onnx",
)


class FloatRoute(Protocol):
    """One module a pair of source and format: writes the float file `out` and says which tensor is which."""

    def __call__(self, baseline: Baseline, run_folder: Path, out: Path, batch: int | None) -> Exported: ...


def float_route(framework: Framework, format: Format) -> FloatRoute:
    """The exporter from a baseline's framework to a format."""
    from edgebench.converters import (
        onnx_onnx,
        onnx_tensorflow,
        onnx_tflite,
        onnx_torch,
        tflite_onnx,
        tflite_tensorflow,
        tflite_tflite,
        tflite_torch,
    )

    routes: dict[tuple[Framework, Format], FloatRoute] = {
        (Framework.TENSORFLOW, Format.TFLITE): tflite_tensorflow.export,
        (Framework.TORCH, Format.TFLITE): tflite_torch.export,
        (Framework.ONNX, Format.TFLITE): tflite_onnx.export,
        (Framework.TFLITE, Format.TFLITE): tflite_tflite.export,
        (Framework.TENSORFLOW, Format.ONNX): onnx_tensorflow.export,
        (Framework.TORCH, Format.ONNX): onnx_torch.export,
        (Framework.ONNX, Format.ONNX): onnx_onnx.export,
        (Framework.TFLITE, Format.ONNX): onnx_tflite.export,
    }
    return routes[framework, format]


def export_float(baseline: Baseline, format: Format, run_folder: Path, batch: int | None) -> Artifact:
    """The baseline as a float file of `format` at a fixed batch (None: open), read back."""
    started = time.monotonic()
    with workshop(run_folder) as folder:
        out = folder / f"{file_name(baseline.name)}_{format}-fp32.{format}"
        try:
            exported = float_route(baseline.framework, format)(baseline, run_folder, out, batch)
        except RefusedError:
            raise
        except StageError as error:
            if doubt := _float64_doubt(baseline):
                raise RefusedError(f"{doubt}: {error}") from error
            raise
        facts = inspection.read(exported.path)
        if facts.census.precision is not Precision.FP32:
            found = f"the float {format} export is {facts.census.precision}, not fp32: {_census_text(facts)}"
            if doubt := _float64_doubt(baseline):
                raise RefusedError(f"{doubt}: {found}")
            raise StageError(found)
        return keep(
            exported,
            facts,
            run_folder,
            batch=batch,
            baseline_sha256=baseline.sha256,
            seconds=time.monotonic() - started,
        )


def quantize(
    baseline: Baseline, float_artifact: Artifact, recipe: Recipe, calibration: SampleSet | None, run_folder: Path
) -> Artifact:
    """The float file made into what `recipe` asks for, read back and refused when it is something else.

    A recipe with a compiler has its quantized file compiled as well.

    Raises:
        RefusedError: the recipe needs calibration samples and there are none, or the result is not what it asked for.
        MissingError: its compiler is not installed.
    """
    if recipe.scheme is Scheme.FP32:
        return replace(float_artifact, recipe=recipe)
    started = time.monotonic()
    with workshop(run_folder) as folder:
        out = folder / f"{file_name(baseline.name)}_{file_name(recipe.name)}.{recipe.format}"
        exported = _quantized(
            baseline,
            exported_again(float_artifact, run_folder, folder / "float"),
            recipe,
            calibration,
            run_folder,
            out,
            float_artifact.batch,
        )
        facts = inspection.read(out)
        cautions = check_precision(recipe, facts)
        artifact = keep(
            exported,
            facts,
            run_folder,
            batch=float_artifact.batch,
            baseline_sha256=baseline.sha256,
            seconds=time.monotonic() - started,
        )
        artifact = replace(
            artifact,
            recipe=recipe,
            calibration_sha256=calibration.sha256 if recipe.calibration and calibration else None,
            cautions=artifact.cautions + cautions,
        )
    if recipe.compiler is None:
        return artifact
    compiled = edgetpu_compiler.compile(artifact, run_folder)
    return replace(compiled, conversion_s=time.monotonic() - started)


def check_precision(recipe: Recipe, facts: FileFacts) -> tuple[Caution, ...]:
    """Cautions about a file that is partly float; RefusedError when it is not what the recipe asked for.

    Integer inputs and outputs are asked for by hardware that has no float unit, so there every operator must be
    integer, unless the recipe itself keeps some in float.
    """
    wanted = {
        Scheme.FP32: Precision.FP32,
        Scheme.FP16: Precision.FP16,
        Scheme.DYNAMIC_INT8: Precision.DYNAMIC_INT8,
        Scheme.WEIGHT_ONLY_INT8: Precision.WEIGHT_ONLY_INT8,
        Scheme.WEIGHT_ONLY_INT4: Precision.WEIGHT_ONLY_INT4,
        Scheme.INT8: Precision.FULL_INT8,
        Scheme.INT16X8: Precision.INT16X8,
    }[recipe.scheme]
    found = facts.census.precision
    if found is wanted:
        return ()
    if found is not Precision.MIXED:
        raise RefusedError(f"recipe '{recipe.name}' asks for {wanted}, the file is {found}: {_census_text(facts)}")
    floats = ", ".join(f"{count} {op}" for op, count in sorted(facts.census.float_ops.items()))
    if recipe.io_dtype in ("int8", "uint8") and not recipe.keep_float:
        raise RefusedError(
            f"recipe '{recipe.name}' asks for integers only, but these operators stay in float: {floats}; "
            "take a recipe with float inputs and outputs, or name them in its `keep_float`"
        )
    return (
        Caution(
            code="partly-float",
            message=f"these operators compute in float: {floats}; the rest is as asked",
            advice="see why, operator by operator, with `edgebench inspect FILE`",
        ),
    )


def artifact_key(
    baseline: Baseline, format: Format, recipe: Recipe | None, calibration: SampleSet | None, batch: int | None
) -> str:
    """The name under which an artifact is reused: everything that decides its bytes. Recipe None is the float file."""
    from edgebench.codec import to_json

    said = replace(recipe, name="-", description="", default=False) if recipe else None
    parts = [
        baseline.sha256,
        format,
        to_json(said) if said else "float",
        calibration.sha256 if calibration and recipe and recipe.calibration else "-",
        str(batch),
        *(f"{tool}={_version(tool)}" for tool in _TOOLS),
    ]
    if baseline.framework is Framework.ONNX and format is Format.TFLITE:
        parts += environments.requirements("onnx2tf")
    if recipe and recipe.compiler == "edgetpu":
        parts.append(f"{edgetpu_compiler.PROGRAM}={edgetpu_compiler.version()}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _quantized(
    baseline: Baseline,
    float_file: Exported,
    recipe: Recipe,
    calibration: SampleSet | None,
    run_folder: Path,
    out: Path,
    batch: int | None,
) -> Exported:
    from edgebench.converters import quantize_onnx, quantize_tflite, tflite_file, tflite_tensorflow

    samples, cautions = _calibration_samples(recipe, calibration, run_folder)
    if recipe.route == "tensorflow":
        if baseline.framework is not Framework.TENSORFLOW:
            raise RefusedError(
                f"recipe '{recipe.name}': route tensorflow starts from a TensorFlow model, "
                f"this one is {baseline.framework}; take the recipe without `route`"
            )
        if recipe.scheme.needs_calibration:
            quantize_tflite.refuse_loops(recipe, tflite_file.load(float_file.path), "TensorFlow's quantizer")
        done, inputs, outputs = tflite_tensorflow.quantize(baseline, run_folder, recipe, samples, out, batch)
        float_file = replace(float_file, inputs=inputs, outputs=outputs, tool_versions={}, cautions=())
        route = done.route
    else:
        feeds = samples and {b.tensor.name: _permuted(samples[b.baseline], b) for b in float_file.inputs}
        quantizer = quantize_tflite.quantize if recipe.format is Format.TFLITE else quantize_onnx.quantize
        done = quantizer(float_file, recipe, feeds, out)
        route = f"{float_file.route} -> {done.route}"
    return replace(
        float_file,
        path=out,
        route=route,
        tool_versions={**float_file.tool_versions, **done.tool_versions},
        cautions=float_file.cautions + cautions + done.cautions,
    )


def _calibration_samples(
    recipe: Recipe, calibration: SampleSet | None, run_folder: Path
) -> tuple[dict[str, Array] | None, tuple[Caution, ...]]:
    """As many of the prepared samples as the recipe asks for, drawn by its seed; a caution where the counts differ."""
    if recipe.calibration is None:
        return None, ()
    if calibration is None:
        raise RefusedError(
            f"recipe '{recipe.name}' needs calibration samples and there are none: give --data with 2 samples or more, "
            "or --calibration"
        )
    from edgebench.data.samples import open_samples

    inputs = open_samples(run_folder, calibration).inputs
    asked, n = recipe.calibration.samples, calibration.n
    if asked == n:
        return dict(inputs), ()
    if asked > n:
        return dict(inputs), (
            Caution(
                code="few-calibration-samples",
                message=f"recipe '{recipe.name}' asks for {asked} calibration samples, {n} are prepared and used",
                advice=f"where the data has more, give --calibration-samples {asked} (in a matrix: "
                "data.calibration_samples)",
            ),
        )
    # Prepared samples may be sorted by class: the first ones would leave classes out.
    chosen = np.sort(np.random.default_rng(recipe.calibration.seed).permutation(n)[:asked])
    return {name: array[chosen] for name, array in inputs.items()}, (
        Caution(
            code="calibration-samples-unused",
            message=f"{n} calibration samples are prepared, recipe '{recipe.name}' takes {asked} of them, which counts",
            advice=f"for all calibration samples take a copy of the recipe's YAML file with `samples: {n}`",
        ),
    )


def _permuted(array: Array, binding: Binding) -> Array:
    return array if binding.permutation is None else array.transpose(binding.permutation)


def _float64_doubt(baseline: Baseline) -> str | None:
    double = [spec.name for spec in (*baseline.inputs, *baseline.outputs) if spec.dtype == "float64"]
    if not double:
        return None
    return (
        f"model '{baseline.name}' takes or gives float64 ('{double[0]}'), files for devices are float32; build it in "
        "float32 (torch: model.float())"
    )


def _census_text(facts: FileFacts) -> str:
    return ", ".join(f"{op.count} {op.name} in {op.precision}" for op in facts.ops[:12])


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
