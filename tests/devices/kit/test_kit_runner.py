"""The native runner built for this machine, against runner.py: same job, same result, same words."""

from __future__ import annotations

import ctypes
import importlib.util
import platform
import sys
from pathlib import Path

import kit_jobs
import numpy as np
import pytest
from kit_jobs import FILES, PYTHON, images, int8_onnx, job_for, start

pytestmark = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64") or importlib.util.find_spec("ziglang") is None,
    reason="needs zig and the x86-64 onnxruntime: pip install 'edgebench[kit]' on Linux",
)


def local_library() -> Path:
    import onnxruntime

    return next((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"))


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    """Runs a job in a folder with the runner that zig compiled for this machine."""
    from edgebench.devices.kit.build import compile_runner

    folder = tmp_path_factory.mktemp("native")
    compile_runner(folder / "runner", "x86_64-linux-gnu.2.17")
    (folder / "libonnxruntime.so.1").symlink_to(local_library())
    return lambda where, job: start([folder / "runner"], where, job, {"LD_LIBRARY_PATH": str(folder)})


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_outputs_are_those_of_the_python_runner_bit_by_bit(tmp_path, native, kind, batch):
    model = FILES / "tiny.onnx" if kind == "float32" else int8_onnx(tmp_path / "int8.onnx")
    job = job_for(tmp_path, model, {"image": images(7, kind, "NCHW")}, outputs=["scores"], batch=batch)
    python, ours = start(PYTHON, tmp_path, job), native(tmp_path, job)
    assert ours.status == python.status == 0, ours.result
    assert ours.outputs[0].dtype == python.outputs[0].dtype
    np.testing.assert_array_equal(ours.outputs[0], python.outputs[0])
    assert ours.result["n"] == 7
    for field in ("non_finite", "runtime_version", "delegate", "delegated_fraction", "affinity", "input_sha256"):
        assert ours.result[field] == python.result[field], field
    assert ours.result["loop_ns"] > 0


@pytest.mark.parametrize("outputs", [(), ("scores",)])
def test_a_result_has_the_fields_of_the_python_runner_in_kind(tmp_path, native, outputs):
    job = job_for(tmp_path, FILES / "tiny.onnx", {"image": images(2, layout="NCHW")}, outputs=outputs)
    python, ours = start(PYTHON, tmp_path, job).result, native(tmp_path, job).result
    assert set(ours) == set(python) - {"python", "numpy"}
    for name, value in ours.items():
        kinds = (int, float) if name == "delegated_fraction" else type(python[name])
        assert isinstance(value, kinds), name
    if not outputs:
        assert 20 <= len(ours["latencies_ns"]) <= 40
        assert len(ours["warmup_ns"]) >= 3
        assert min(ours["latencies_ns"] + ours["warmup_ns"]) > 0
        assert ours["loop_ns"] >= ours["first_ns"] + sum(ours["warmup_ns"]) + sum(ours["latencies_ns"])
        assert ours["cpu_time_ns"] > 0
        assert ours["peak_rss_bytes"] > 10_000_000


def test_a_round_ends_at_max_runs_and_not_before_min_runs(tmp_path, native):
    def runs(**changes):
        job = job_for(tmp_path, FILES / "tiny.onnx", {"image": images(1, layout="NCHW")}, **changes)
        return len(native(tmp_path, job).result["latencies_ns"])

    assert runs(min_ns=10**10) == 40
    assert runs(max_runs=10**6) == 20
    assert runs(max_ns=0) == 1


def test_a_steady_model_ends_its_warm_up_by_itself(tmp_path, native):
    job = job_for(tmp_path, FILES / "tiny.onnx", {"image": images(1, layout="NCHW")})
    job |= {"warmup_max_ns": 10**10, "max_runs": 10**6}
    result = native(tmp_path, job).result
    assert result["is_steady"] is True
    assert sum(result["warmup_ns"]) < 10**10


def test_it_stays_on_the_cpus_of_the_job(tmp_path, native):
    cpu = kit_jobs.start(
        PYTHON, tmp_path, job_for(tmp_path, FILES / "tiny.onnx", {"image": images(1, layout="NCHW")})
    ).result["affinity"][-1]
    job = job_for(tmp_path, FILES / "tiny.onnx", {"image": images(1, layout="NCHW")}, cpus=[cpu], threads=2)
    assert native(tmp_path, job).result["affinity"] == [cpu]


def test_values_that_are_not_finite_are_counted(tmp_path, native):
    image = images(3, layout="NCHW")
    image[1, 0, 0, 0] = np.nan
    image[2, :, :, :] = np.inf
    job = job_for(tmp_path, FILES / "tiny.onnx", {"image": image}, outputs=["scores"])
    assert native(tmp_path, job).result["non_finite"] == start(PYTHON, tmp_path, job).result["non_finite"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"image": images(1, layout="NCHW"), "more": images(1)},
        {"photo": images(1, layout="NCHW")},
        {"image": images(1)},
        {"image": images(1, layout="NCHW")[0, 0]},
        {"image": images(1, "float64", "NCHW")},
        {"image": images(0, layout="NCHW")},
        {"image": images(1, layout="NCHW"), "more": images(2)},
    ],
    ids=["more inputs", "other name", "other layout", "other rank", "other type", "no samples", "unequal samples"],
)
def test_a_wrong_feed_is_refused_in_the_words_of_the_python_runner(tmp_path, native, wrong):
    job = job_for(tmp_path, FILES / "tiny.onnx", wrong, outputs=["scores"])
    python, ours = start(PYTHON, tmp_path, job), native(tmp_path, job)
    assert (ours.status, ours.result) == (python.status, python.result)
    assert ours.status == 1


@pytest.mark.parametrize(
    "changes",
    [{"cpus": [1000]}, {"batch": 0}, {"outputs": {"other": "out.npy"}, "mode": "outputs"}],
    ids=["cpus", "batch", "outputs"],
)
def test_a_wrong_job_is_refused_in_the_words_of_the_python_runner(tmp_path, native, changes):
    job = job_for(tmp_path, FILES / "tiny.onnx", {"image": images(1, layout="NCHW")}, **changes)
    python, ours = start(PYTHON, tmp_path, job), native(tmp_path, job)
    assert (ours.status, ours.result) == (python.status, python.result)
    assert ours.status == 1


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"runtime": "tflite-runtime"}, "runtime 'tflite-runtime' is none of litert, onnxruntime, which are what runs"),
        ({"delegate": "cuda"}, "onnxruntime runs on cpu only, not on cuda"),
        ({"model": "absent.onnx"}, "onnxruntime: loading the model: Load model from absent.onnx failed"),
        ({"threads": "two"}, "the job's 'threads' must be an integer"),
        ({"mode": "guess"}, "mode 'guess' is none of latency, outputs"),
        ({"max_runs": 0}, "the job's 'max_runs' must be 1 to 1000000000, not 0"),
        ({"runtime": "litert"}, "litert can't be loaded here: libLiteRt.so: cannot open shared object file"),
    ],
)
def test_an_error_is_one_line_and_status_1(tmp_path, native, changes, error):
    done = native(tmp_path, job_for(tmp_path, FILES / "tiny.onnx", {"image": images(1, layout="NCHW")}) | changes)
    assert done.status == 1
    assert list(done.result) == ["error"]
    assert done.result["error"].startswith(error)
    assert "\n" not in done.result["error"]


def test_names_in_any_script_come_back_as_they_went_in(tmp_path, native):
    from onnx import TensorProto, helper, save

    name = 'bild "größe"\\ 😀'
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 2]) for n in (name, "y\n")]
    graph = helper.make_graph([helper.make_node("Relu", [name], ["y\n"])], "g", info[:1], info[1:])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    job = job_for(tmp_path, tmp_path / "m.onnx", {name: np.float32([[1, -1], [2, 3]])}, outputs=["y\n"])
    done = native(tmp_path, job)
    assert list(done.result["input_sha256"]) == [name]
    assert done.result["non_finite"] == {"y\n": 0}
    assert done.outputs[0].tolist() == [[1, 0], [2, 3]]


def test_the_place_of_the_config_entry_in_the_table_of_onnxruntime_is_right():
    """The other places are proven by the outputs above; whether threads spin shows in none of them.

    HasSessionConfigEntry is at 237, one before the end of version 14, which the source asserts to be at 238.
    """
    library = ctypes.CDLL(str(local_library()))
    library.OrtGetApiBase.restype = ctypes.POINTER(ctypes.c_void_p)
    get_api = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint32)(library.OrtGetApiBase()[0])
    api = get_api(16)

    def call(place, *types):
        return ctypes.CFUNCTYPE(ctypes.c_void_p, *types)(api[place])

    options, has = ctypes.c_void_p(), ctypes.c_int(-1)
    assert not call(10, ctypes.c_void_p)(ctypes.byref(options))
    key = b"session.intra_op.allow_spinning"
    assert not call(130, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)(options, key, b"0")
    assert not call(237, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(options, key, ctypes.byref(has))
    assert has.value == 1
