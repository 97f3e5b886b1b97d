from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgebench.data.training import TrainingData, load_training
from edgebench.errors import ConfigError, ModelError
from edgebench.models import Progress, TrainOptions, snapshot, train

_TORCH = """
import torch


def net():
    return torch.nn.Sequential(
        torch.nn.Linear(6, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(16, 3)
    ), torch.zeros(1, 6)


def line():
    return torch.nn.Linear(6, 1)
"""

_KERAS = """
import keras
from keras import layers


def net():
    x = keras.Input((6,), name="x")
    y = layers.Dropout(0.3)(layers.BatchNormalization()(layers.Dense(16, activation="relu")(x)))
    return keras.Model(x, layers.Dense(3, activation="softmax", name="classes")(y))


def line():
    return keras.Sequential([keras.Input((6,), name="x"), layers.Dense(1)])
"""

_OPTIONS = TrainOptions(epochs=4, batch_size=4, learning_rate=3e-3, seed=5, deterministic=True, device="cpu")


def _blobs(n: int = 103) -> TrainingData:
    """Three clouds of points; n = 103 leaves a last batch of 3."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((3, 6)) * 2
    labels = rng.integers(0, 3, n + 40)
    points = (centres[labels] + rng.standard_normal((n + 40, 6))).astype(np.float32)
    return TrainingData(
        inputs={"": points[:n]},
        labels=labels[:n],
        validation_inputs={"": points[n:]},
        validation_labels=labels[n:],
        classes=("a", "b", "c"),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in_torch.py").write_text(_TORCH)
    (tmp_path / "in_keras.py").write_text(_KERAS)
    return tmp_path


def _quiet(progress: Progress) -> None:
    pass


def _checkpoint(out: Path) -> dict[str, np.ndarray]:
    with np.load(out / "checkpoint.npz") as stored:
        return {name: stored[name] for name in stored.files if name != "about"}


_INTERRUPTED = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_training import _OPTIONS, _blobs
from edgebench.models import train

def kill_in_the_third_epoch(progress):
    if progress.epoch == 3 and progress.batch == 20:
        os.kill(os.getpid(), signal.SIGKILL)

train(sys.argv[1], _blobs(), _OPTIONS, Path(sys.argv[2]), kill_in_the_third_epoch)
"""


@pytest.mark.slow
@pytest.mark.parametrize("net", ["in_torch.py:net", "in_keras.py:net"])
def test_a_killed_training_goes_on_with_the_same_bits_as_one_that_was_not(folder: Path, net: str) -> None:
    source, whole, cut = f"{folder}/{net}", folder / "whole", folder / "cut"
    script = _INTERRUPTED.replace("    if progress.epoch == 3", "    if sys.argv[4] == 'kill' and progress.epoch == 3")
    here = str(Path(__file__).parent)
    for out, how in ((whole, "run"), (cut, "kill"), (cut, "run")):
        ran = subprocess.run(
            [sys.executable, "-c", script, source, str(out), here, how], capture_output=True, text=True, check=False
        )
        assert ran.returncode == (-signal.SIGKILL if how == "kill" else 0), ran.stderr[-2000:]
    expected, found = _checkpoint(whole), _checkpoint(cut)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    lines = [json.loads(line) for line in (cut / "progress.jsonl").read_text().splitlines()]
    assert [(line["epoch"], line["batch"]) for line in lines] == [(e, b) for e in (1, 2, 3, 4) for b in (20, 26)]
    assert not list(cut.glob(".*"))


@pytest.mark.parametrize(("net", "expected"), [("in_torch.py:net", "best.pt2"), ("in_keras.py:net", "best.keras")])
def test_the_best_epoch_is_kept_and_loads_again_as_a_model(folder: Path, net: str, expected: str) -> None:
    from edgebench.models.predict import open_predictor, predict_all

    data, seen = _blobs(), []
    result = train(f"{folder}/{net}", data, _OPTIONS, folder / "out", seen.append)
    assert (result.best_path.name, result.device, result.precision) == (expected, "cpu", "float32")
    assert (result.last_epoch, result.resumed_from, len(result.history)) == (4, 0, 4)
    assert result.best_metric == max(each.metric for each in result.history) > 0.8
    assert [each.metric for each in seen if each.metric is not None] == [each.metric for each in result.history]
    baseline = snapshot(str(result.best_path), folder / "run")
    inputs = {baseline.inputs[0].name: data.validation_inputs[""]}
    (outputs,) = predict_all(open_predictor(baseline, folder / "run"), baseline, inputs).values()
    assert (outputs.argmax(1) == data.validation_labels).mean() == pytest.approx(result.best_metric)
    if result.weights_path is not None:
        with_weights = snapshot(f"{folder}/{net}", folder / "run2", weights=result.weights_path)
        (again,) = predict_all(open_predictor(with_weights, folder / "run2"), with_weights, inputs).values()
        np.testing.assert_allclose(again, outputs, atol=1e-6)
    assert list((folder / "out" / "tensorboard").glob("events.out.tfevents.*"))


@pytest.mark.parametrize("name", ["digits-cnn-torch", "digits-cnn-keras"])
def test_a_digits_network_of_the_zoo_is_trained_from_random_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("EDGEBENCH_HOME", str(tmp_path / "home"))
    layout = "NCHW" if "torch" in name else "NHWC"
    data = load_training("digits", preprocess=None, layout=layout)
    options = TrainOptions(epochs=1, batch_size=1200, learning_rate=1e-9, device="cpu")
    assert train(f"zoo:{name}", data, options, tmp_path / "out", _quiet).best_metric < 0.5
    assert not list((tmp_path / "home").glob("**/digits-cnn*"))  # nor are the trained ones made for it


def test_more_epochs_continue_and_other_options_are_refused(folder: Path) -> None:
    from dataclasses import replace

    out = folder / "out"
    train(f"{folder}/in_torch.py:net", _blobs(), _OPTIONS, out, _quiet)
    longer = train(f"{folder}/in_torch.py:net", _blobs(), replace(_OPTIONS, epochs=6), out, _quiet)
    assert (longer.resumed_from, longer.last_epoch) == (4, 6)
    again = train(f"{folder}/in_torch.py:net", _blobs(), replace(_OPTIONS, epochs=6), out, _quiet)
    assert (again.resumed_from, again.best_metric) == (6, longer.best_metric)
    with pytest.raises(ConfigError, match="holds a training of another model, data or options; name another --out"):
        train(f"{folder}/in_torch.py:net", _blobs(), replace(_OPTIONS, seed=6), out, _quiet)


@pytest.mark.parametrize("net", ["in_torch.py:line", "in_keras.py:line"])
def test_float_labels_train_a_regression(folder: Path, net: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 6)).astype(np.float32)
    y = (x @ np.arange(6, dtype=np.float32) + 1).astype(np.float32)
    data = TrainingData(
        inputs={"": x[:160]}, labels=y[:160], validation_inputs={"": x[160:]}, validation_labels=y[160:], classes=()
    )
    options = TrainOptions(epochs=12, batch_size=16, learning_rate=0.05, device="cpu")
    result = train(f"{folder}/{net}", data, options, folder / "out", _quiet)
    assert result.metric_name == "mean_squared_error"
    assert result.best_metric < 0.1 * result.history[0].metric


def test_bfloat16_on_a_cpu_is_used_only_when_asked(folder: Path) -> None:
    options = TrainOptions(epochs=1, mixed_precision=True, device="cpu")
    assert train(f"{folder}/in_torch.py:net", _blobs(), options, folder / "out", _quiet).precision == "bfloat16"


def test_a_model_with_too_few_classes_is_told(folder: Path) -> None:
    with pytest.raises(ModelError, match="the model tells 1 classes apart, the data has 3"):
        train(f"{folder}/in_torch.py:line", _blobs(), TrainOptions(epochs=1), folder / "out", _quiet)


def test_a_device_that_is_absent_is_told(folder: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    with pytest.raises(ConfigError, match="device 'cuda' is not available to torch here; available: cpu"):
        train(f"{folder}/in_torch.py:net", _blobs(), TrainOptions(device="cuda"), folder / "out", _quiet)
