"""Do many devices measure side by side? 50 virtual phones in one command, against the time that their models demand.

    python benchmarks/many_devices.py [--devices N] [--rounds N] [--seconds S]

What runs on each phone stands in for a model that takes S seconds an evaluation and a round there: it sleeps, and then
writes a runner's result, because 50 phones of software that computed would wait for the CPUs of this machine and not
for edgebench. All else is real: `edgebench measure`, one ADB connection a phone, the files, their proofs, the records.
The phones live in processes of their own, ten in each.

Run it on a quiet machine: the phones alone take more CPU time than edgebench, and the load before is printed.

Demanded is S times (1 + rounds): what one phone alone would take if all but its model cost nothing. The bound of wall /
demanded is 1.2. From logs/runners.jsonl the script also proves that no phone ever ran two processes at once. Exit
status 1 when either does not hold, or when a cell has no good record.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from edgebench.store import Store

MAX_RATIO = 1.2
MODEL = Path(__file__).parent.parent / "tests" / "files" / "tiny-float.tflite"
_SAMPLES = 100
_PHONES_A_PROCESS = 10

_SERVER = """
import signal, sys
from edgebench.devices import adb_keys
from edgebench.devices.virtual import VirtualPhone
phones = [VirtualPhone() for _ in range(int(sys.argv[1]))]
for phone in phones:
    phone.let_in(adb_keys.public_key())
    print(phone.start(), flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
try:
    signal.pause()
finally:
    for phone in phones:
        phone.stop()
"""

# The Python of the device files: it says yes to the probe for the runtime, and does a job of runner.py's by sleeping.
_STAND_IN = """#!{python} -IS
import hashlib, json, sys, time
if sys.argv[1] == "-c":
    sys.exit(0)
job = json.load(open(sys.argv[2]))
time.sleep({seconds})
for path in job["outputs"].values():
    with open("{answers}", "rb") as answers, open(path, "wb") as output:
        output.write(answers.read())
ns = int({seconds} * 1e9)
said = {{
    "loop_ns": ns, "latencies_ns": [ns // job.get("min_runs", 1)] * job.get("min_runs", 1), "warmup_ns": [ns],
    "load_ns": 1, "first_ns": ns, "peak_rss_bytes": 1 << 20, "runtime_version": "stand-in", "delegate": "none",
    "delegated_fraction": None, "affinity": None, "is_steady": True, "non_finite": {{}}, "cpu_time_ns": 0,
    "involuntary_switches": 0,
    "input_sha256": {{
        name: hashlib.sha256(open(path, "rb").read()).hexdigest() for name, path in job["inputs"].items()
    }},
}}
with open(sys.argv[3], "w") as result:
    json.dump(said, result)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=30.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="edgebench-many-") as temporary:
        folder = Path(temporary)
        os.environ["EDGEBENCH_HOME"] = str(folder / "home")
        stand_in = _write_stand_in(folder, asked.seconds)
        load = os.getloadavg()[0]
        with _phones(asked.devices) as addresses:
            names = _write_inventory(folder / "devices", addresses, stand_in)
            wall_s = _measure(folder, names, asked.rounds)
            ours_s = _cpu_s_of_ended()
        good = _good_records(folder / "run")
        spans = _spans(folder / "run" / "logs" / "runners.jsonl")
    apart_s = min(
        after[0] - before[1] for of_one in spans.values() for before, after in itertools.pairwise(sorted(of_one))
    )
    whole = [moment for of_one in spans.values() for span in of_one for moment in span]
    demanded_s = asked.seconds * (1 + asked.rounds)
    ratio = wall_s / demanded_s
    print(f"{asked.devices} phones, 1 evaluation and {asked.rounds} rounds of {asked.seconds:g} s on each")
    print(f"demanded {demanded_s:.1f} s, wall {wall_s:.1f} s, ratio {ratio:.2f} (bound {MAX_RATIO})")
    print(f"of it from the first process on a phone to the end of the last: {max(whole) - min(whole):.1f} s")
    print(f"one phone after the other would take {demanded_s * asked.devices:.0f} s")
    print(f"good records: {good} of {asked.devices}")
    print(f"shortest pause between two processes on one phone: {apart_s:.3f} s (below 0: two at once)")
    phones_s = _cpu_s_of_ended() - ours_s
    print(f"CPU time: {ours_s:.0f} s edgebench, {phones_s:.0f} s phones; {os.cpu_count()} CPUs, load before {load:.1f}")
    return int(ratio > MAX_RATIO or good != asked.devices or apart_s < 0)


def _write_stand_in(folder: Path, seconds: float) -> Path:
    answers = folder / "answers.npy"
    np.save(answers, np.full((_SAMPLES, 3), 1 / 3, dtype=np.float32))
    path = folder / "stand-in"
    path.write_text(_STAND_IN.format(python=sys.executable, seconds=seconds, answers=answers))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    samples = np.random.default_rng(0).random((_SAMPLES, 8, 8, 3), dtype=np.float32)
    np.savez(folder / "data.npz", image=samples)
    return path


@contextmanager
def _phones(count: int) -> Iterator[list[str]]:
    """The addresses of that many phones, ended afterwards."""
    servers = []
    addresses = []
    try:
        for first in range(0, count, _PHONES_A_PROCESS):
            here = min(_PHONES_A_PROCESS, count - first)
            server = subprocess.Popen([sys.executable, "-c", _SERVER, str(here)], stdout=subprocess.PIPE, text=True)
            servers.append(server)
            assert server.stdout is not None
            addresses += [server.stdout.readline().strip() for _ in range(here)]
        yield addresses
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.communicate()


def _write_inventory(folder: Path, addresses: list[str], stand_in: Path) -> list[str]:
    folder.mkdir()
    for number, address in enumerate(addresses):
        text = f"driver: adb\naddress: {address}\npython: {stand_in}\n"
        (folder / f"phone-{number:02}.yaml").write_text(text)
    return sorted(path.stem for path in folder.iterdir())


def _measure(folder: Path, names: list[str], rounds: int) -> float:
    """Seconds of the whole command."""
    command = [sys.executable, "-m", "edgebench", "measure", str(MODEL), "--data", "data.npz", "--out", "run"]
    command += ["--evaluation-samples", str(_SAMPLES), "--rounds", str(rounds), "--quiet"]
    command += [word for name in names for word in ("--device", name)]
    started = time.monotonic()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
    return time.monotonic() - started


def _good_records(run: Path) -> int:
    with Store.open(run / "records.sqlite", read_only=True) as store:
        records = store.records()
    for record in records:
        if record.reason:
            print(f"{record.device}, {record.stage}: {record.reason}")
    return sum(record.measurement is not None for record in records)


def _spans(log: Path) -> dict[str, list[tuple[float, float]]]:
    """When each process on a phone began and ended, seconds since 1970, by phone."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for process in map(json.loads, log.read_text().splitlines()):
        if process["device"] != "host":  # the proof of the file
            span = (process["began_s"], process["began_s"] + process["seconds"])
            spans.setdefault(process["device"], []).append(span)
    return spans


def _cpu_s_of_ended() -> float:
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


if __name__ == "__main__":
    sys.exit(main())
