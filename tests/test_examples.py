"""The examples run as their README says."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
QUICK = ("--rounds", "1", "--min-seconds", "0", "--min-runs", "5", "--quiet")


@pytest.mark.parametrize("name", ["my_torch_model.py", "my_keras_model.py"])
def test_a_model_and_data_of_ones_own(tmp_path: Path, name: str) -> None:
    shutil.copy(EXAMPLES / name, tmp_path)
    command = ["convert+measure", f"{name}:net", "--data", f"{name}:samples", *QUICK]
    done = subprocess.run(
        [sys.executable, "-m", "edgebench", *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "tflite-int8 " in done.stdout
    assert "onnx-int8 " in done.stdout


def test_the_matrix_of_the_examples_is_one() -> None:
    from edgebench.config import load_matrix

    matrix = load_matrix(EXAMPLES / "digits.yaml")
    assert [recipe.name for recipe in matrix.recipes] == ["tflite-fp32", "tflite-int8", "onnx-fp32", "onnx-int8"]
