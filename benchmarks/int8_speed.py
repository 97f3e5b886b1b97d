"""How much faster int8 is than fp32, in pairs, so that a machine that slows down for a while slows both.

    python benchmarks/int8_speed.py RUN [--pairs N]

RUN is a run folder of reports/efficientnet-lite0/matrix.yaml with its artifacts. Each pair is a fresh process of the
fp32 file and one of the int8 file, one right after the other in random order, each measured by the same runner as ever
(`measure_round`). The figure is the median over the pairs of fp32 p50 / int8 p50 with its bootstrap interval; the bound
is 1.8 on a CPU with AVX-512 VNNI, for LiteRT and onnxruntime.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

from edgebench.devices.inventory import open_device
from edgebench.devices.lease import lease
from edgebench.measure import session
from edgebench.measure.feed_files import FeedFolder
from edgebench.store import Store
from edgebench.types import Artifact, Plan, Target

MIN_SPEED_UP = 1.8
RUNTIMES = {"tflite": "litert", "onnx": "onnxruntime"}
PLAN = Plan(min_runs=60, min_seconds=0, max_runs=60)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--pairs", type=int, default=15)
    said = parser.parse_args()
    with Store.open(said.run / "records.sqlite", read_only=True) as store:
        artifacts = {record.recipe: record.artifact for record in store.records()}
    missed = 0
    print(f"{said.pairs} pairs, {PLAN.max_runs} runs a process, 1 thread")
    with lease("host", print):
        for format, runtime in RUNTIMES.items():
            pair = artifacts[f"{format}-fp32"], artifacts[f"{format}-int8"]
            ratios, fastest = _ratios(said.run.absolute(), pair, runtime, said.pairs)
            drawn = np.random.default_rng(0).choice(ratios, (10_000, len(ratios)))
            low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
            middle = statistics.median(ratios)
            print(
                f"{runtime:12} int8 {middle:.2f} [{low:.2f}, {high:.2f}] times as fast as fp32 (bound {MIN_SPEED_UP}); "
                f"fastest processes {fastest[0]:.2f} and {fastest[1]:.2f} ms"
            )
            missed += middle < MIN_SPEED_UP
    return int(missed > 0)


def _ratios(
    run: Path, pair: tuple[Artifact, Artifact], runtime: str, pairs: int
) -> tuple[list[float], tuple[float, float]]:
    """fp32 p50 / int8 p50 of each pair, and the least p50 of both in ms."""
    device = open_device("host")
    found: tuple[list[float], list[float]] = ([], [])
    try:
        with tempfile.TemporaryDirectory() as folder:
            deployments = [
                session.deploy(device, artifact, run, Target(device="host", runtime=runtime)) for artifact in pair
            ]
            feeds = [
                FeedFolder(Path(folder)).files(
                    "noise",
                    {
                        binding.baseline: np.random.default_rng(0)
                        .standard_normal([1, *_baseline_shape(artifact)])
                        .astype(np.float32)
                        for binding in artifact.inputs
                    },
                    artifact.inputs,
                )
                for artifact in pair
            ]
            order = random.Random(0)
            for index in range(pairs):
                for place in order.sample((0, 1), 2):
                    measured = session.measure_round(deployments[place], PLAN, index, feeds[place])
                    found[place].append(statistics.median(measured.latencies_ns) / 1e6)
    finally:
        device.close()
    ratios = [float_ms / int8_ms for float_ms, int8_ms in zip(*found, strict=True)]
    return ratios, (min(found[0]), min(found[1]))


def _baseline_shape(artifact: Artifact) -> list[int]:
    """The sample's shape in the baseline's axes."""
    (binding,) = artifact.inputs
    shape = list(binding.tensor.shape)
    if binding.permutation is not None:
        shape = [shape[binding.permutation.index(axis)] for axis in range(len(shape))]
    return [int(size or 1) for size in shape[1:]]


if __name__ == "__main__":
    sys.exit(main())
