"""What was asked: a model, data, and the axes whose combinations are the cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from edgebench.types import Budget, Format, Plan, Preprocess, Recipe, Target, Task

RUNTIMES = {
    "litert": Format.TFLITE,
    "tflite-runtime": Format.TFLITE,
    "onnxruntime": Format.ONNX,
    "benchmark_model": Format.TFLITE,
    "litert_benchmark_model": Format.TFLITE,
    "onnxruntime_perf_test": Format.ONNX,
}
# Of the official programs, which are asked for as RUNTIME:DELEGATE; the others run on what their device is.
DELEGATES = {
    "benchmark_model": ("cpu", "gpu", "nnapi", "external"),
    "litert_benchmark_model": ("cpu", "gpu", "npu"),
    "onnxruntime_perf_test": ("cpu", "nnapi", "xnnpack", "qnn"),
}
MOST_THREADS = 1024  # runtimes crash when they are asked for more than the system gives
DEFAULT_CALIBRATION = 100
DEFAULT_RUNTIMES = ("litert", "onnxruntime")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """A MODEL as the user named it. `trust` lets a file that carries code run it."""

    source: str
    weights: Path | None = None
    trust: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """DATA as the user named it; None is seeded synthetic input, good for latency only.

    `calibration` and `evaluation` count samples; evaluation None is all, up to 1000.
    """

    source: str | None = None
    calibration_source: str | None = None
    calibration: int = DEFAULT_CALIBRATION
    evaluation: int | None = None
    seed: int = 0
    task: Task | None = None
    preprocess: Preprocess | None = None

    def __post_init__(self) -> None:
        if self.calibration < 1:
            raise ValueError(f"data calibration: {self.calibration}; at least 1 sample is needed")
        if self.evaluation is not None and self.evaluation < 1:
            raise ValueError(f"data evaluation: {self.evaluation}; at least 1 sample is needed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """Where and how files are measured. A batch of None is an open batch, measured with one sample."""

    devices: tuple[str, ...] = ("host",)
    runtimes: tuple[str, ...] = DEFAULT_RUNTIMES
    threads: tuple[int, ...] = (1,)
    batches: tuple[int | None, ...] = (1,)
    plan: Plan = field(default_factory=Plan)

    def __post_init__(self) -> None:
        for axis in ("devices", "runtimes", "threads", "batches"):
            _refuse_empty_or_twice(axis, getattr(self, axis))
        for asked in self.runtimes:
            runtime, delegate = split_runtime(asked)
            if runtime not in RUNTIMES:
                raise ValueError(f"runtimes: '{runtime}' is unknown; possible: {', '.join(RUNTIMES)}")
            if ":" in asked and delegate not in DELEGATES.get(runtime, ()):
                possible = ", ".join(f"{runtime}:{name}" for name in DELEGATES.get(runtime, ())) or runtime
                raise ValueError(f"runtimes: '{asked}' is unknown; possible: {possible}")
        if min(self.threads) < 1 or max(self.threads) > MOST_THREADS:
            raise ValueError(f"threads: {', '.join(map(str, self.threads))}; each must be from 1 to {MOST_THREADS}")
        if any(batch is not None and batch < 1 for batch in self.batches):
            raise ValueError("batches: each must be at least 1, or open")

    def targets(self, format: Format) -> Iterator[Target]:
        """Where a file of `format` is measured: each device, each asked runtime of the format, each thread count."""
        for device in self.devices:
            for runtime, delegate in map(split_runtime, self.runtimes):
                if RUNTIMES[runtime] is format:
                    for threads in self.threads:
                        yield Target(device=device, runtime=runtime, threads=threads, delegate=delegate)


def split_runtime(asked: str) -> tuple[str, str]:
    """The runtime and the delegate in `benchmark_model:gpu`; without one it is the CPU."""
    runtime, colon, delegate = asked.partition(":")
    return runtime, delegate if colon else "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Every combination of recipe, batch, device, runtime of the recipe's format, and thread count is one cell."""

    name: str
    model: ModelSource
    data: DataSource
    recipes: tuple[Recipe, ...]
    axes: Axes = field(default_factory=Axes)
    budget: Budget = field(default_factory=Budget)

    def __post_init__(self) -> None:
        _refuse_empty_or_twice("recipes", tuple(recipe.name for recipe in self.recipes))


def _refuse_empty_or_twice(axis: str, values: tuple[object, ...]) -> None:
    if not values:
        raise ValueError(f"{axis}: empty; at least one is needed")
    if len(set(values)) < len(values):
        raise ValueError(f"{axis}: one is named twice")
