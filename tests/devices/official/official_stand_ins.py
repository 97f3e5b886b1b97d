"""Stand-ins for official programs, which can't be had here: scripts with their command lines and their words.

They run the model for real, by litert or onnxruntime, and print what they measured in the programs' own formats. What
they say of delegates is what a test tells them to say.
"""

from __future__ import annotations

import stat
import sys
from pathlib import Path

_BENCHMARK = """#!{python}
import sys, time
import numpy as np
from ai_edge_litert.interpreter import Interpreter

PREFIX, DELEGATE_LINES, CUT, STATUS = {prefix!r}, {delegate_lines!r}, {cut!r}, {status!r}
KNOWN = {known!r}


def say(text):
    print(PREFIX + text)


flags = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:])  # --flag value is not understood
unknown = [f"--{{name}}={{value}}" for name, value in flags.items() if name not in KNOWN]
say("STARTING!")
if unknown:
    say("Unconsumed cmdline flags: " + " ".join(unknown))
began = time.perf_counter()
model = Interpreter(flags["graph"], num_threads=int(flags["num_threads"]))
files = dict(entry.split(":") for entry in flags.get("input_layer_value_files", "").split(",") if entry)
names = flags["input_layer"].split(",") if "input_layer" in flags else []
shapes = flags["input_layer_shape"].split(":") if names else []
details = model.get_input_details()
assert not names or len(details) == len(names) == len(shapes) == len(files)
for detail, shape in zip(details, shapes):
    model.resize_tensor_input(detail["index"], [int(size) for size in shape.split(",")])
model.allocate_tensors()
for line in DELEGATE_LINES:
    print(line)
say(f"Initialized session in {{(time.perf_counter() - began) * 1e3:.3f}}ms.")
for detail, name in zip(model.get_input_details(), names):
    value = np.fromfile(files[name], detail["dtype"])
    if value.nbytes != int(np.prod(detail["shape"])) * value.itemsize:
        sys.exit("FATAL: the size of " + files[name] + " is wrong")
    model.set_tensor(detail["index"], value.reshape(detail["shape"]))


def phase(least_runs, least_s, most_s):
    times, start = [], time.perf_counter()
    while (len(times) < least_runs or time.perf_counter() - start < least_s) and time.perf_counter() - start <= most_s:
        before = time.perf_counter()
        model.invoke()
        times.append(max(1, round((time.perf_counter() - before) * 1e6)))
    if not times:
        say("count=0\\n")
    elif len(set(times)) == 1:
        say(f"count={{len(times)}} curr={{times[-1]}}" + ("(all same)" if len(times) > 1 else "") + "\\n")
    else:
        words = dict(first=times[0], curr=times[-1], min=min(times), max=max(times))
        words |= dict(avg="%g" % np.mean(times), std="%g" % np.std(times))
        say(f"count={{len(times)}} " + " ".join(f"{{name}}={{value}}" for name, value in words.items()) + "\\n")
    return times


most_s = float(flags.get("max_secs", 150))
warm_up = phase(int(flags["warmup_runs"]), float(flags["warmup_min_secs"]), most_s)
if CUT:
    sys.exit(0)
times = phase(int(flags["num_runs"]), float(flags["min_secs"]), most_s)
say(f"Inference timings in us: Init: 1, First inference: 1, Warmup (avg): 1, Inference (avg): {{np.mean(times):g}}")
say("Memory footprint delta from the start of the tool (MB): init=5.5 overall=9.75")
if "output_filepath" in flags:
    with open(flags["output_filepath"], "wb") as file:
        for detail in model.get_output_details():
            file.write(model.get_tensor(detail["index"]).tobytes())
if STATUS:
    say("ERROR: Failed to apply GPU delegate.")
    say("Benchmarking failed.")
sys.exit(STATUS)
"""

_KNOWN = (
    *("graph", "num_threads", "num_runs", "min_secs", "max_secs", "warmup_runs", "warmup_min_secs", "use_xnnpack"),
    *("input_layer", "input_layer_shape", "input_layer_value_files", "output_filepath", "use_gpu", "use_nnapi"),
    *("external_delegate_path", "external_delegate_options", "use_cpu", "use_npu"),
)

_PERF_TEST = """#!{python}
import getopt, sys, time
import numpy as np
import onnxruntime

options, (model, result) = getopt.getopt(sys.argv[1:], "vIS:x:e:i:m:r:")
options = dict(options)
session = onnxruntime.InferenceSession(model)
if "-v" in options:
    print("\\n".join({placements!r}), file=sys.stderr)
assert "-I" in options and options["-m"] == "times"
feed = dict((one.name, np.ones([size if isinstance(size, int) else 1 for size in one.shape], np.float32))
            for one in session.get_inputs())
session.run(None, feed)
with open(result, "a") as file:
    for place in range(int(options["-r"]) - {missing!r}):
        before = time.perf_counter()
        session.run(None, feed)
        file.write("model,%g,48574464,49,%d\\n" % (time.perf_counter() - before, place))
print("Session creation time cost: 0.0853129 s\\nFirst inference time cost: 14 ms")
"""


def benchmark_model(
    folder: Path,
    delegate_lines: tuple[str, ...] = (),
    *,
    prefix: str = "INFO: ",
    cut: bool = False,
    status: int = 0,
    unknown: tuple[str, ...] = (),
) -> Path:
    """A `benchmark_model` that says `delegate_lines` of its delegates, and does not know the flags `unknown`."""
    known = tuple(flag for flag in _KNOWN if flag not in unknown)
    text = _BENCHMARK.format(
        python=sys.executable, prefix=prefix, delegate_lines=delegate_lines, cut=cut, status=status, known=known
    )
    return _program(folder / "benchmark_model", text)


def perf_test(folder: Path, placements: tuple[str, ...] = (), missing: int = 0) -> Path:
    """An `onnxruntime_perf_test` whose verbose log says `placements`; its file lacks the last `missing` runs."""
    text = _PERF_TEST.format(python=sys.executable, placements=placements, missing=missing)
    return _program(folder / "onnxruntime_perf_test", text)


def _program(path: Path, text: str) -> Path:
    """Without the right to execute it: making it executable is the work of what is tested."""
    path.write_text(text)
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    return path
