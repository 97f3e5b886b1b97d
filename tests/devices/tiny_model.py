"""A tiny model put on a device, run for outputs and measured: what every driver must be able to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from edgebench.devices.protocol import Device
from edgebench.measure import feed_files, session
from edgebench.types import Artifact, Binding, Census, Format, Plan, Precision, Round, Target, TensorSpec

FILES = Path(__file__).parent.parent / "files"
PLAN = Plan(min_runs=20, min_seconds=0, max_runs=30, warmup_max_seconds=0.1)


def _bindings(name: str) -> tuple[Binding, ...]:
    return (Binding(tensor=TensorSpec(name=name, shape=(None, None), dtype="float32"), baseline=name),)


ARTIFACT = Artifact(
    format=Format.TFLITE,
    files=("tiny-float.tflite",),
    sha256="a" * 64,
    size_bytes=1,
    inputs=_bindings("image"),
    outputs=_bindings("scores"),
    census=Census(precision=Precision.FP32, ops={}, weight_bytes={}, parameters=1, macs=None),
    batch=None,
)


def deploy(device: Device, run_folder: Path) -> session.Deployment:
    run_folder.mkdir(exist_ok=True)
    shutil.copy(FILES / "tiny-float.tflite", run_folder)
    return session.deploy(device, ARTIFACT, run_folder, Target(device=device.spec.name, runtime="litert"))


def images(run_folder: Path, n: int) -> dict[str, feed_files.FeedFile]:
    samples = np.random.default_rng(0).random((n, 8, 8, 3), dtype=np.float32)
    return {"image": feed_files.write(run_folder / "feed" / f"image-{n}.npy", samples)}


def run_and_measure(device: Device, run_folder: Path) -> tuple[np.ndarray, Round]:
    """The scores of five images, and one round."""
    deployment = deploy(device, run_folder)
    outputs = session.run_outputs(deployment, images(run_folder, 5), 60)
    return outputs["scores"], session.measure_round(deployment, PLAN, 0, images(run_folder, 1))
