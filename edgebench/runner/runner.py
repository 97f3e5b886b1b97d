"""Run one model on this machine and report what happened: `python runner.py JOB.json RESULT.json`.

This file is copied to a device alone. It needs Python 3.7, numpy and one runtime, and never imports edgebench.

The job, paths relative to the current folder:

    mode      "latency": time many runs of one batch; "outputs": run every sample and save what comes out
    runtime   "litert", "tflite-runtime" or "onnxruntime"
    delegate  "cpu", "cuda" (onnxruntime) or "edgetpu" (the other two)
    delegate_options  what the Edge TPU's library is told, such as {"device": "usb:0"}; only for delegate "edgetpu"
    model     path of the .tflite or .onnx file
    threads   how many threads one run may use
    cpus      CPUs to stay on, or null for any
    spinning  whether onnxruntime's threads may spin while they wait
    batch     samples in one run
    inputs    {input name: .npy file}, in the file's own dtype, samples on the first axis
    outputs   {output name: .npy file to write}; only for mode "outputs"
    min_runs, min_ns, max_runs, max_ns, warmup_min_runs, warmup_max_ns; only for mode "latency"

The result is {"error": one line}, exit status 1, or what `measure_latency` or `save_outputs` says, exit status 0.
All times are raw nanoseconds of a monotonic clock; nothing is averaged or dropped here.
"""

from __future__ import annotations

import array
import ctypes
import functools
import gc
import hashlib
import json
import os
import platform
import resource
import sys
import time
import traceback
from typing import Any, Callable

# Warm-up is over when the medians of the last windows agree. A window spans several ticks of a frequency governor
# (about 10 ms each), so that a microsecond model is not called steady before the clock has risen.
STEADY_WINDOWS = 3
STEADY_RATIO = 1.05
WINDOW_NS = 20_000_000

EDGETPU_LIBRARY = "libedgetpu.so.1"
EDGETPU_OP = "edgetpu-custom-op"
EDGETPU_WAIT_S = 3  # a USB Accelerator leaves the bus and comes back when it is first used

ORT_DTYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bool)": "bool",
    **{"tensor(%s%d)" % (kind, bits): "%s%d" % (kind, bits) for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}


class JobError(Exception):
    """The job can't be done; the message is one line for the user."""


class Tensor:
    """An input of the loaded file. An open dimension of `shape` is None; `key` is how the runtime finds it."""

    def __init__(self, dtype: str, shape: tuple[int | None, ...], key: Any) -> None:
        self.dtype = dtype
        self.shape = shape
        self.key = key


class Session:
    """A loaded model. `invoke` is one run and nothing else; what it returns is the runtime's own affair."""

    runtime_version: str
    delegate: str
    delegated_fraction: float | None
    inputs: dict[str, Tensor]
    output_names: list[str]
    load_ns: int
    invoke: Callable[[], Any]

    def set_inputs(self, feed: dict[str, Any]) -> None:
        """Give the arrays of the next run, by input name; they have been checked against `inputs`."""
        raise NotImplementedError

    def run(self) -> dict[str, Any]:
        """The arrays that one run gives, by output name."""
        raise NotImplementedError


class TfliteSession(Session):
    """LiteRT or tflite-runtime. Names are those of the file's only signature; without one, the tensors' own."""

    def __init__(self, job: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> None:
        if job["delegate"] not in ("cpu", "edgetpu"):
            raise JobError("%s runs on cpu or edgetpu, not on %s" % (job["runtime"], job["delegate"]))
        if job["runtime"] == "litert":
            import ai_edge_litert as package
            from ai_edge_litert.interpreter import Interpreter, load_delegate
        else:
            import tflite_runtime as package
            from tflite_runtime.interpreter import Interpreter, load_delegate
        self.runtime_version = str(getattr(package, "__version__", "unknown"))
        started = time.perf_counter_ns()
        delegates = None
        if job["delegate"] == "edgetpu":
            self.runtime_version += " with " + edgetpu_version()
            delegates = [load_edgetpu(load_delegate, job["delegate_options"])]
        self._interpreter = Interpreter(
            model_path=job["model"], num_threads=job["threads"], experimental_delegates=delegates
        )
        self.inputs, self._outputs = self._tensors()
        self.output_names = list(self._outputs)
        check_shapes(self.inputs, shapes)
        for name, tensor in self.inputs.items():
            if None in tensor.shape:
                self._interpreter.resize_tensor_input(tensor.key, list(shapes[name]))
        self._interpreter.allocate_tensors()
        self.load_ns = time.perf_counter_ns() - started
        self.invoke = self._interpreter.invoke
        if job["delegate"] == "edgetpu":
            self.delegate, self.delegated_fraction = "edgetpu", self._share_on_edgetpu()
        else:
            self.delegate, self.delegated_fraction = self._delegation()

    def set_inputs(self, feed: dict[str, Any]) -> None:
        reset = getattr(self._interpreter, "reset_all_variables", None)
        if reset is not None:  # a stateful model must not see the sample before
            reset()
        for name, value in feed.items():
            self._interpreter.set_tensor(self.inputs[name].key, value)

    def run(self) -> dict[str, Any]:
        self.invoke()
        return {name: self._interpreter.get_tensor(index) for name, index in self._outputs.items()}

    def _tensors(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """The inputs by name, and the index of each output by name."""
        inputs = {str(detail["name"]): detail for detail in self._interpreter.get_input_details()}
        outputs = {str(detail["name"]): detail for detail in self._interpreter.get_output_details()}
        signatures: dict[str, Any] = getattr(self._interpreter, "get_signature_list", dict)()
        if len(signatures) == 1:
            # The runner must be gone before allocate_tensors, which refuses while something else holds the interpreter.
            runner = self._interpreter.get_signature_runner(next(iter(signatures)))
            named_inputs, named_outputs = runner.get_input_details(), runner.get_output_details()
            main = {(name, detail["index"]) for name, detail in list(inputs.items()) + list(outputs.items())}
            details = list(named_inputs.values()) + list(named_outputs.values())
            if not {(str(detail["name"]), detail["index"]) for detail in details} <= main:
                raise JobError("the file's signature is not of its first subgraph, which is the one that runs")
            inputs, outputs = named_inputs, named_outputs
        return (
            {name: Tensor(*tflite_type(detail), key=int(detail["index"])) for name, detail in inputs.items()},
            {name: int(detail["index"]) for name, detail in outputs.items()},
        )

    def _share_on_edgetpu(self) -> float | None:
        """The share of the file's operators that the Edge TPU runs; each of them stands for many of the plain file.

        Only its delegate can make such an operator ready, so none is there that something else runs.
        """
        get_nodes = getattr(self._interpreter, "_get_ops_details", None)
        if get_nodes is None:
            return None
        operators = [node["op_name"] for node in get_nodes() if node["op_name"] != "DELEGATE"]
        if EDGETPU_OP not in operators:
            raise JobError("silent CPU fallback: the file has no %s, so the Edge TPU runs none of it" % EDGETPU_OP)
        return operators.count(EDGETPU_OP) / len(operators)

    def _delegation(self) -> tuple[str, float | None]:
        """What really runs the operators, and the share of them that a delegate took over.

        The graph keeps its operators and gains a DELEGATE node for each part that was taken over: the part is every
        operator between that node's inputs and outputs.
        """
        get_nodes = getattr(self._interpreter, "_get_ops_details", None)
        if get_nodes is None:
            return "unknown", None
        nodes = get_nodes()
        delegates = [node for node in nodes if node["op_name"] == "DELEGATE"]
        operators = [node for node in nodes if node["op_name"] != "DELEGATE"]
        if not delegates or not operators:
            return "cpu", 0.0
        maker = {int(tensor): place for place, node in enumerate(operators) for tensor in node["outputs"]}
        taken = set()
        for node in delegates:
            ends = {int(tensor) for tensor in node["inputs"]}
            pending = [int(tensor) for tensor in node["outputs"]]
            while pending:
                tensor = pending.pop()
                place = maker.get(tensor)
                if tensor in ends or place is None or place in taken:
                    continue
                taken.add(place)
                pending.extend(int(wanted) for wanted in operators[place]["inputs"])
        return "xnnpack", len(taken) / len(operators)


class OnnxSession(Session):
    """onnxruntime on the CPU or a CUDA device. A run is `session.run`, as applications call it, copies included."""

    def __init__(self, job: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> None:
        import onnxruntime

        self.runtime_version = str(onnxruntime.__version__)
        providers = {"cpu": ["CPUExecutionProvider"], "cuda": ["CUDAExecutionProvider", "CPUExecutionProvider"]}
        if job["delegate"] not in providers:
            raise JobError("onnxruntime runs on cpu or cuda, not on %s" % job["delegate"])
        wanted = providers[job["delegate"]]
        if wanted[0] not in onnxruntime.get_available_providers():
            raise JobError(
                "this onnxruntime %s has no %s, only %s; for cuda: pip install onnxruntime-gpu"
                % (self.runtime_version, wanted[0], ", ".join(onnxruntime.get_available_providers()))
            )
        if job["delegate"] == "cuda" and hasattr(onnxruntime, "preload_dlls"):
            onnxruntime.preload_dlls()  # finds CUDA libraries that came as Python packages
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = job["threads"]
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "1" if job["spinning"] else "0")
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        started = time.perf_counter_ns()
        self._session = onnxruntime.InferenceSession(job["model"], sess_options=options, providers=wanted)
        self.load_ns = time.perf_counter_ns() - started
        # onnxruntime goes on without a provider that fails to start, and only its list of providers tells.
        if self._session.get_providers()[0] != wanted[0]:
            raise JobError("onnxruntime could not start %s and would have run on the CPU" % wanted[0])
        self.inputs = {node.name: onnx_tensor(node) for node in self._session.get_inputs()}
        self.output_names = [node.name for node in self._session.get_outputs()]
        check_shapes(self.inputs, shapes)
        self.delegate = job["delegate"]
        self.delegated_fraction = self._share_on(wanted[0]) if job["delegate"] == "cuda" else 0.0
        if job["delegate"] == "cuda" and self.delegated_fraction == 0.0:
            raise JobError("onnxruntime put none of the file's operators on CUDA")
        self._feed: dict[str, Any] = {}
        self.invoke = functools.partial(self._session.run, self.output_names, self._feed)

    def set_inputs(self, feed: dict[str, Any]) -> None:
        self._feed.update(feed)

    def run(self) -> dict[str, Any]:
        values = self.invoke()
        return {name: values[place] for place, name in enumerate(self.output_names)}

    def _share_on(self, provider: str) -> float | None:
        get_parts = getattr(self._session, "get_provider_graph_assignment_info", None)
        if get_parts is None:  # before onnxruntime 1.24
            return None
        counts = [(part.ep_name, len(part.get_nodes())) for part in get_parts()]
        total = sum(count for _, count in counts)
        return sum(count for name, count in counts if name == provider) / total if total else None


def edgetpu_version() -> str:
    """What the Edge TPU's library says that it is."""
    try:
        library = ctypes.CDLL(EDGETPU_LIBRARY)
    except OSError as error:
        raise JobError(
            "%s can't be loaded (%s); install libedgetpu1-std as https://coral.ai/docs/accelerator/get-started says"
            % (EDGETPU_LIBRARY, error)
        ) from error
    try:
        tell = library.edgetpu_version
    except AttributeError:
        return EDGETPU_LIBRARY
    tell.restype = ctypes.c_char_p
    return (tell() or b"").decode(errors="replace") or EDGETPU_LIBRARY


def load_edgetpu(load_delegate: Any, options: dict[str, str]) -> Any:
    """The Edge TPU's delegate; a USB Accelerator's first use may fail once, because it changes its USB identity."""
    try:
        return load_delegate(EDGETPU_LIBRARY, options)
    except ValueError:
        time.sleep(EDGETPU_WAIT_S)
    try:
        return load_delegate(EDGETPU_LIBRARY, options)
    except ValueError as error:
        raise JobError(
            "the Edge TPU at %s does not open (%s); see that it is plugged in, that no other process has it, and that "
            "this user may use it (the udev rule of libedgetpu, the group plugdev or apex)"
            % (options.get("device"), " ".join(str(error).split()) or "its library gives no reason")
        ) from error


def tflite_type(detail: dict[str, Any]) -> tuple[str, tuple[int | None, ...]]:
    """The dtype and shape of a TFLite tensor; old files have no shape signature."""
    import numpy as np

    signature = detail.get("shape_signature")
    shape = detail["shape"] if signature is None or len(signature) == 0 else signature
    return str(np.dtype(detail["dtype"])), tuple(None if size < 0 else int(size) for size in shape)


def onnx_tensor(node: Any) -> Tensor:
    if node.type not in ORT_DTYPES:
        raise JobError("input '%s' is a %s; only tensors of numbers can be fed" % (node.name, node.type))
    shape = tuple(size if isinstance(size, int) and size >= 0 else None for size in node.shape)
    return Tensor(ORT_DTYPES[node.type], shape, node.name)


def check_shapes(inputs: dict[str, Tensor], shapes: dict[str, tuple[int, ...]]) -> None:
    """Refuse a feed whose names or shapes are not the file's; runtimes would broadcast, crash or run something else."""
    if set(inputs) != set(shapes):
        raise JobError("the file's inputs are %s, the job feeds %s" % (sorted(inputs), sorted(shapes)))
    for name, tensor in inputs.items():
        shape = shapes[name]
        fits = [want is None or want == got for want, got in zip(tensor.shape, shape)]  # noqa: B905  # Python 3.10
        if len(shape) != len(tensor.shape) or not all(fits):
            wanted = "x".join("?" if size is None else str(size) for size in tensor.shape) or "scalar"
            found = "x".join(map(str, shape)) or "scalar"
            raise JobError("input '%s' of the file is %s, a batch of the job is %s" % (name, wanted, found))


def main(job_path: str, result_path: str) -> int:
    """Do the job, write its result, and return the exit status."""
    try:
        with open(job_path, encoding="utf-8") as file:
            job = json.load(file)
        result, status = run(job), 0
    except JobError as error:
        result, status = {"error": " ".join(str(error).split())}, 1
    except Exception as error:
        traceback.print_exc()
        result, status = {"error": "%s: %s" % (type(error).__name__, " ".join(str(error).split()) or "no message")}, 1
    unfinished = result_path + ".unfinished"
    with open(unfinished, "w", encoding="utf-8") as file:
        json.dump(result, file)
    os.replace(unfinished, result_path)
    return status


def run(job: dict[str, Any]) -> dict[str, Any]:
    # Before any library starts its threads, which inherit the CPUs of the thread that starts them.
    if job["cpus"] is not None:
        try:
            os.sched_setaffinity(0, job["cpus"])
        except OSError as error:
            raise JobError("this process may not run on CPUs %s: %s" % (job["cpus"], error.strerror)) from error
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads never work here, but take memory
    import numpy as np

    arrays = {name: np.load(path, mmap_mode="r", allow_pickle=False) for name, path in job["inputs"].items()}
    if not arrays or len({len(value) if value.ndim else 0 for value in arrays.values()}) != 1:
        raise JobError("every input needs the same number of samples on its first axis")
    if min(len(value) for value in arrays.values()) == 0 or job["batch"] < 1:
        raise JobError("there is nothing to run: no samples, or a batch below 1")
    opener = {"litert": TfliteSession, "tflite-runtime": TfliteSession, "onnxruntime": OnnxSession}.get(job["runtime"])
    if opener is None:
        raise JobError("runtime '%s' is none of litert, tflite-runtime, onnxruntime" % job["runtime"])
    try:
        session = opener(job, {name: (job["batch"],) + value.shape[1:] for name, value in arrays.items()})
    except ImportError as error:
        raise JobError("%s can't be imported here: %s" % (job["runtime"], error)) from error
    for name, tensor in session.inputs.items():
        if arrays[name].dtype != tensor.dtype:
            raise JobError("input '%s' of the file is %s, the job feeds %s" % (name, tensor.dtype, arrays[name].dtype))
    result = measure_latency(session, job, arrays) if job["mode"] == "latency" else save_outputs(session, job, arrays)
    affinity = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    result.update(
        runtime_version=session.runtime_version,
        delegate=session.delegate,
        delegated_fraction=session.delegated_fraction,
        affinity=affinity,
        load_ns=session.load_ns,
        peak_rss_bytes=peak_rss_bytes(),
        input_sha256={name: file_sha256(path) for name, path in job["inputs"].items()},
        python=platform.python_version(),
        numpy=np.__version__,
    )
    return result


def measure_latency(session: Session, job: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """first_ns, warmup_ns, is_steady, latencies_ns; cpu_time_ns and involuntary_switches of the loop; non_finite.

    `loop_ns` is all of it, from the first run to the last.
    """
    session.set_inputs(batch_of(arrays, 0, job["batch"]))
    started = time.perf_counter_ns()
    session.invoke()
    first_ns = time.perf_counter_ns() - started
    warmup, is_steady = warm_up(session.invoke, job["warmup_min_runs"], job["warmup_max_ns"], job["max_runs"])
    switches, cpu_time = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw, time.process_time_ns()
    latencies = time_runs(session.invoke, job["min_runs"], job["min_ns"], job["max_runs"], job["max_ns"])
    cpu_time_ns = time.process_time_ns() - cpu_time
    involuntary = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw - switches
    loop_ns = time.perf_counter_ns() - started
    return {
        "loop_ns": loop_ns,
        "first_ns": first_ns,
        "warmup_ns": warmup,
        "is_steady": is_steady,
        "latencies_ns": latencies,
        "cpu_time_ns": cpu_time_ns,
        "involuntary_switches": involuntary,
        "non_finite": {name: count_non_finite(value) for name, value in session.run().items()},
    }


def warm_up(invoke: Callable[[], Any], min_runs: int, max_ns: int, max_runs: int) -> tuple[list[int], bool]:
    """The times of the runs until the last windows' medians agree within 5 %, and whether they ever did.

    It ends without that at `max_ns` or `max_runs`, but never before `min_runs`.
    """
    times: list[int] = []
    medians: list[int] = []
    window_start = 0
    begin = window_begin = time.perf_counter_ns()
    while len(times) < min_runs or (time.perf_counter_ns() - begin < max_ns and len(times) < max_runs):
        before = time.perf_counter_ns()
        invoke()
        after = time.perf_counter_ns()
        times.append(after - before)
        if len(times) - window_start >= max(min_runs, 1) and after - window_begin >= WINDOW_NS:
            window = sorted(times[window_start:])
            medians.append(window[len(window) // 2])
            latest = medians[-STEADY_WINDOWS:]
            if len(latest) == STEADY_WINDOWS and max(latest) <= STEADY_RATIO * min(latest):
                return times, True
            window_start, window_begin = len(times), time.perf_counter_ns()
    return times, False


def time_runs(invoke: Callable[[], Any], min_runs: int, min_ns: int, max_runs: int, max_ns: int) -> list[int]:
    """The times of the runs until both minimums are met or one maximum is reached."""
    times = array.array("q", bytes(8 * max_runs))
    clock = time.perf_counter_ns
    count = 0
    gc.collect()
    gc.disable()
    try:
        begin = clock()
        while True:
            before = clock()
            invoke()
            after = clock()
            times[count] = after - before
            count += 1
            elapsed = after - begin
            if count >= max_runs or elapsed >= max_ns or (count >= min_runs and elapsed >= min_ns):
                break
    finally:
        gc.enable()
    return times[:count].tolist()


def save_outputs(session: Session, job: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """Write each output, samples on the first axis; says how many values of each are `non_finite`, and `loop_ns`.

    The last group is filled up with its last sample, and what comes of the filling is dropped. An output without a
    batch axis is accepted from a batch of 1: one entry a sample.
    """
    import numpy as np

    if set(job["outputs"]) != set(session.output_names):
        raise JobError("the file's outputs are %s, the job wants %s" % (session.output_names, sorted(job["outputs"])))
    n = len(next(iter(arrays.values())))
    batch = job["batch"]
    written: dict[str, Any] = {}
    non_finite = dict.fromkeys(session.output_names, 0)
    begin = time.perf_counter_ns()
    for start in range(0, n, batch):
        session.set_inputs(batch_of(arrays, start, batch))
        count = min(batch, n - start)
        for name, value in session.run().items():
            if batch == 1 and (value.ndim == 0 or len(value) != 1):
                value = value[np.newaxis]
            if value.ndim == 0 or len(value) != batch:
                raise JobError("output '%s' has shape %s for a batch of %d samples" % (name, value.shape, batch))
            if name not in written:
                shape = (n,) + value.shape[1:]
                open_memmap: Callable[..., Any] = np.lib.format.open_memmap
                written[name] = open_memmap(job["outputs"][name], "w+", value.dtype, shape)
            if written[name].shape[1:] != value.shape[1:]:
                raise JobError(
                    "output '%s' changes its shape: %s, then %s" % (name, written[name].shape[1:], value.shape[1:])
                )
            written[name][start : start + count] = value[:count]
            non_finite[name] += count_non_finite(value[:count])
    loop_ns = time.perf_counter_ns() - begin
    for value in written.values():
        value.flush()
    return {"n": n, "loop_ns": loop_ns, "non_finite": non_finite}


def batch_of(arrays: dict[str, Any], start: int, batch: int) -> dict[str, Any]:
    """Samples start..start+batch of each input, the last one repeated where there are fewer."""
    import numpy as np

    last = len(next(iter(arrays.values()))) - 1
    places = np.minimum(np.arange(start, start + batch), last)
    return {name: np.ascontiguousarray(value[places]) for name, value in arrays.items()}


def count_non_finite(value: Any) -> int:
    import numpy as np

    return int(value.size - np.isfinite(value).sum()) if value.dtype.kind == "f" else 0


def peak_rss_bytes() -> int:
    """The highest resident memory of this process so far, Python and numpy included.

    VmHWM first: ru_maxrss also counts the memory of the program that this process was before its exec.
    """
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def file_sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python runner.py JOB.json RESULT.json")
    sys.exit(main(sys.argv[1], sys.argv[2]))
