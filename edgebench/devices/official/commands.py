"""The command lines of TFLite's and LiteRT's `benchmark_model`. A flag and its value are one word: --flag=value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgebench.errors import InputError
from edgebench.types import OfficialTool, Plan

TFLITE = "benchmark_model"
LITERT = "litert_benchmark_model"

# The program's usual warm-up; it ends after this time, not when times have settled.
_WARM_UP_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInput:
    """One input's bytes in a file on the device, and its shape with the batch."""

    remote: str
    shape: tuple[int, ...]


def delegate_flags(program: str, tool: OfficialTool, delegate: str) -> list[str]:
    """What makes `program` use a delegate.

    Raises:
        InputError: the program has no such delegate, or the device's file does not say where it lies.
    """
    flags = _litert_flags(tool, delegate) if program == LITERT else _tflite_flags(tool, delegate)
    if flags is None:
        raise InputError(f"{program} has no delegate '{delegate}'; possible: {', '.join(DELEGATES[program])}")
    return flags


DELEGATES: Mapping[str, tuple[str, ...]] = {
    TFLITE: ("cpu", "gpu", "nnapi", "external"),
    LITERT: ("cpu", "gpu", "npu"),
}


def _tflite_flags(tool: OfficialTool, delegate: str) -> list[str] | None:
    if delegate == "cpu":
        return ["--use_xnnpack=true"]  # what it does without the flag, but then the log says what was taken over
    if delegate == "gpu":
        return ["--use_gpu=true"]
    if delegate == "nnapi":
        return ["--use_nnapi=true", *_given("nnapi_accelerator_name", tool.accelerator)]
    if delegate == "external":
        if tool.external_library is None:
            raise InputError(
                "benchmark_model:external needs `external_library:` in the tool's section of the device's file: the "
                "library's path on the device, such as /usr/lib/aarch64-linux-gnu/libedgetpu.so.1"
            )
        return [
            *_given("external_delegate_path", tool.external_library),
            *_given("external_delegate_options", tool.options),
        ]
    return None


def _litert_flags(tool: OfficialTool, delegate: str) -> list[str] | None:
    if delegate == "cpu":
        return ["--use_cpu=true"]
    if delegate == "gpu":
        return ["--use_cpu=false", "--use_gpu=true"]
    if delegate == "npu":
        return ["--use_cpu=false", "--use_npu=true", *_given("dispatch_library_path", tool.npu_folder)]
    return None


def _given(flag: str, value: str | None) -> list[str]:
    return [] if value is None else [f"--{flag}={value}"]


def timed(model: str, threads: int, plan: Plan, delegate: Sequence[str], inputs: Sequence[FileInput]) -> list[str]:
    """The arguments of a measured round. Runs go on until both minimums are met or the time is over.

    The program knows no greatest number of runs, so that `plan.max_runs` has no effect.
    """
    return [
        f"--graph={model}",
        f"--num_threads={threads}",
        f"--num_runs={plan.min_runs}",
        f"--min_secs={plan.min_seconds:g}",
        f"--max_secs={plan.max_seconds:g}",
        f"--warmup_runs={max(1, plan.warmup_min_runs)}",
        f"--warmup_min_secs={min(_WARM_UP_S, plan.warmup_max_seconds):g}",
        *delegate,
        *_input_flags(inputs),
    ]


def answering(model: str, threads: int, delegate: Sequence[str], inputs: Sequence[FileInput], output: str) -> list[str]:
    """The arguments of one run without a warm-up, so that a file with a state starts from its first; TFLite's only.

    `output` gets the bytes of all outputs, one after the other, in the graph's order.
    """
    return [
        f"--graph={model}",
        f"--num_threads={threads}",
        "--num_runs=1",
        "--min_secs=0",
        "--warmup_runs=0",
        "--warmup_min_secs=0",
        *delegate,
        *_input_flags(inputs),
        f"--output_filepath={output}",
    ]


def _input_flags(inputs: Sequence[FileInput]) -> list[str]:
    """Inputs count by their place; the program only warns where a name is not the file's. So a file's own names, which
    may hold the commas and colons that separate entries, never get into a flag."""
    if not inputs:
        return []
    names = [f"in{place}" for place in range(len(inputs))]
    shapes = [",".join(map(str, one.shape)) for one in inputs]
    files = [f"{name}:{one.remote}" for name, one in zip(names, inputs, strict=True)]
    return [
        f"--input_layer={','.join(names)}",
        f"--input_layer_shape={':'.join(shapes)}",
        f"--input_layer_value_files={','.join(files)}",
    ]
