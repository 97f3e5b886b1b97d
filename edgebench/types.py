"""The nouns of edgebench: frozen values that one stage makes and the next one takes. Imports nothing of ours.

A value holds, or names by content hash, the value it came from, so that a `Record` alone answers which model, recipe,
file, device, runtime and conditions a number belongs to. Impossible values are refused when they are made.

They are one module on purpose: each builds on those above it in the order of the stages, and a `Record` holds them all,
so that reading from top to bottom tells the whole story: words of few values; tensors; model and data; recipe and file;
device and plan; latency; accuracy; record.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

Layout = Literal["NHWC", "NCHW"]

MOST_RUNS = 10_000_000  # of one round: its raw latencies are kept, in memory and in the store


class Framework(StrEnum):
    """What a baseline's snapshot is made of: a SavedModel folder, a .pt2, an .onnx or a .tflite file."""

    TENSORFLOW = "tensorflow"
    TORCH = "torch"
    ONNX = "onnx"
    TFLITE = "tflite"


class Format(StrEnum):
    TFLITE = "tflite"
    ONNX = "onnx"


class Scheme(StrEnum):
    """What a recipe asks for."""

    FP32 = "fp32"
    FP16 = "fp16"
    DYNAMIC_INT8 = "dynamic-int8"
    WEIGHT_ONLY_INT8 = "weight-only-int8"
    WEIGHT_ONLY_INT4 = "weight-only-int4"
    INT8 = "int8"
    INT16X8 = "int16x8"

    @property
    def needs_calibration(self) -> bool:
        return self in (Scheme.INT8, Scheme.INT16X8)


class Precision(StrEnum):
    """What a file really is, read back from its operators and tensors."""

    FP32 = "fp32"
    FP16 = "fp16"
    FULL_INT8 = "full-int8"
    DYNAMIC_INT8 = "dynamic-int8"
    WEIGHT_ONLY_INT8 = "weight-only-int8"
    WEIGHT_ONLY_INT4 = "weight-only-int4"
    INT16X8 = "int16x8"
    MIXED = "mixed"


class Task(StrEnum):
    CLASSIFICATION = "classification"
    REGRESSION = "regression"
    EMBEDDING = "embedding"
    DETECTION = "detection"
    SEGMENTATION = "segmentation"


class Status(StrEnum):
    """How a cell ended. `refused` was never tried because it can't be right; `skipped` can't be done on this target."""

    OK = "ok"
    FAILED = "failed"
    REFUSED = "refused"
    SKIPPED = "skipped"


class Origin(StrEnum):
    MEASURED = "measured"
    SIMULATED = "simulated"
    EMULATED = "emulated"


class Verdict(StrEnum):
    """Whether a latency can be trusted."""

    STABLE = "stable"
    NOISY = "noisy"
    THROTTLED = "throttled"
    TOO_FEW = "too-few"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """A doubt with a name. `message` says what was seen and the likely cause.

    `advice` is what to do next, one clause that makes sense without the message; empty where nothing can be done, and
    in records of before it was kept apart.
    """

    code: str
    message: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """real = scale * (integer - zero_point), with one scale for the tensor (axis None) or one an index of `axis`."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    def __post_init__(self) -> None:
        if not self.scales or len(self.scales) != len(self.zero_points):
            raise ValueError(f"{len(self.scales)} scales do not fit {len(self.zero_points)} zero points")
        if any(scale <= 0 for scale in self.scales):
            raise ValueError("a scale must be above 0; a file's scale of 0 means 'not quantized', which is None here")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """A model's input or output. `shape` counts the batch; None is an open dimension. `dtype` is numpy's name."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str
    layout: Layout | None = None
    quantization: Quantization | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preprocess:
    """How an image becomes a model's input: recorded, and applied once, so that every device gets the same bytes.

    pixel = (value * scale - mean) / std, channel by channel, on 0-255 values in `channels` order.
    `short-side` resizes the shorter side to size / crop_fraction and takes the middle; `stretch` ignores the aspect
    ratio.
    """

    height: int
    width: int
    resize: Literal["short-side", "stretch"] = "short-side"
    crop_fraction: float = 1.0
    scale: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    channels: Literal["RGB", "BGR", "gray"] = "RGB"
    layout: Layout = "NHWC"
    dtype: str = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The float model that everything is compared with, as a snapshot that loads without the user's code.

    `path` is the snapshot (SavedModel folder, .pt2, .onnx, .tflite), relative to the run folder; `sha256` covers all of
    its files. `inputs` and `outputs` carry the names that every later stage matches by.
    """

    name: str
    framework: Framework
    source: str
    path: str
    sha256: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    parameters: int
    task: Task | None = None
    preprocess: Preprocess | None = None
    cautions: tuple[Caution, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSet:
    """Prepared samples in a folder (relative to the run folder); `edgebench.data.samples` reads and writes it.

    `n` counts samples, `sha256` covers inputs, labels and targets. `purpose` is evaluation or calibration.
    """

    purpose: Literal["evaluation", "calibration"]
    path: str
    n: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedData:
    """The same bytes for every runtime and device. Cautions are the calibration audit's and the unused arrays'."""

    source: str
    task: Task | None
    evaluation: SampleSet
    calibration: SampleSet | None
    classes: tuple[str, ...] = ()
    preprocess: Preprocess | None = None
    cautions: tuple[Caution, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How activation ranges are found. `percentile` counts only for the method of that name."""

    method: Literal["min-max", "percentile"] = "min-max"
    percentile: float = 99.99
    samples: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"calibration samples: {self.samples}; at least 1 is needed")
        if not 50 < self.percentile <= 100:
            raise ValueError(f"calibration percentile: {self.percentile}; it must be above 50 and at most 100")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What to turn a baseline into; data in `converters/*.yaml`.

    `io_dtype` is the type that the baseline's float inputs and outputs get in a quantized file. `route` names the
    quantizer when it is not the usual one of the format. `keep_float` are glob patterns of operator names that stay
    in float. `compiler` names the tool that makes the quantized file into one for an accelerator. `bias_correction`
    puts back, layer by layer, the mean that rounding the weights shifts. `default` recipes are taken when the user
    names none.
    """

    name: str
    format: Format
    scheme: Scheme
    description: str = ""
    io_dtype: Literal["float32", "int8", "uint8", "int16"] = "float32"
    granularity: Literal["per-channel", "per-tensor"] = "per-channel"
    calibration: Calibration | None = None
    keep_float: tuple[str, ...] = ()
    route: Literal["tensorflow"] | None = None
    compiler: Literal["edgetpu"] | None = None
    bias_correction: bool = False
    default: bool = False

    def __post_init__(self) -> None:
        if self.scheme.needs_calibration and self.calibration is None:
            raise ValueError(f"recipe '{self.name}': {self.scheme} needs a `calibration` section")
        if not self.scheme.needs_calibration and self.calibration is not None:
            raise ValueError(
                f"recipe '{self.name}': {self.scheme} uses no calibration data; drop the `calibration` section"
            )
        if self.io_dtype in ("int8", "uint8") and self.scheme is not Scheme.INT8:
            raise ValueError(
                f"recipe '{self.name}': {self.io_dtype} inputs and outputs need scheme int8, not {self.scheme}"
            )
        if self.io_dtype == "int16" and self.scheme is not Scheme.INT16X8:
            raise ValueError(f"recipe '{self.name}': int16 inputs and outputs need scheme int16x8, not {self.scheme}")
        if self.format is Format.ONNX and self.io_dtype != "float32":
            raise ValueError(
                f"recipe '{self.name}': ONNX files keep float32 inputs and outputs (QDQ); use io_dtype: float32"
            )
        impossible = {
            Format.ONNX: (Scheme.INT16X8, Scheme.WEIGHT_ONLY_INT8),
            Format.TFLITE: (Scheme.WEIGHT_ONLY_INT4,),
        }[self.format]
        if self.scheme in impossible:
            possible = ", ".join(scheme for scheme in Scheme if scheme not in impossible)
            raise ValueError(f"recipe '{self.name}': {self.format} has no {self.scheme}; possible: {possible}")
        if self.route == "tensorflow" and self.format is not Format.TFLITE:
            raise ValueError(f"recipe '{self.name}': route tensorflow makes .tflite files only")
        if self.granularity == "per-tensor" and self.route == "tensorflow":
            raise ValueError(f"recipe '{self.name}': route tensorflow quantizes weights per channel only")
        if self.compiler == "edgetpu" and (self.format is not Format.TFLITE or self.scheme is not Scheme.INT8):
            raise ValueError(f"recipe '{self.name}': compiler edgetpu takes format tflite and scheme int8 only")
        if self.bias_correction and (self.scheme is not Scheme.INT8 or self.route is not None):
            raise ValueError(f"recipe '{self.name}': bias_correction takes scheme int8 and the usual route only")
        if self.compiler == "edgetpu" and self.route is not None:
            raise ValueError(f"recipe '{self.name}': compiler edgetpu takes the usual route only; drop `route`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """One tensor of a converted file and the baseline's tensor that it stands for.

    `permutation` takes the baseline's axes to the file's: file_array = baseline_array.transpose(permutation); None is
    the same order.
    """

    tensor: TensorSpec
    baseline: str
    permutation: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """What a file holds, read back: operators ("CONV_2D:int8" -> count), weights (dtype -> bytes), parameters and MACs.

    `float_ops` are the operators that compute in float, by name, with their counts. `macs` is for one run at the file's
    batch; None where a shape is open.
    """

    precision: Precision
    ops: dict[str, int]
    weight_bytes: dict[str, int]
    parameters: int
    macs: int | None
    float_ops: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeTpuFacts:
    """What edgetpu_compiler said of a file that it compiled. Sizes are of the parameters.

    `cached_bytes` stay on the chip, which has `cache_left_bytes` left; `streamed_bytes` are sent at each inference;
    None is not said. `cpu_ops` counts the operators that were not mapped, as "NAME: the compiler's reason".
    `plain_file` and its hash are the file that was compiled, which a CPU runs.
    """

    compiler: str
    plain_file: str
    plain_sha256: str
    mapped_ops: int
    total_ops: int
    subgraphs: int | None = None
    cached_bytes: int | None = None
    cache_left_bytes: int | None = None
    streamed_bytes: int | None = None
    cpu_ops: dict[str, int] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The share of the plain file's operators that the Edge TPU runs."""
        return self.mapped_ops / self.total_ops if self.total_ops else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A converted file, described by what was read back from it.

    `files` are relative to the run folder, the model first. `size_bytes` counts every file. `batch` is None where the
    file's batch is open. `recipe` is None for a file that the user brought, as are `conversion_s` and
    `conversion_peak_rss_bytes`: the highest resident memory of the converter's process, its framework included.
    `edgetpu` is there for a file compiled for the Edge TPU; the census is then that of the plain file.
    """

    format: Format
    files: tuple[str, ...]
    sha256: str
    size_bytes: int
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    census: Census
    batch: int | None
    recipe: Recipe | None = None
    baseline_sha256: str | None = None
    calibration_sha256: str | None = None
    route: str = ""
    tool_versions: dict[str, str] = field(default_factory=dict)
    conversion_s: float | None = None
    conversion_peak_rss_bytes: int | None = None
    cautions: tuple[Caution, ...] = ()
    edgetpu: EdgeTpuFacts | None = None

    @property
    def is_for_edgetpu(self) -> bool:
        """Whether it was compiled for the Edge TPU, by edgebench or before; nothing else runs such a file."""
        return self.edgetpu is not None or any(op.startswith("edgetpu-custom-op:") for op in self.census.ops)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialTool:
    """A benchmark program of a runtime's makers: a `path` on this machine, or an https `url` with its `sha256`.

    `external_library` is a delegate on the device that benchmark_model loads, `options` its options or those of an
    execution provider, in the program's own notation; `accelerator` is NNAPI's name for one, `npu_folder` the folder on
    the device with LiteRT's dispatch library.
    """

    path: str | None = None
    url: str | None = None
    sha256: str | None = None
    external_library: str | None = None
    options: str | None = None
    accelerator: str | None = None
    npu_folder: str | None = None

    def __post_init__(self) -> None:
        if (self.path is None) == (self.url is None):
            raise ValueError("needs one of `path` and `url`")
        if self.url is not None and not (self.url.isascii() and self.url.isprintable() and " " not in self.url):
            raise ValueError(f"url: {self.url!r} is no address")
        if self.url is not None and not self.url.startswith("https://"):
            raise ValueError(f"url: '{self.url}' is not https; a program that is run must not come another way")
        if self.url is not None and self.sha256 is None:
            raise ValueError("url: needs the `sha256` of what it gives; get it with: sha256sum FILE")
        if self.sha256 is not None and re.fullmatch("[0-9a-fA-F]{64}", self.sha256) is None:
            raise ValueError(f"sha256: '{self.sha256}' is not 64 hexadecimal digits")
        for name in ("path", "external_library", "options", "accelerator", "npu_folder"):
            value = getattr(self, name)
            if value is not None and not (value.isprintable() and value.strip() == value and value):
                raise ValueError(f"{name}: {value!r} is empty, or holds characters that no {name} has")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialTools:
    """The official programs of a device, each the name of a runtime; None where it has none."""

    benchmark_model: OfficialTool | None = None
    litert_benchmark_model: OfficialTool | None = None
    onnxruntime_perf_test: OfficialTool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """A device of the inventory; data in `devices/*.yaml`. A driver of `edgebench.devices` makes it do things.

    `address` is the driver's own; `python` a Python on the device that has the runtimes, `folder` where the work folder
    is made there, `runner` what runs models: the Python runner or the native kit. None is the usual way.
    """

    name: str
    driver: str
    address: str | None = None
    description: str = ""
    python: str | None = None
    folder: str | None = None
    runner: Literal["python", "kit"] | None = None
    tools: OfficialTools = field(default_factory=OfficialTools)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where and how an artifact runs. `runtime` is litert, tflite-runtime or onnxruntime.

    `delegate` is cpu, cuda or edgetpu.
    """

    device: str
    runtime: str
    threads: int = 1
    delegate: str = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long to measure: a round is a fresh process that runs until both minimums are met or a maximum is reached.

    `timeout_s` ends a round's process that hangs, `stage_timeout_s` one that converts or evaluates. With `cooldown`
    until-cool a round waits until the device is at most `cool_c` warm and tells no thermal trouble, but no longer than
    `cooldown_max_seconds`.
    """

    rounds: int = 5
    min_runs: int = 50
    min_seconds: float = 1.0
    max_runs: int = 10_000
    max_seconds: float = 10.0
    warmup_min_runs: int = 3
    warmup_max_seconds: float = 2.0
    timeout_s: float = 300.0
    stage_timeout_s: float = 3600.0
    cooldown: Literal["none", "until-cool"] = "none"
    cool_c: float = 45.0
    cooldown_max_seconds: float = 300.0
    seed: int = 0

    def __post_init__(self) -> None:
        times = ("min_seconds", "max_seconds", "warmup_max_seconds", "timeout_s", "stage_timeout_s")
        for name in (*times, "cool_c", "cooldown_max_seconds"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"plan {name}: {getattr(self, name)}; it must be a finite number")
        if self.rounds < 1:
            raise ValueError(f"plan rounds: {self.rounds}; at least 1 is needed, 5 for a verdict")
        if self.min_runs < 1 or self.max_runs < self.min_runs:
            raise ValueError(
                f"plan min_runs {self.min_runs} and max_runs {self.max_runs}: need 1 <= min_runs <= max_runs"
            )
        if self.max_runs > MOST_RUNS:
            raise ValueError(f"plan max_runs {self.max_runs}: at most {MOST_RUNS} runs of a round can be kept")
        if self.min_seconds < 0 or self.max_seconds < self.min_seconds:
            raise ValueError(
                f"plan min_seconds {self.min_seconds} and max_seconds {self.max_seconds}: "
                "need 0 <= min_seconds <= max_seconds"
            )
        if self.timeout_s <= self.max_seconds + self.warmup_max_seconds:
            raise ValueError(f"plan timeout_s {self.timeout_s}: must exceed max_seconds plus warmup_max_seconds")
        if self.cooldown_max_seconds < 0:
            raise ValueError(f"plan cooldown_max_seconds {self.cooldown_max_seconds}: must be 0 or more")
        if self.stage_timeout_s <= 0:
            raise ValueError(f"plan stage_timeout_s {self.stage_timeout_s}: must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The state of a device at one moment; None is unreadable there."""

    at: str  # UTC, ISO 8601
    temperature_c: float | None = None
    cpu_clocks_mhz: tuple[float, ...] | None = None
    governor: str | None = None
    load_1min: float | None = None
    free_memory_bytes: int | None = None
    battery_fraction: float | None = None
    is_charging: bool | None = None
    is_screen_on: bool | None = None
    is_low_power: bool | None = None  # the battery saver of a phone
    thermal_status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySummary:
    """What a program that keeps no single latencies says of the runs of a round; None is what it does not say."""

    runs: int
    mean_ns: int
    min_ns: int
    max_ns: int
    std_ns: int | None = None
    median_ns: int | None = None
    p5_ns: int | None = None
    p95_ns: int | None = None

    def __post_init__(self) -> None:
        if self.runs < 1 or self.mean_ns <= 0:
            raise ValueError("a summary needs at least one run, and a mean above 0 ns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One fresh process. Times are raw nanoseconds in the order they were taken; nothing is dropped.

    `load_ns` is making the interpreter or session ready, `first_ns` its first run, then `warmup_ns`, then the
    `latencies_ns` that count. `affinity` are the CPUs that the process was allowed. `is_steady` is
    whether the warm-up ended because its times had settled, None where that was not recorded. `non_finite` counts the
    values of one run that are NaN or infinite, by output.

    A program that keeps no single latencies gives a `summary`, and `latencies_ns` is empty; `memory_growth_bytes` is
    how much its memory grew, where that is all that it says. `load_ns` and `first_ns` are None where a program does
    not say them.
    """

    index: int
    latencies_ns: tuple[int, ...]
    warmup_ns: tuple[int, ...]
    load_ns: int | None
    first_ns: int | None
    peak_rss_bytes: int | None
    runtime_version: str
    delegate: str
    delegated_fraction: float | None
    affinity: tuple[int, ...] | None
    before: Conditions
    after: Conditions
    cpu_time_ns: int | None = None
    involuntary_switches: int | None = None
    is_steady: bool | None = None
    non_finite: dict[str, int] = field(default_factory=dict)
    summary: LatencySummary | None = None
    memory_growth_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.summary is not None and self.latencies_ns:
            raise ValueError("a round has its latencies or a summary of them, not both")
        if self.summary is None and (not self.latencies_ns or min(self.latencies_ns) <= 0):
            raise ValueError("a round needs at least one latency, each above 0 ns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Every round of a cell, raw. Nothing computed is stored: see `edgebench.stats` and `edgebench.measure.trust`.

    `runner` is what ran the model: python, the native kit, or the name of an official program.
    """

    rounds: tuple[Round, ...]
    origin: Origin
    runner: str = "python"
    cautions: tuple[Caution, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its 95 % confidence interval, from `n` samples."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceError:
    """The error of one slice of an output's last axis (one class, one box coordinate)."""

    index: int
    sqnr_db: float
    max_abs_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputError:
    """How far one output is from its reference, over all samples.

    `sqnr_db` = 10 log10(sum ref^2 / sum (ref - out)^2), infinite when they are equal.
    """

    sqnr_db: float
    cosine: float
    max_abs_error: float
    mean_abs_error: float
    slices: tuple[SliceError, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """How one file's outputs differ from another's.

    `agreement` is of decisions (top-1 class), None where the task has none. `agreement_clear` counts only the samples
    where the reference's own decision is not a near-tie.
    """

    outputs: dict[str, OutputError]
    agreement: Estimate | None = None
    agreement_clear: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Where the error arises: baseline -> float file (conversion) -> this file (quantization) -> this device."""

    conversion: Divergence | None = None
    quantization: Divergence | None = None
    device: Divergence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Accuracy of one artifact on one device.

    `metrics` need labels or targets; `divergence` needs a baseline. `drop_pp` is baseline minus artifact of
    the task's first metric in percentage points, `drop_p_value` McNemar's.
    """

    task: Task | None
    n: int
    metrics: dict[str, Estimate]
    baseline_metrics: dict[str, Estimate] = field(default_factory=dict)
    divergence: Divergence | None = None
    split: Split = field(default_factory=Split)
    drop_pp: Estimate | None = None
    drop_p_value: float | None = None
    cautions: tuple[Caution, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a file may cost; None is no limit. A figure that can't be trusted does not meet its limit."""

    max_accuracy_drop_pp: float | None = None
    max_p50_ms: float | None = None
    max_p90_ms: float | None = None
    max_size_mb: float | None = None

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            limit = getattr(self, name)
            if limit is not None and not (math.isfinite(limit) and limit >= 0):
                raise ValueError(f"budget {name}: {limit}; it must be a number of at least 0")

    @property
    def limits(self) -> dict[str, float]:
        """Each limit that is set, by its name."""
        said = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: limit for name, limit in said.items() if limit is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What became of one cell.

    `cell` is the content hash of what was asked, so that the same question has the same name in any run.
    """

    cell: str
    status: Status
    model: str
    device: str
    runtime: str
    threads: int
    delegate: str
    batch: int | None
    at: str  # UTC, ISO 8601
    recipe: str | None = None
    stage: str | None = None
    reason: str | None = None
    artifact: Artifact | None = None
    target: Target | None = None
    plan: Plan | None = None
    measurement: Measurement | None = None
    evaluation: Evaluation | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status is not Status.OK and not (self.stage and self.reason):
            raise ValueError(f"a {self.status} record must say at which stage and for what reason")
