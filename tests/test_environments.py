from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from edgebench import environments
from edgebench.errors import InputError, MissingError, StageError


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEBENCH_HOME", str(tmp_path))


@pytest.mark.parametrize("name", environments.names())
def test_an_environment_that_was_not_made_names_the_command_that_makes_it(name: str) -> None:
    with pytest.raises(MissingError, match=f"edgebench env make {name}$"):
        environments.python_of(name)


def test_an_unknown_environment_lists_those_there_are() -> None:
    with pytest.raises(InputError, match="no side environment 'tensorrt'; there are onnx2tf, tflite-runtime"):
        environments.python_of("tensorrt")
    with pytest.raises(InputError, match="tensorrt"):
        environments.make("tensorrt")


def test_a_build_that_broke_off_does_not_count(tmp_path: Path) -> None:
    half = tmp_path / "envs" / "tflite-runtime" / "bin"
    half.mkdir(parents=True)
    (half / "python").touch()
    with pytest.raises(MissingError):
        environments.python_of("tflite-runtime")


def test_a_failing_pip_names_its_log_and_leaves_no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting, value in {"PIP_INDEX_URL": "http://127.0.0.1:9", "PIP_NO_INDEX": "1", "PIP_RETRIES": "0"}.items():
        monkeypatch.setenv(setting, value)
    with pytest.raises(StageError, match=r"tflite-runtime\.log.*edgebench env make tflite-runtime"):
        environments.make("tflite-runtime")
    assert (tmp_path / "envs" / "tflite-runtime.log").read_text()
    with pytest.raises(MissingError):
        environments.python_of("tflite-runtime")


@pytest.mark.slow
def test_the_old_runtime_is_built_once_and_constructs_an_interpreter() -> None:
    python = environments.make("tflite-runtime")
    assert environments.python_of("tflite-runtime") == python
    assert environments.make("tflite-runtime") == python
    model = Path(__file__).parent / "files" / "tiny-int8.tflite"
    script = (
        f"from tflite_runtime.interpreter import Interpreter as I; I({str(model)!r}).allocate_tensors(); print('ok')"
    )
    done = subprocess.run([str(python), "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.strip() == "ok", done.stderr
