"""The compiler's seam.

edgetpu_compiler itself is closed, x86-64 Linux only and not to be had from a package registry, so a small program of
its name stands in for it on PATH: it speaks the tool's own interface (arguments, files, real texts of version 16.0),
and everything of ours runs unchanged.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgebench.converters import artifact_files, edgetpu_compiler
from edgebench.errors import ChildTimeoutError, MissingError, StageError
from edgebench.types import Artifact

FILES = Path(__file__).parents[1] / "files"
TEXTS = FILES / "edgetpu_compiler"
PARTIAL = (TEXTS / "partial_stdout.txt").read_text()
LOG = (TEXTS / "partial_edgetpu.log").read_text()
FAILED = (TEXTS / "failed_stdout.txt").read_text()
MAPPED_ALL = PARTIAL.partition("\nModel successfully compiled but")[0] + "\nCompilation succeeded!\n"
MAPPED_NONE = """Edge TPU Compiler version 16.0.384591198

Model compiled successfully in 17 ms.

On-chip memory used for caching model parameters: 0.00B
On-chip memory remaining for caching model parameters: 0.00B
Off-chip memory used for streaming uncached model parameters: 0.00B
Number of Edge TPU subgraphs: 0
Total number of operations: 3
Number of operations that will run on Edge TPU: 0
Number of operations that will run on CPU: 3
"""

PROGRAM = """#!{python}
import pathlib, shutil, sys, time
here = pathlib.Path({folder!r})
(here / "arguments.txt").write_text("\\n".join(sys.argv[1:]))
if sys.argv[1:] == ["-v"]:
    print("Edge TPU Compiler version 16.0.384591198")
    sys.exit(0)
time.sleep({seconds})
source = pathlib.Path(sys.argv[-1])
out = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
print((here / "printed.txt").read_text())
if {writes}:
    shutil.copyfile(source, out / (source.stem + "_edgetpu.tflite"))
    (out / (source.stem + "_edgetpu.log")).write_text((here / "log.txt").read_text())
sys.exit({status})
"""


def install(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    printed: str,
    log: str = "",
    *,
    writes: bool = True,
    status: int = 0,
    seconds: float = 0,
) -> None:
    """Put a program named edgetpu_compiler alone on PATH, which prints and logs these texts."""
    folder.mkdir()
    (folder / "printed.txt").write_text(printed)
    (folder / "log.txt").write_text(log)
    program = folder / "edgetpu_compiler"
    values = {"python": sys.executable, "folder": str(folder), "writes": writes, "status": status, "seconds": seconds}
    program.write_text(PROGRAM.format(**values))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.fixture
def plain(tmp_path: Path) -> Artifact:
    return artifact_files.from_file(FILES / "tiny-int8.tflite", tmp_path / "run")


def test_a_partly_mapped_file_has_its_share_its_memory_and_each_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: Artifact
) -> None:
    install(tmp_path / "bin", monkeypatch, PARTIAL, LOG)
    made = edgetpu_compiler.compile(plain, tmp_path / "run")
    facts = made.edgetpu
    assert facts is not None
    assert (facts.mapped_ops, facts.total_ops, facts.subgraphs) == (66, 70, 1)
    assert facts.share == pytest.approx(66 / 70)
    assert (facts.cached_bytes, facts.streamed_bytes) == (round(4.21 * 2**20), 0)
    assert facts.cache_left_bytes == round(3.29 * 2**20)
    assert facts.cpu_ops == {
        "CONV_2D: More than one subgraph is not supported": 1,
        "LEAKY_RELU: Operation not supported": 1,
        "QUANTIZE: Operation is otherwise supported, but not mapped due to some unspecified limitation": 1,
        "RESIZE_NEAREST_NEIGHBOR: Operation version not supported": 1,
    }
    assert made.tool_versions["edgetpu_compiler"] == "16.0.384591198"
    assert [caution.code for caution in made.cautions] == ["edgetpu-partly-cpu"]
    assert made.files[0].endswith("/tiny-int8_edgetpu.tflite")
    assert (tmp_path / "run" / made.files[0]).is_file()
    assert (tmp_path / "run" / facts.plain_file).is_file()
    assert made.census == plain.census


def test_the_compiler_is_started_in_a_scratch_folder_that_is_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: Artifact
) -> None:
    install(tmp_path / "bin", monkeypatch, PARTIAL, LOG)
    odd = tmp_path / "run" / "artifacts" / "$(touch x) -o.tflite"
    odd.write_bytes((tmp_path / "run" / plain.files[0]).read_bytes())
    edgetpu_compiler.compile(replace(plain, files=("artifacts/$(touch x) -o.tflite",)), tmp_path / "run")
    arguments = (tmp_path / "bin" / "arguments.txt").read_text().splitlines()
    assert arguments[:4] == ["-s", "-t", "540", "-o"]
    assert Path(arguments[5]).name == "model.tflite"
    assert not Path(arguments[4]).exists()


def test_a_wholly_mapped_file_has_no_table_and_a_share_of_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: Artifact
) -> None:
    install(tmp_path / "bin", monkeypatch, MAPPED_ALL)
    made = edgetpu_compiler.compile(plain, tmp_path / "run")
    assert made.edgetpu is not None
    assert (made.edgetpu.mapped_ops, made.edgetpu.total_ops, made.edgetpu.cpu_ops) == (70, 70, {})
    assert made.cautions == ()


def test_no_mapped_operator_is_a_cpu_run_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: Artifact
) -> None:
    install(tmp_path / "bin", monkeypatch, MAPPED_NONE)
    made = edgetpu_compiler.compile(plain, tmp_path / "run")
    assert made.edgetpu is not None
    assert (made.edgetpu.mapped_ops, made.edgetpu.share) == (0, 0.0)
    (caution,) = made.cautions
    assert caution.code == "edgetpu-cpu-only"
    assert "mapped none of 3 operators: this is a CPU run" in caution.message


def test_streamed_parameters_are_a_caution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: Artifact) -> None:
    streams = MAPPED_ALL.replace("uncached model parameters: 0.00B", "uncached model parameters: 10.50MiB")
    install(tmp_path / "bin", monkeypatch, streams)
    made = edgetpu_compiler.compile(plain, tmp_path / "run")
    assert made.edgetpu is not None
    assert made.edgetpu.streamed_bytes == round(10.5 * 2**20)
    assert [caution.code for caution in made.cautions] == ["edgetpu-streams"]


@pytest.mark.parametrize("status", [0, 1])
def test_a_failed_compilation_is_told_in_the_compilers_own_words_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: Artifact, status: int
) -> None:
    install(tmp_path / "bin", monkeypatch, FAILED, writes=False, status=status)
    with pytest.raises(StageError, match="Didn't find op for builtin opcode 'CONV_2D' version '6'") as caught:
        edgetpu_compiler.compile(plain, tmp_path / "run")
    assert "Compilation failed: Model failed in Tflite interpreter" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_compiler_that_hangs_is_ended_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: Artifact
) -> None:
    install(tmp_path / "bin", monkeypatch, PARTIAL, LOG, seconds=60)
    with pytest.raises(ChildTimeoutError, match=r"ended after its limit of 0\.5 s"):
        edgetpu_compiler.compile(plain, tmp_path / "run", time_limit_s=0.5)


def test_without_the_compiler_one_line_says_what_to_install_and_from_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: Artifact
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match=r"edgetpu-compiler as https://coral\.ai/docs/edgetpu/compiler says"):
        edgetpu_compiler.compile(plain, tmp_path / "run")
    assert edgetpu_compiler.version() == "absent"


def test_the_version_on_path_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "bin", monkeypatch, "")
    assert edgetpu_compiler.version() == "16.0.384591198"


def test_a_report_without_any_count_is_not_guessed() -> None:
    with pytest.raises(StageError, match="did not say how many operators it mapped"):
        edgetpu_compiler.parse("Edge TPU Compiler version 99.0\nall good\n", "")
