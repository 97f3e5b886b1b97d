"""Records as a real run makes them, for the tests of every view: ok, noisy, few samples, failed, refused, simulated."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from edgebench.store import RunInfo
from edgebench.types import (
    Artifact,
    Binding,
    Caution,
    Census,
    Conditions,
    Divergence,
    Estimate,
    Evaluation,
    Format,
    Measurement,
    Origin,
    OutputError,
    Plan,
    Precision,
    Record,
    Round,
    SliceError,
    Split,
    Status,
    Target,
    Task,
    TensorSpec,
)

AT = "2026-12-01T09:30:00Z"
SAME = OutputError(sqnr_db=math.inf, cosine=1.0, max_abs_error=0.0, mean_abs_error=0.0)


def run(**changes: object) -> RunInfo:
    info = RunInfo(
        name="lite0-on-everything",
        command=(
            "edgebench",
            "convert+measure",
            "zoo:efficientnet-lite0",
            "--data",
            "my photos/",
            "--recipe",
            "tflite-int8",
        ),
        created_at=AT,
        model="zoo:efficientnet-lite0",
        data="photos/",
        cautions=(
            Caution(
                code="calibration-range",
                message="calibration inputs span -1.00..0.42, evaluation inputs -1.00..1.00: bright images will clip",
                advice="add brighter images to the calibration set",
            ),
        ),
        environment={
            "edgebench": "0.1.0",
            "python": "3.11.9",
            "cpu": "Xeon 8481C",
            "os": "Linux 6.1",
            "numpy": "1.26.4",
        },
    )
    return replace(info, **changes)  # type: ignore[arg-type]


def rounds(p50_ms: float, *, n: int = 60, count: int = 5, between: float = 0.003, seed: int = 1) -> tuple[Round, ...]:
    """Rounds whose samples spread by about 1 % with a tail, and whose levels differ by `between` (a fraction)."""
    chance = random.Random(seed)
    made = []
    for index in range(count):
        level = p50_ms * 1e6 * math.exp(chance.gauss(0, between))
        samples = [int(level * (1 + 0.01 * chance.expovariate(1))) for _ in range(n)]
        conditions = Conditions(
            at=AT, temperature_c=48.0, load_1min=0.3, governor="performance", free_memory_bytes=8 << 30
        )
        made.append(
            Round(
                index=index,
                latencies_ns=tuple(samples),
                warmup_ns=(int(level * 1.5), int(level * 1.1), int(level)),
                load_ns=41_000_000 + index * 1000,
                first_ns=int(level * 3),
                peak_rss_bytes=61_000_000 + index * 4096,
                runtime_version="2.3.0",
                delegate="cpu",
                delegated_fraction=1.0,
                affinity=(0,),
                before=conditions,
                after=conditions,
                cpu_time_ns=int(sum(samples) * 0.99),
                involuntary_switches=2,
            )
        )
    return tuple(made)


def artifact(precision: Precision, size_bytes: int, format: Format = Format.TFLITE, **changes: object) -> Artifact:
    spec = TensorSpec(name="input", shape=(1, 224, 224, 3), dtype="float32", layout="NHWC")
    logits = TensorSpec(name="logits", shape=(1, 1000), dtype="float32")
    made = Artifact(
        format=format,
        files=(f"artifacts/{precision}.{format}",),
        sha256=f"{precision}-{format}".ljust(64, "0"),
        size_bytes=size_bytes,
        inputs=(Binding(tensor=spec, baseline="input"),),
        outputs=(Binding(tensor=logits, baseline="logits"),),
        census=Census(
            precision=precision,
            ops={"CONV_2D:int8": 33},
            weight_bytes={"int8": size_bytes},
            parameters=4_652_008,
            macs=385_000_000,
        ),
        batch=1,
        route="litert-torch + ai-edge-quantizer",
        tool_versions={"litert-torch": "0.10.0", "ai-edge-quantizer": "0.10.0"},
        conversion_s=3.2,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def divergence(sqnr_db: float, agreement: float | None) -> Divergence:
    size = 10 ** (-sqnr_db / 20)
    output = OutputError(
        sqnr_db=sqnr_db,
        cosine=1 - size**2 / 2,
        max_abs_error=8 * size,
        mean_abs_error=2 * size,
        slices=(
            SliceError(index=417, sqnr_db=sqnr_db - 6, max_abs_error=8 * size),
            SliceError(index=3, sqnr_db=sqnr_db - 4, max_abs_error=6 * size),
        ),
    )
    return Divergence(
        outputs={"logits": output},
        agreement=None if agreement is None else estimate(agreement, 0.02),
        agreement_clear=None if agreement is None else estimate(min(1.0, agreement + 0.03), 0.01, n=310),
    )


def estimate(value: float, half: float, n: int = 400) -> Estimate:
    return Estimate(value=value, low=value - half, high=min(value + half, max(1.0, value)), n=n)


def evaluation(top1: float | None, sqnr_db: float, agreement: float | None) -> Evaluation:
    same = Divergence(outputs={"logits": SAME})
    return Evaluation(
        task=None if agreement is None else Task.CLASSIFICATION,
        n=400,
        metrics={} if top1 is None else {"top1": estimate(top1, 0.04), "top5": estimate(top1 + 0.17, 0.02)},
        baseline_metrics={} if top1 is None else {"top1": estimate(0.752, 0.04), "top5": estimate(0.924, 0.02)},
        divergence=divergence(sqnr_db, agreement),
        split=Split(
            conversion=divergence(118.0, None if agreement is None else 1.0),
            quantization=divergence(sqnr_db, agreement) if sqnr_db < 90 else same,
            device=same,
        ),
        drop_pp=None
        if top1 is None
        else Estimate(value=100 * (0.752 - top1), low=-0.4, high=100 * (0.752 - top1) + 1.1, n=400),
        drop_p_value=None if top1 is None else 0.21,
    )


def record(recipe: str, **changes: object) -> Record:
    runtime = "onnxruntime" if recipe.startswith("onnx") else "litert"
    made = Record(
        cell=f"cell-{recipe}",
        status=Status.OK,
        model="efficientnet-lite0",
        device="host",
        runtime=runtime,
        threads=1,
        delegate="cpu",
        batch=1,
        at=AT,
        recipe=recipe,
        target=Target(device="host", runtime=runtime),
        plan=Plan(),
        environment={"host": "Xeon 8481C"},
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def measured(p50_ms: float, *, origin: Origin = Origin.MEASURED, **how: object) -> Measurement:
    return Measurement(rounds=rounds(p50_ms, **how), origin=origin)  # type: ignore[arg-type]


def records() -> tuple[Record, ...]:
    """Ten cells in the order in which they were asked."""
    onnx = Format.ONNX
    return (
        record(
            "tflite-fp32",
            artifact=artifact(Precision.FP32, 18_580_000),
            measurement=measured(9.41, seed=1),
            evaluation=evaluation(0.752, 118.0, 1.0),
        ),
        record(
            "tflite-int8",
            artifact=artifact(Precision.FULL_INT8, 5_270_000),
            measurement=measured(4.21, seed=2),
            evaluation=evaluation(0.741, 25.4, 0.963),
        ),
        record(
            "tflite-dynamic-int8",
            artifact=artifact(Precision.DYNAMIC_INT8, 5_100_000),
            measurement=measured(20.7, between=0.5, seed=3),
            evaluation=evaluation(0.745, 27.1, 0.97),
        ),
        record(
            "tflite-int16x8",
            artifact=artifact(Precision.INT16X8, 5_400_000),
            measurement=measured(258.0, n=5, count=2, seed=4),
            evaluation=evaluation(0.751, 41.0, 0.99),
        ),
        record(
            "tflite-fp16",
            status=Status.FAILED,
            stage="convert",
            reason="quantizing to fp16 was ended by SIGSEGV; its output: logs/quantize-tflite-fp16.log",
        ),
        record(
            "onnx-fp32",
            artifact=artifact(Precision.FP32, 18_600_000, onnx),
            measurement=measured(9.63, seed=5),
            evaluation=replace(evaluation(0.752, 112.0, 1.0), divergence=Divergence(outputs={"logits": SAME})),
        ),
        record(
            "onnx-int8",
            artifact=artifact(Precision.FULL_INT8, 5_420_000, onnx),
            measurement=measured(4.35, seed=6),
            evaluation=evaluation(0.738, 24.9, 0.951),
        ),
        record(
            "onnx-dynamic-int8",
            status=Status.REFUSED,
            stage="quantize",
            reason="the model has no MatMul that dynamic quantization could take",
        ),
        record(
            "tflite-int8",
            cell="cell-tflite-int8-phone",
            device="virtual-phone",
            artifact=artifact(Precision.FULL_INT8, 5_270_000),
            measurement=measured(7.7, origin=Origin.SIMULATED, seed=7),
            evaluation=evaluation(0.741, 25.4, 0.963),
        ),
        record("onnx-fp16", status=Status.SKIPPED, stage="convert", reason="not asked: --recipe named others"),
    )


def without_labels() -> tuple[Record, ...]:
    """The same cells where the data had no labels: agreement and errors only."""
    return tuple(
        replace(
            one, evaluation=replace(one.evaluation, metrics={}, baseline_metrics={}, drop_pp=None, drop_p_value=None)
        )
        if one.evaluation
        else one
        for one in records()
    )


HOSTILE = (
    "<script>alert('x')</script> \"quoted\" | `tick` $\\frac{ =cmd|'/c calc'!A1 \x1b[31m \u202e 模型 é " + "long" * 60
)


def hostile() -> tuple[RunInfo, tuple[Record, ...]]:
    """A run in which every text that someone else wrote tries to break the page."""
    good = records()[1]
    assert good.artifact is not None
    assert good.evaluation is not None
    named = replace(
        good,
        cell="cell-hostile",
        model=HOSTILE,
        recipe="=cmd" + HOSTILE,
        device=HOSTILE,
        artifact=replace(good.artifact, cautions=(Caution(code="odd<b>", message=HOSTILE, advice=HOSTILE),)),
        evaluation=replace(
            good.evaluation,
            metrics={HOSTILE: estimate(0.5, 0.1)},
            divergence=Divergence(outputs={HOSTILE: SAME}),
        ),
    )
    failed = record(HOSTILE, cell="cell-failed", status=Status.FAILED, stage="convert", reason=HOSTILE)
    info = run(
        name=HOSTILE, model=HOSTILE, data=HOSTILE, command=("edgebench", HOSTILE), environment={HOSTILE: HOSTILE}
    )
    return info, (good, named, failed)
