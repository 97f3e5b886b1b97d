"""The Edge TPU's driver as far as it goes without one.

Google's libedgetpu, its device and edgetpu_compiler can't be had from a package registry. What stands in for the
library is a small shared object of its name with its public symbols: it takes over the operator that the compiler
leaves in a file, and computes nothing. The interpreter, the runner and the driver are the real ones; speed and values
are not tested.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgebench.converters import artifact_files
from edgebench.devices import edgetpu_address, inventory
from edgebench.devices.edgetpu import EdgeTpu
from edgebench.errors import ConfigError, MissingError, RefusedError, StageError
from edgebench.measure import feed_files, session
from edgebench.types import Artifact, DeviceSpec, EdgeTpuFacts, Plan, Target

FILES = Path(__file__).parent.parent / "files"
USB = DeviceSpec(name="coral-usb", driver="edgetpu", address="usb:0")
PCI = DeviceSpec(name="coral-pci", driver="edgetpu", address="pci:0")
ON_EDGETPU = Target(device="coral-usb", runtime="litert", delegate="edgetpu")

# The parts that it needs of TfLiteDelegate, TfLiteContext and TfLiteRegistration (tensorflow/lite/core/c/common.h).
# The kernel that it puts in place of each edgetpu-custom-op does nothing; failures.txt tells it how often not to open.
LIBRARY = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef struct { int size; int data[64]; } Ints;
typedef struct Registration {
  void* init; void* free; void* prepare; int (*invoke)(void*, void*); void* profiling; int32_t builtin;
  const char* name; int version; void* rest[6];
} Registration;
typedef struct Delegate Delegate;
typedef struct Context {
  size_t tensors_size; int (*plan)(struct Context*, Ints**); void* skipped[5];
  int (*node)(struct Context*, int, void**, Registration**);
  int (*replace)(struct Context*, Registration, const Ints*, Delegate*);
} Context;
struct Delegate { void* data; int (*prepare)(Context*, Delegate*); void* buffers[3]; int64_t flags; void* opaque; };
static int invoke(void* context, void* node) { return 0; }
static int prepare(Context* context, Delegate* delegate) {
  Ints* plan; Ints taken = {0};
  context->plan(context, &plan);
  for (int i = 0; i < plan->size; i++) {
    void* node; Registration* found;
    context->node(context, plan->data[i], &node, &found);
    if (found->name && !strcmp(found->name, "edgetpu-custom-op")) taken.data[taken.size++] = plan->data[i];
  }
  Registration kernel = {.invoke = invoke, .name = "EdgeTpuDelegateForCustomOp", .version = 1};
  return taken.size ? context->replace(context, kernel, &taken, delegate) : 0;
}
const char* edgetpu_version(void) { return "BuildLabel(stand-in), RuntimeVersion(14)"; }
Delegate* tflite_plugin_create_delegate(char** keys, char** values, size_t n, void (*report)(const char*)) {
  FILE* log = fopen(FOLDER "/opened.txt", "a");
  for (size_t i = 0; i < n; i++) fprintf(log, "%s=%s\\n", keys[i], values[i]);
  fclose(log);
  FILE* failures = fopen(FOLDER "/failures.txt", "r+");
  if (failures) {
    int left = fgetc(failures) - '0';
    if (left > 0) { rewind(failures); fputc('0' + left - 1, failures); }
    fclose(failures);
    if (left > 0) { report("no such device"); return NULL; }
  }
  Delegate* made = calloc(1, sizeof(Delegate));
  made->prepare = prepare;
  made->flags = 1;  /* dynamic tensors allowed: operators are not prepared before the delegate has taken its own */
  return made;
}
void tflite_plugin_destroy_delegate(Delegate* delegate) { free(delegate); }
"""


def attach(root: Path, vendor: str = "18d1", product: str = "9302") -> Path:
    """A /sys with a USB device of these ids, as `root`."""
    entry = root / "sys/bus/usb/devices/2-1"
    entry.mkdir(parents=True)
    (entry / "idVendor").write_text(f"{vendor}\n")
    (entry / "idProduct").write_text(f"{product}\n")
    return root


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the stand-in library, where it logs what it was asked for."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: the stand-in for libedgetpu can't be built")
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "edgetpu.c").write_text(LIBRARY)
    arguments = ["-shared", "-fPIC", f'-DFOLDER="{folder}"', "-o", "libedgetpu.so.1", "edgetpu.c"]
    subprocess.run([compiler, *arguments], cwd=folder, check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    return folder


@pytest.fixture
def device(tmp_path: Path) -> Iterator[EdgeTpu]:
    made = EdgeTpu(USB, attach(tmp_path / "root"))
    yield made
    made.close()


def compiled(run: Path, mapped: int) -> Artifact:
    """An int8 file said to be compiled; without the closed compiler it has no operator of the Edge TPU in it."""
    plain = artifact_files.from_file(FILES / "tiny-int8.tflite", run)
    facts = EdgeTpuFacts(
        compiler="16.0",
        plain_file=plain.files[0],
        plain_sha256=plain.sha256,
        mapped_ops=mapped,
        total_ops=3,
    )
    return replace(plain, sha256="c" * 64, edgetpu=facts)


def with_edgetpu_operator(path: Path) -> Path:
    """A file of the shape that edgetpu_compiler leaves: image (1, 8, 8, 3), edgetpu-custom-op, RELU, scores (1, 3)."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model, graph = schema.ModelT(), schema.SubGraphT()
    model.version, model.subgraphs, model.buffers = 3, [graph], [schema.BufferT()]
    model.operatorCodes = [schema.OperatorCodeT(), schema.OperatorCodeT()]
    for code, (builtin, custom) in zip(
        model.operatorCodes,
        [(schema.BuiltinOperator.CUSTOM, "edgetpu-custom-op"), (schema.BuiltinOperator.RELU, None)],
        strict=True,
    ):
        code.builtinCode = code.deprecatedBuiltinCode = builtin
        code.customCode, code.version = custom, 1
    graph.tensors, graph.operators, graph.inputs, graph.outputs = [], [], [0], [2]
    for name, shape in {"image": [1, 8, 8, 3], "hidden": [1, 3], "scores": [1, 3]}.items():
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = name, shape, schema.TensorType.INT8, 0
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale, tensor.quantization.zeroPoint = [0.1], [0]
        graph.tensors.append(tensor)
    for place in (0, 1):
        operator = schema.OperatorT()
        operator.opcodeIndex, operator.inputs, operator.outputs = place, [place], [place + 1]
        graph.operators.append(operator)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    return path


def image(run: Path) -> dict[str, feed_files.FeedFile]:
    return {"image": feed_files.write(run / "feed" / "image.npy", np.zeros((1, 8, 8, 3), np.int8))}


def test_the_shipped_inventory_has_a_coral_and_its_delegate() -> None:
    assert {spec.name: (spec.driver, spec.address) for spec in inventory.list_devices()}["coral-usb"] == (
        "edgetpu",
        "usb:0",
    )
    assert (inventory.delegate("coral-usb"), inventory.delegate("host")) == ("edgetpu", "cpu")
    assert inventory.is_this_machine("coral-usb")


@pytest.mark.parametrize("address", ["usb", "usb:0", "pci", "pci:1"])
def test_the_four_forms_of_an_address_are_libedgetpus(address: str) -> None:
    assert edgetpu_address.parse(address, "x") == address


@pytest.mark.parametrize("address", [None, "", "tty:0", "usb:0:1", "usb:x", "usb:0\n"])
def test_another_address_is_refused_with_what_is_possible(address: str | None) -> None:
    with pytest.raises(ConfigError, match="is no Edge TPU; use usb:0"):
        edgetpu_address.parse(address, "x")


def test_without_the_accelerator_the_device_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"no Coral USB Accelerator is attached .* plug it in"):
        EdgeTpu(USB, attach(tmp_path, vendor="1d6b", product="0002"))
    with pytest.raises(MissingError, match=r"no /sys/class/apex/apex_0; install the driver gasket-dkms"):
        EdgeTpu(PCI, tmp_path)


def test_an_accelerator_is_found_before_its_firmware_is_loaded_and_after(tmp_path: Path) -> None:
    for name, ids in {"before": ("1a6e", "089a"), "after": ("18d1", "9302")}.items():
        device = EdgeTpu(USB, attach(tmp_path / name, *ids))
        assert device.identity()["edge_tpu"] == "usb:0"
        assert device.spec == USB
        device.close()


def test_the_temperature_is_the_pcie_edge_tpus_and_unknown_over_usb(tmp_path: Path, device: EdgeTpu) -> None:
    apex = tmp_path / "pci/sys/class/apex/apex_0"
    apex.mkdir(parents=True)
    (apex / "temp").write_text("47050\n")
    on_pcie = EdgeTpu(PCI, tmp_path / "pci")
    assert on_pcie.conditions().temperature_c == pytest.approx(47.05)
    (apex / "temp").write_text("?\n")
    assert on_pcie.conditions().temperature_c is None
    assert device.conditions().temperature_c is None
    on_pcie.close()


def test_the_python_of_the_devices_file_is_taken(tmp_path: Path) -> None:
    device = EdgeTpu(replace(USB, python="/opt/coral/bin/python"), attach(tmp_path))
    assert device.runtime_command("tflite-runtime") == ("/opt/coral/bin/python",)
    device.close()


def test_a_file_that_is_not_compiled_is_refused_on_an_edge_tpu(tmp_path: Path, device: EdgeTpu) -> None:
    plain = artifact_files.from_file(FILES / "tiny-int8.tflite", tmp_path / "run")
    with pytest.raises(RefusedError, match="is not compiled for the Edge TPU, so device 'coral-usb' would run it on"):
        session.deploy(device, plain, tmp_path / "run", ON_EDGETPU)


def test_a_compiled_file_runs_its_plain_file_on_a_cpu_and_says_so(tmp_path: Path, device: EdgeTpu) -> None:
    artifact = compiled(tmp_path / "run", mapped=3)
    deployment = session.deploy(device, artifact, tmp_path / "run", replace(ON_EDGETPU, delegate="cpu"))
    assert artifact.edgetpu is not None
    assert deployment.artifact.sha256 == artifact.edgetpu.plain_sha256
    assert [caution.code for caution in deployment.cautions] == ["edgetpu-file-on-cpu"]
    assert session.run_outputs(deployment, image(tmp_path / "run"), 60)["scores"].shape == (1, 3)


def test_without_libedgetpu_one_line_says_what_to_install(tmp_path: Path, device: EdgeTpu) -> None:
    run = tmp_path / "run"
    deployment = session.deploy(device, compiled(run, mapped=3), run, ON_EDGETPU)
    with pytest.raises(StageError, match=r"libedgetpu\.so\.1 can't be loaded .*; install libedgetpu1-std") as caught:
        session.run_outputs(deployment, image(run), 60)
    assert "\n" not in str(caught.value)


def test_a_compiled_file_is_measured_with_its_load_apart_and_its_share(
    tmp_path: Path, device: EdgeTpu, library: Path
) -> None:
    run = tmp_path / "run"
    artifact = artifact_files.from_file(with_edgetpu_operator(tmp_path / "net_edgetpu.tflite"), run)
    assert artifact.is_for_edgetpu
    deployment = session.deploy(device, artifact, run, ON_EDGETPU)
    plan = Plan(min_runs=5, min_seconds=0, max_runs=10, warmup_max_seconds=0.1)
    found = session.measure_round(deployment, plan, 0, image(run))
    assert (found.delegate, found.delegated_fraction) == ("edgetpu", 0.5)
    assert found.runtime_version.endswith(" with BuildLabel(stand-in), RuntimeVersion(14)")
    assert found.load_ns > 0
    assert len(found.latencies_ns) >= 5
    with pytest.raises(RefusedError, match="which device 'host' does not have"):
        session.deploy(device, artifact, run, Target(device="host", runtime="litert"))


def test_an_edge_tpu_that_runs_nothing_fails_the_cell(tmp_path: Path, device: EdgeTpu, library: Path) -> None:
    run = tmp_path / "run"
    deployment = session.deploy(device, compiled(run, mapped=0), run, ON_EDGETPU)
    with pytest.raises(StageError, match="silent CPU fallback: the file has no edgetpu-custom-op"):
        session.run_outputs(deployment, image(run), 60)
    assert (library / "opened.txt").read_text() == "device=usb:0\n"


def test_an_accelerator_that_changes_its_identity_is_opened_again_once(
    tmp_path: Path, device: EdgeTpu, library: Path
) -> None:
    run = tmp_path / "run"
    deployment = session.deploy(device, compiled(run, mapped=0), run, ON_EDGETPU)
    (library / "failures.txt").write_text("1")
    with pytest.raises(StageError, match="silent CPU fallback"):  # so it was opened
        session.run_outputs(deployment, image(run), 60)
    assert (library / "opened.txt").read_text().count("device=usb:0") == 2
    (library / "failures.txt").write_text("2")
    with pytest.raises(StageError, match=r"the Edge TPU at usb:0 does not open .*; see that it is plugged in"):
        session.run_outputs(deployment, image(run), 60)
