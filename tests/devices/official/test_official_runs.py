"""Official programs driven on this machine: scripts stand in for them, see `official_stand_ins`."""

from __future__ import annotations

import json
import shutil
import stat
from contextlib import closing
from pathlib import Path

import numpy as np
import official_stand_ins as stand_ins
import pytest

from edgebench.converters import artifact_files
from edgebench.devices.host import Host
from edgebench.devices.virtual_device import VirtualDevice
from edgebench.errors import InputError, MissingError, RefusedError, StageError
from edgebench.hashing import file_sha256
from edgebench.measure import feed_files, session
from edgebench.types import DeviceSpec, OfficialTool, OfficialTools, Plan, Target

FILES = Path(__file__).parent.parent.parent / "files"
PLAN = Plan(min_runs=20, min_seconds=0, warmup_min_runs=2, warmup_max_seconds=0.0)
RANDOM = np.random.default_rng(0)
XNNPACK = "Explicitly applied XNNPACK delegate, and the model graph will be completely executed by the delegate."
NO_NNAPI = "Though NNAPI delegate is explicitly applied, the model graph will not be executed by the delegate."
HALF_GPU = "Replacing 1 out of 2 node(s) with delegate (TfLiteGpuDelegateV2) node, yielding 1 partitions."
HOSTILE = ("in1:x,in0:/etc/passwd;$(touch owned)", "`touch owned` '\" \n|")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEBENCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def open_host():
    opened = []

    def open_it(**tools):
        opened.append(Host(DeviceSpec(name="bench", driver="host", tools=OfficialTools(**tools))))
        return opened[-1]

    yield open_it
    for device in opened:
        device.close()


def fed(tmp_path, **arrays):
    return {name: feed_files.write(tmp_path / f"feed-{i}.npy", a) for i, (name, a) in enumerate(arrays.items())}


def images(n):
    return RANDOM.random((n, 8, 8, 3), dtype=np.float32)


def deployed(device, file, tmp_path, runtime="benchmark_model", delegate="cpu", threads=1):
    run = tmp_path / "run"
    artifact = artifact_files.from_file(file, run)
    target = Target(device="bench", runtime=runtime, delegate=delegate, threads=threads)
    return session.deploy(device, artifact, run, target)


def words_said(deployment):
    return [json.loads(line) for line in deployment.log.read_text().splitlines()]


def test_a_round_has_the_programs_own_figures_and_no_invented_latency(open_host, tmp_path):
    program = stand_ins.benchmark_model(tmp_path, (XNNPACK,))
    device = open_host(benchmark_model=OfficialTool(path=str(program), sha256=file_sha256(program).upper()))
    deployment = deployed(device, FILES / "tiny-float.tflite", tmp_path)
    measured = session.measure_round(deployment, PLAN, 3, fed(tmp_path, image=images(1)))
    assert (measured.index, measured.latencies_ns, measured.warmup_ns) == (3, (), ())
    assert measured.summary is not None
    assert measured.summary.runs == 20  # the warm-up's two are not among them
    assert 0 < measured.summary.min_ns <= measured.summary.mean_ns <= measured.summary.max_ns
    assert (measured.delegate, measured.delegated_fraction) == ("xnnpack", 1.0)
    assert measured.runtime_version == f"sha256 {file_sha256(program)[:12]}"
    assert measured.affinity == device.cpus()[:1]
    assert measured.memory_growth_bytes == round(9.75 * 2**20)
    assert measured.load_ns > 0
    assert measured.first_ns > 0
    assert [caution.code for caution in deployment.cautions] == ["tool-summary"]
    assert deployment.runner.kind == "benchmark_model"
    (logged,) = words_said(deployment)
    assert (logged["mode"], logged["exit_code"]) == ("latency", 0)
    assert "count=20" in logged["printed"]
    assert stat.S_IMODE(program.stat().st_mode) == 0o600  # the user's own file stays as it was


def test_outputs_are_those_of_the_same_file_by_our_runner(open_host, tmp_path):
    device = open_host(benchmark_model=OfficialTool(path=str(stand_ins.benchmark_model(tmp_path, (XNNPACK,)))))
    feed = fed(tmp_path, image=RANDOM.integers(-128, 128, (3, 8, 8, 3), np.int8))
    ours = session.run_outputs(deployed(device, FILES / "tiny-int8.tflite", tmp_path, "litert"), feed, 60)
    deployment = deployed(device, FILES / "tiny-int8.tflite", tmp_path)
    theirs = session.run_outputs(deployment, feed, 60)
    assert deployment.most_samples == 100
    assert theirs.keys() == ours.keys()
    for name, array in ours.items():
        assert (theirs[name].dtype, theirs[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(theirs[name], array)
    assert len(words_said(deployment)) == 1 + 3  # our one process, and one for each sample
    with pytest.raises(StageError, match="input 'image' of the file is int8, the samples are float32"):
        session.run_outputs(deployment, fed(tmp_path, image=images(1)), 60)


def test_a_phone_is_driven_the_same_way_over_adb(tmp_path):
    tool = OfficialTool(path=str(stand_ins.benchmark_model(tmp_path, (XNNPACK,))))
    spec = DeviceSpec(name="bench", driver="virtual", tools=OfficialTools(benchmark_model=tool))
    with closing(VirtualDevice(spec)) as device:
        deployment = deployed(device, FILES / "tiny-float.tflite", tmp_path)
        feed = fed(tmp_path, image=images(1))
        measured = session.measure_round(deployment, PLAN, 0, feed)
        theirs = session.run_outputs(deployment, feed, 60)
        ours = session.run_outputs(deployed(device, FILES / "tiny-float.tflite", tmp_path, "litert"), feed, 60)
    assert measured.summary is not None
    assert measured.summary.runs == 20
    np.testing.assert_array_equal(theirs["scores"], ours["scores"])


@pytest.mark.parametrize("with_signature", [False, True])
def test_tensors_are_matched_by_the_graphs_order_and_no_name_reaches_the_program(open_host, tmp_path, with_signature):
    device = open_host(benchmark_model=OfficialTool(path=str(stand_ins.benchmark_model(tmp_path, (XNNPACK,)))))
    deployment = deployed(device, swapping_model(tmp_path / "swap me;.tflite", with_signature), tmp_path)
    first, second = HOSTILE
    feed = fed(tmp_path, **{second: np.array([[7, 8]], np.int8), first: np.array([[1, 2, 3]], np.float32)})
    outputs = session.run_outputs(deployment, feed, 60)
    by_shape = {array.shape: array for array in outputs.values()}
    np.testing.assert_array_equal(by_shape[1, 3], [[1, 2, 3]])
    np.testing.assert_array_equal(by_shape[1, 2], [[7, 8]])
    assert by_shape[1, 2].dtype == np.int8
    session.measure_round(deployment, PLAN, 0, feed)
    assert not list(Path(device._folder).rglob("owned"))


def swapping_model(path, with_signature):
    """A .tflite file that gives its second input first; its signature names them in yet another order."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    def tensor(name, shape, dtype):
        made = schema.TensorT()
        made.name, made.shape, made.type, made.buffer = name, shape, dtype, 0
        return made

    def entry(name, index):
        made = schema.TensorMapT()
        made.name, made.tensorIndex = name, index
        return made

    names = ("a", "b") if with_signature else HOSTILE
    graph = schema.SubGraphT()
    graph.tensors = [
        tensor(names[0], [1, 3], schema.TensorType.FLOAT32),
        tensor(names[1], [1, 2], schema.TensorType.INT8),
    ]
    graph.inputs, graph.outputs, graph.operators = [0, 1], [1, 0], []
    model = schema.ModelT()
    model.version, model.subgraphs, model.buffers, model.operatorCodes = 3, [graph], [schema.BufferT()], []
    if with_signature:
        signature = schema.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = "serving_default", 0
        signature.inputs = [entry(HOSTILE[1], 1), entry(HOSTILE[0], 0)]
        signature.outputs = [entry("out float", 0), entry("out,int", 1)]
        model.signatureDefs = [signature]
    builder = flatbuffers.Builder(256)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    return path


def test_a_delegate_that_took_a_part_is_recorded_with_its_share(open_host, tmp_path):
    program = stand_ins.benchmark_model(tmp_path, (HALF_GPU,))
    device = open_host(benchmark_model=OfficialTool(path=str(program)))
    deployment = deployed(device, FILES / "tiny-float.tflite", tmp_path, delegate="gpu")
    measured = session.measure_round(deployment, PLAN, 0, fed(tmp_path, image=images(1)))
    assert (measured.delegate, measured.delegated_fraction) == ("gpu", 0.5)


@pytest.mark.parametrize(
    ("said", "delegate", "message"),
    [
        ({"delegate_lines": (NO_NNAPI,)}, "nnapi", "ran on the CPU, not on nnapi"),
        ({"delegate_lines": (XNNPACK,)}, "gpu", "nothing in the program's log shows that the gpu delegate ran"),
        ({"unknown": ("use_nnapi",)}, "nnapi", "does not know --use_nnapi=true"),
        (
            {"delegate_lines": (HALF_GPU,), "status": 1},
            "gpu",
            "ended with status 1: .*Failed to apply GPU delegate",
        ),
    ],
)
def test_a_silent_fall_back_to_the_cpu_fails_rounds_and_outputs(open_host, tmp_path, said, delegate, message):
    device = open_host(benchmark_model=OfficialTool(path=str(stand_ins.benchmark_model(tmp_path, **said))))
    deployment = deployed(device, FILES / "tiny-float.tflite", tmp_path, delegate=delegate)
    where = rf"tiny-float.tflite with benchmark_model:{delegate} on device 'bench': .*"
    with pytest.raises(StageError, match=where + message):
        session.measure_round(deployment, PLAN, 0, fed(tmp_path, image=images(1)))
    with pytest.raises(StageError, match=where + message):
        session.run_outputs(deployment, fed(tmp_path, image=images(1)), 60)


def test_a_cut_log_is_an_error_also_where_the_program_ended_well(open_host, tmp_path):
    device = open_host(
        benchmark_model=OfficialTool(path=str(stand_ins.benchmark_model(tmp_path, (XNNPACK,), cut=True)))
    )
    deployment = deployed(device, FILES / "tiny-float.tflite", tmp_path)
    with pytest.raises(StageError, match="log ends before its result"):
        session.measure_round(deployment, PLAN, 0, fed(tmp_path, image=images(1)))
    with pytest.raises(StageError, match=r"has no file 'job-.*out.bin'"):
        session.run_outputs(deployment, fed(tmp_path, image=images(1)), 60)


def test_litert_s_program_gets_no_inputs_and_is_asked_for_no_outputs(open_host, tmp_path):
    program = stand_ins.benchmark_model(
        tmp_path, (XNNPACK,), unknown=("input_layer", "input_layer_value_files", "output_filepath", "use_xnnpack")
    )
    device = open_host(litert_benchmark_model=OfficialTool(path=str(program)))
    deployment = deployed(device, FILES / "tiny-float.tflite", tmp_path, "litert_benchmark_model")
    measured = session.measure_round(deployment, PLAN, 0, fed(tmp_path, image=images(1)))
    assert measured.summary is not None
    assert measured.summary.runs == 20
    assert deployment.most_samples == 0
    assert [caution.code for caution in deployment.cautions] == ["tool-summary", "random-inputs"]
    with pytest.raises(StageError, match="gives no outputs"):
        session.run_outputs(deployment, fed(tmp_path, image=images(1)), 60)
    with pytest.raises(RefusedError, match="open batch with one sample only"):
        session.measure_round(deployment, PLAN, 0, fed(tmp_path, image=images(2)))


def test_perf_test_gives_single_latencies_and_its_first_runs_are_the_warm_up(open_host, tmp_path):
    program = stand_ins.perf_test(tmp_path)
    device = open_host(onnxruntime_perf_test=OfficialTool(path=str(program)))
    deployment = deployed(device, FILES / "tiny.onnx", tmp_path, "onnxruntime_perf_test")
    measured = session.measure_round(deployment, PLAN, 0, {})
    assert (len(measured.latencies_ns), len(measured.warmup_ns), measured.summary) == (20, 2, None)
    assert (measured.delegate, measured.delegated_fraction) == ("cpu", 0.0)
    assert (measured.load_ns, measured.first_ns) == (85_312_900, 14_000_000)
    assert measured.peak_rss_bytes == 48_574_464
    assert [logged["mode"] for logged in words_said(deployment)] == ["proof", "latency"]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"placements": (" All nodes placed on [CPUExecutionProvider]. Number of nodes: 5",)}, "not on Nnapi"),
        ({}, "nothing in the program's log shows"),
        ({"missing": 1}, "has 2 usable latencies of 3 runs"),
    ],
)
def test_perf_test_on_the_cpu_unasked_or_with_a_cut_file_is_an_error(open_host, tmp_path, said, message):
    device = open_host(onnxruntime_perf_test=OfficialTool(path=str(stand_ins.perf_test(tmp_path, **said))))
    deployment = deployed(device, FILES / "tiny.onnx", tmp_path, "onnxruntime_perf_test", "nnapi")
    with pytest.raises(StageError, match=message):
        session.measure_round(deployment, PLAN, 0, {})


def test_perf_test_s_provider_is_recorded(open_host, tmp_path):
    placements = (" All nodes placed on [NnapiExecutionProvider]. Number of nodes: 1",)
    device = open_host(onnxruntime_perf_test=OfficialTool(path=str(stand_ins.perf_test(tmp_path, placements))))
    deployment = deployed(device, FILES / "tiny.onnx", tmp_path, "onnxruntime_perf_test", "nnapi")
    measured = session.measure_round(deployment, PLAN, 0, {})
    assert (measured.delegate, measured.delegated_fraction) == ("nnapi", 1.0)


def test_what_is_missing_or_impossible_is_told_before_anything_runs(open_host, tmp_path):
    program = stand_ins.benchmark_model(tmp_path)
    tool = OfficialTool(path=str(program))
    with pytest.raises(MissingError, match=r"has no benchmark_model; name its file in devices/bench.yaml: tools: "):
        deployed(open_host(), FILES / "tiny-float.tflite", tmp_path)
    with pytest.raises(InputError, match="needs `external_library:`"):
        deployed(open_host(benchmark_model=tool), FILES / "tiny-float.tflite", tmp_path, delegate="external")
    with pytest.raises(InputError, match="no delegate 'tpu'; possible: cpu, gpu, nnapi, external"):
        deployed(open_host(benchmark_model=tool), FILES / "tiny-float.tflite", tmp_path, delegate="tpu")
    other = OfficialTool(path=str(program), sha256="0" * 64)
    with pytest.raises(InputError, match=r"has the sha256 [0-9a-f]{64}, not 0{64}"):
        deployed(open_host(benchmark_model=other), FILES / "tiny-float.tflite", tmp_path)
    gone = OfficialTool(path=str(tmp_path / "gone"))
    with pytest.raises(InputError, match=r"gone is not there"):
        deployed(open_host(benchmark_model=gone), FILES / "tiny-float.tflite", tmp_path)


def test_a_spoilt_file_of_the_cache_is_made_anew(open_host, tmp_path, cache):
    program = stand_ins.benchmark_model(tmp_path, (XNNPACK,))
    device = open_host(benchmark_model=OfficialTool(path=str(program)))
    kept = cache / "official-tools" / file_sha256(program) / "benchmark_model"
    kept.parent.mkdir(parents=True)
    kept.write_text("#!/bin/sh\nexit 9\n")
    deployment = deployed(device, FILES / "tiny-float.tflite", tmp_path)
    assert session.measure_round(deployment, PLAN, 0, fed(tmp_path, image=images(1))).summary is not None


def test_a_device_without_taskset_is_measured_unpinned_and_that_is_said(open_host, tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("chmod", "true"):
        (folder / name).symlink_to(shutil.which(name))
    program = stand_ins.benchmark_model(tmp_path, (XNNPACK,))
    device = open_host(benchmark_model=OfficialTool(path=str(program)))
    monkeypatch.setenv("PATH", str(folder))
    deployment = deployed(device, FILES / "tiny-float.tflite", tmp_path)
    assert [caution.code for caution in deployment.cautions] == ["tool-summary", "not-pinned"]
    assert session.measure_round(deployment, PLAN, 0, fed(tmp_path, image=images(1))).affinity is None


def test_an_external_delegate_gets_its_library_and_options_as_they_are(open_host, tmp_path):
    program = stand_ins.benchmark_model(
        tmp_path,
        ("Explicitly applied EXTERNAL delegate, and the model graph will be completely executed by the delegate.",),
    )
    tool = OfficialTool(path=str(program), external_library="/usr/lib/lib edgetpu.so.1", options="device:usb;x:$(y)")
    with closing(Host(DeviceSpec(name="bench", driver="host", tools=OfficialTools(benchmark_model=tool)))) as device:
        deployment = deployed(device, FILES / "tiny-float.tflite", tmp_path, delegate="external")
        measured = session.measure_round(deployment, PLAN, 0, fed(tmp_path, image=images(1)))
    assert (measured.delegate, measured.delegated_fraction) == ("external", 1.0)
