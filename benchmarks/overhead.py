"""What edgebench costs on top of the work itself: a whole convert+measure against the sum of its parts, and --help.

    python benchmarks/overhead.py [MODEL] [DATA]

The parts are taken from the run's own records: each conversion's seconds, every timed loop (load, first run, warm-up,
latencies), and the evaluation loops, reckoned as samples times p50. The bound is 15 %; --help's is 1.5 times
`python -c "import typer, rich"`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from edgebench.store import Store
from edgebench.types import Record

MAX_OVERHEAD = 0.15
MAX_HELP_RATIO = 1.5


def main(model: str, data: str) -> int:
    ratio = _help_ratio()
    print(f"edgebench --help / import typer, rich: {ratio:.2f} (bound {MAX_HELP_RATIO})")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        _convert_and_measure(model, data, Path(folder) / "warm-up", "--rounds", "1", "--recipe", "tflite-fp32")
        wall_s = _convert_and_measure(model, data, out)
        with Store.open(out / "records.sqlite", read_only=True) as store:
            records = store.records()
    parts = _parts(records)
    overhead = wall_s / sum(parts.values()) - 1
    for part, seconds in parts.items():
        print(f"{part:<12}{seconds:8.1f} s")
    print(f"{'whole':<12}{wall_s:8.1f} s   overhead {overhead:+.1%} (bound {MAX_OVERHEAD:.0%})")
    return int(overhead > MAX_OVERHEAD or ratio > MAX_HELP_RATIO)


def _convert_and_measure(model: str, data: str, out: Path, *options: str) -> float:
    command = [
        sys.executable,
        "-m",
        "edgebench",
        "convert+measure",
        model,
        "--data",
        data,
        "--out",
        str(out),
        "--quiet",
    ]
    started = time.monotonic()
    subprocess.run([*command, *options], stdout=subprocess.DEVNULL, check=False)
    return time.monotonic() - started


def _parts(records: tuple[Record, ...]) -> dict[str, float]:
    artifacts = {record.artifact.sha256: record.artifact for record in records if record.artifact}
    loops_ns = answers_ns = 0
    for record in records:
        if record.measurement is None or record.evaluation is None:
            continue
        for round_ in record.measurement.rounds:
            loops_ns += round_.load_ns + round_.first_ns + sum(round_.warmup_ns) + sum(round_.latencies_ns)
        p50_ns = statistics.median(ns for round_ in record.measurement.rounds for ns in round_.latencies_ns)
        answers_ns += int(record.evaluation.n * p50_ns)
    return {
        "conversions": sum(artifact.conversion_s or 0 for artifact in artifacts.values()),
        "loops": loops_ns / 1e9,
        "evaluation": answers_ns / 1e9,
    }


def _help_ratio(pairs: int = 15) -> float:
    ratios = []
    for _ in range(pairs):
        ours = _seconds([sys.executable, "-m", "edgebench", "--help"])
        ratios.append(ours / _seconds([sys.executable, "-c", "import typer, rich"]))
    return statistics.median(ratios)


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    arguments = sys.argv[1:] or ["zoo:efficientnet-lite0", "sample-photos"]
    sys.exit(main(*arguments))
