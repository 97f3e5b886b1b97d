"""Wrong input gets one line that says what, which and what to do, and a status; nothing is lost."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from calling import Edgebench, Said

FILES = Path(__file__).parent.parent / "files"
TFLITE = FILES / "tiny-float.tflite"
ONNX = FILES / "tiny.onnx"


def one_line(said: Said, status: int, *parts: str) -> None:
    assert said.status == status, said
    for part in parts:
        assert part in said.last_line
    assert said.last_line.startswith("edgebench: ")


@pytest.mark.parametrize("name", ["model.keras", "model.h5", "model.pt2", "model.onnx", "model.tflite", "nets.py:net"])
def test_a_missing_model_is_named(edgebench: Edgebench, name: str) -> None:
    one_line(edgebench("convert+measure", name), 2, name.split(":")[0])


@pytest.mark.parametrize("ending", ["tflite", "onnx", "keras", "h5", "pt2"])
@pytest.mark.parametrize("content", ["random", "truncated", "empty"])
def test_a_broken_model_file_is_named(edgebench: Edgebench, tmp_path: Path, ending: str, content: str) -> None:
    file = tmp_path / f"broken.{ending}"
    whole = {"tflite": TFLITE, "onnx": ONNX}.get(ending, TFLITE).read_bytes()
    file.write_bytes(
        {"random": np.random.default_rng(0).bytes(5000), "truncated": whole[: len(whole) // 2], "empty": b""}[content]
    )
    one_line(edgebench("convert+measure", file, "--recipe", "tflite-fp32"), 2, file.name)


@pytest.mark.parametrize("content", ["random", "truncated", "empty"])
def test_a_broken_npz_is_named(edgebench: Edgebench, tmp_path: Path, content: str) -> None:
    np.savez(tmp_path / "whole.npz", image=np.zeros((60, 8, 8, 3), "float32"))
    whole = (tmp_path / "whole.npz").read_bytes()
    file = tmp_path / "data.npz"
    file.write_bytes(
        {"random": np.random.default_rng(0).bytes(5000), "truncated": whole[: len(whole) // 2], "empty": b""}[content]
    )
    one_line(edgebench("convert+measure", TFLITE, "--data", file, "--recipe", "tflite-fp32"), 2, "data.npz")


def test_wrong_shapes_show_both(edgebench: Edgebench, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", image=np.zeros((60, 9, 9, 3), "float32"))
    one_line(edgebench("convert+measure", TFLITE, "--data", "data.npz", "--recipe", "tflite-fp32"), 2, "9", "8")


def test_an_unknown_recipe_names_the_nearest(edgebench: Edgebench) -> None:
    one_line(edgebench("convert", TFLITE, "--recipe", "tflite-in8"), 2, "tflite-in8", "tflite-int8")


def test_an_unknown_zoo_net_names_the_nearest(edgebench: Edgebench) -> None:
    one_line(edgebench("convert", "zoo:digits-cnn-keas"), 2, "digits-cnn-keras")


def test_an_unknown_device_names_the_nearest(edgebench: Edgebench) -> None:
    one_line(edgebench("measure", TFLITE, "--device", "hots"), 2, "hots", "host")


def test_an_unknown_key_of_a_matrix_names_the_nearest(edgebench: Edgebench, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(f"model: {{source: {TFLITE}}}\nrecipes: [tflite-fp32]\ndevcies: [host]\n")
    one_line(edgebench("run", "m.yaml"), 2, "m.yaml", "unknown key 'devcies'", "did you mean 'devices'?")


def test_an_inner_unknown_key_is_named_with_its_place(edgebench: Edgebench, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(f"model: {{source: {TFLITE}}}\nplan: {{round: 5}}\n")
    one_line(edgebench("run", "m.yaml"), 2, "unknown key 'plan.round'; did you mean 'rounds'?")


def test_a_wrong_value_of_a_matrix_is_told(edgebench: Edgebench, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(f"model: {{source: {TFLITE}}}\nplan: {{rounds: none}}\n")
    one_line(edgebench("run", "m.yaml"), 2, "m.yaml line 2: plan.rounds")


def test_what_is_no_yaml_is_told_with_its_line(edgebench: Edgebench, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text("model: [\n")
    one_line(edgebench("run", "m.yaml"), 2, "m.yaml line 2", "not YAML")


@pytest.mark.parametrize(
    "wrong",
    [
        "plan: {min_seconds: .nan}", "plan: {max_seconds: .inf}", "plan: {max_runs: 99999999999}",
        "budget: {max_p90_ms: .nan}", "budget: {max_size_mb: -1}", "threads: [100000]", "data: null", "model: zoo:x",
    ],
)  # fmt: skip
def test_an_impossible_value_of_a_matrix_is_told_before_anything_runs(
    edgebench: Edgebench, tmp_path: Path, wrong: str
) -> None:
    model = "" if wrong.startswith("model") else f"model: {{source: {TFLITE}}}\n"
    (tmp_path / "m.yaml").write_text(f"{model}{wrong}\n")
    said = edgebench("run", "m.yaml")
    one_line(said, 2, "m.yaml", wrong.split(":")[0])
    assert "_Model" not in said.err
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plan: {rounds: true}", "m.yaml line 2: plan.rounds: yes and no (true, false) are no value here"),
        ("threads: [1, yes]", "m.yaml line 2: threads: yes and no"),
        ("threads: 1\ndevices: host\nthreads: 2", "m.yaml line 4: key 'threads' is there twice, first in line 2"),
        ("plan:\n  rounds: 5\n  rounds: 6", "m.yaml line 4: key 'plan.rounds' is there twice, first in line 3"),
        ("data: {calibration: 50, calibration_samples: 200}", "data.calibration: 50 and data.calibration_samples: 200"),
        ("data: {calibration_samples: 0}", "data calibration: 0; at least 1 sample"),
    ],
)
def test_what_yaml_would_let_pass_in_silence_is_told(
    edgebench: Edgebench, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "m.yaml").write_text(f"model: {{source: {TFLITE}}}\n{text}\n")
    one_line(edgebench("run", "m.yaml"), 2, message)


def test_an_input_with_nan_names_its_row_before_anything_is_converted(edgebench: Edgebench, tmp_path: Path) -> None:
    inputs = np.random.default_rng(0).normal(size=(60, 8, 8, 3)).astype("float32")
    inputs[33, 2, 2] = np.nan
    np.savez(tmp_path / "data.npz", image=inputs)
    arguments = ("--data", "data.npz", "--recipe", "tflite-fp32", "--calibration-samples", 1)
    said = edgebench("convert", TFLITE, *arguments)
    one_line(said, 2, "data.npz: 'image' has NaN or Inf in 1 of 59 samples, first in 33; mend or remove")


def test_one_sample_is_enough_for_recipes_that_do_not_calibrate(edgebench: Edgebench, tmp_path: Path) -> None:
    inputs = np.random.default_rng(0).normal(size=(1, 8, 8, 3)).astype("float32")
    np.savez(tmp_path / "data.npz", image=inputs)
    said = edgebench("convert", TFLITE, "--data", "data.npz", "--recipe", "tflite-fp32", "-r", "tflite-int8")
    assert "needs calibration samples and there are none: give --data with 2 samples or more" in said.out + said.err
    assert said.status == 1
    assert edgebench("convert", TFLITE, "--data", "data.npz", "--recipe", "tflite-fp32", "--out", "b").status == 0


@pytest.mark.parametrize("option", ["--data", "--calibration"])
@pytest.mark.parametrize("name", ["absent.npz", "absent.csv", "absent", "absent.py:samples"])
def test_missing_data_is_told_before_the_model_is_loaded(edgebench: Edgebench, option: str, name: str) -> None:
    said = edgebench("convert", TFLITE, option, name, "--recipe", "tflite-fp32")
    one_line(said, 2, name.split(":")[0])
    assert "Loading" not in said.err


def test_truth_with_nan_names_its_sample(edgebench: Edgebench, tmp_path: Path) -> None:
    target = np.zeros((60, 3), "float32")
    target[7] = np.nan
    inputs = np.random.default_rng(0).normal(size=(60, 8, 8, 3)).astype("float32")
    np.savez(tmp_path / "data.npz", **{"image": inputs, "target:scores": target})
    said = edgebench("measure", TFLITE, "--data", "data.npz", "--task", "regression")
    one_line(said, 2, "data.npz: 'target:scores' has NaN or Inf in 1 of 60 samples, first in 7")


def test_a_name_with_control_characters_stays_on_one_line(edgebench: Edgebench) -> None:
    said = edgebench("measure", "a\nb\x1b[31m.tflite")
    one_line(said, 2, "b\\x1b[31m.tflite")


def test_a_missing_matrix_is_named(edgebench: Edgebench) -> None:
    one_line(edgebench("run", "absent.yaml"), 2, "absent.yaml: No such file")


def test_an_empty_calibration_set_is_told(edgebench: Edgebench, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", image=np.ones((60, 8, 8, 3), "float32"))
    np.savez(tmp_path / "none.npz", image=np.ones((0, 8, 8, 3), "float32"))
    said = edgebench("convert", TFLITE, "--data", "data.npz", "--calibration", "none.npz", "--recipe", "tflite-int8")
    one_line(said, 2, "none.npz")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("inspect", "absent.tflite"), 2),
        (("convert",), 2),
        (("measure", ONNX, "--rounds", "0"), 2),
        (("report", "absent"), 2),
        (("convert", TFLITE, "--data", "sample-photos", "--weights", "absent.pt"), 2),
    ],
)
def test_json_is_one_document_with_the_error_when_the_input_is_wrong(
    edgebench: Edgebench, words: tuple[object, ...], status: int
) -> None:
    said = edgebench(*words, "--json")
    one_line(said, status)
    assert json.loads(said.out) == {
        "error": {"message": said.last_line.removeprefix("edgebench: "), "exit_status": status}
    }


def test_a_full_stdout_is_told(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "edgebench", "recipes", "--json"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (3, "edgebench: can't go on: No space left on device\n")


def test_an_unknown_option_and_its_like_are_told_in_one_line(edgebench: Edgebench) -> None:
    one_line(edgebench("convert", TFLITE, "--recipes", "x"), 2, "--recipes")


def test_a_command_without_its_argument_is_told_in_one_line(edgebench: Edgebench) -> None:
    one_line(edgebench("convert"), 2, "MODEL", "; see edgebench convert --help")
    one_line(edgebench("inspect"), 2, "'FILE'")


@pytest.mark.parametrize(("option", "value"), [("--threads", 0), ("--batch", "big"), ("--rounds", 0)])
def test_an_impossible_option_is_told(edgebench: Edgebench, option: str, value: object) -> None:
    one_line(edgebench("measure", TFLITE, option, value), 2)


def test_a_report_of_no_run_is_told(edgebench: Edgebench, tmp_path: Path) -> None:
    one_line(edgebench("report", tmp_path / "absent"), 2, "absent is not there")
    (tmp_path / "other").mkdir()
    one_line(edgebench("report", tmp_path / "other"), 2, "no run folder")


def test_a_store_that_is_no_database_is_told(edgebench: Edgebench, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "records.sqlite").write_bytes(np.random.default_rng(0).bytes(9000))
    one_line(edgebench("report", "run"), 2, "records.sqlite")
    one_line(edgebench("measure", TFLITE, "--out", "run"), 2, "records.sqlite")


def test_an_out_that_is_a_file_is_told(edgebench: Edgebench, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    one_line(edgebench("measure", TFLITE, "--out", "out"), 2, "out is a file")
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.skipif(not shutil.which("chattr"), reason="needs a file system with immutable folders, by chattr")
def test_an_out_without_write_permission_is_told(edgebench: Edgebench, tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    if os.system(f"chattr +i '{folder}' 2>/dev/null"):  # root ignores permission bits, but not this
        pytest.skip("this file system has no immutable folders")
    try:
        one_line(edgebench("measure", TFLITE, "--out", folder / "run"), 2, "locked")
    finally:
        os.system(f"chattr -i '{folder}'")


def fill_up(file: Path) -> None:
    with open(file, "ab", buffering=0) as stream, contextlib.suppress(OSError):
        while stream.write(b"0" * 4096):
            pass


def test_a_full_disk_is_told_and_the_records_stay(edgebench: Edgebench, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.system(f"mount -t tmpfs -o size=4m tmpfs '{disk}' 2>/dev/null"):
        pytest.skip("needs root, to mount a small file system")
    try:
        said = edgebench("measure", TFLITE, "--rounds", 1, "--min-seconds", 0, "--out", disk / "run")
        assert said.status in (0, 1)
        fill_up(disk / "fill")
        said = edgebench("measure", ONNX, "--rounds", 1, "--min-seconds", 0, "--out", disk / "run")
        one_line(said, 3, "space")
        (disk / "fill").unlink()
        assert "tiny-float" in edgebench("report", disk / "run").out
    finally:
        os.system(f"umount '{disk}'")


def test_a_missing_extra_is_told_with_what_to_type(
    edgebench: Edgebench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sklearn.py").write_text("raise ImportError('hidden')")
    monkeypatch.syspath_prepend(str(hidden))
    monkeypatch.setattr("sys.modules", {k: v for k, v in __import__("sys").modules.items() if "sklearn" not in k})
    one_line(edgebench("convert", TFLITE, "--data", "sample-photos"), 3, "pip install 'edgebench[zoo]'")
