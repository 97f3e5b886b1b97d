"""What edgebench costs on top of the work itself: a whole convert+measure against the sum of its parts, and --help.

    python benchmarks/overhead.py [MODEL] [DATA]

The parts are taken from the run's own records and its log of runner processes: each conversion's seconds, loading and
the loop (first run, warm-up, latencies) of each round, and each loop over the evaluation samples. All else is overhead:
starting processes, preparing samples, the baseline's own answers, scoring, the store. The bound is 15 %; --help's is
1.5 times `python -c "import typer, rich"`.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from edgebench.store import Store

MAX_OVERHEAD = 0.15
MAX_HELP_RATIO = 1.5


def main(model: str, data: str) -> int:
    ratio = _help_ratio()
    print(f"edgebench --help / import typer, rich: {ratio:.2f} (bound {MAX_HELP_RATIO})")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        _convert_and_measure(model, data, Path(folder) / "warm-up", "--rounds", "1", "--recipe", "tflite-fp32")
        wall_s = _convert_and_measure(model, data, out)
        parts = _parts(out)
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


def _parts(run: Path) -> dict[str, float]:
    """Seconds of each converter call, and of each loop over a model, the loading of a measured round included."""
    with Store.open(run / "records.sqlite", read_only=True) as store:
        records = store.records()
    artifacts = {record.artifact.sha256: record.artifact for record in records if record.artifact}
    rounds = [round_ for record in records if record.measurement for round_ in record.measurement.rounds]
    processes = [json.loads(line) for line in (run / "logs" / "runners.jsonl").read_text().splitlines()]
    loops_ns = {mode: sum(p["loop_ns"] for p in processes if p["mode"] == mode) for mode in ("latency", "outputs")}
    return {
        "conversions": sum(artifact.conversion_s or 0 for artifact in artifacts.values()),
        "loading": sum(round_.load_ns for round_ in rounds) / 1e9,
        "latencies": loops_ns["latency"] / 1e9,
        "evaluation": loops_ns["outputs"] / 1e9,
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
