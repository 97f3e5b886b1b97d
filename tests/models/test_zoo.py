from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgebench.arrays import load_arrays
from edgebench.data import digits
from edgebench.data.samples import Kind, Row, SampleStream, write_samples
from edgebench.models import baseline_outputs, snapshot, zoo


@pytest.mark.parametrize("name", ["digits-cnn-torch", "digits-cnn-keras"])
def test_a_digits_network_is_trained_once_and_reads_97_percent_of_the_test_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("EDGEBENCH_HOME", str(tmp_path / "home"))
    baseline = snapshot(f"zoo:{name}", tmp_path)
    images, labels = digits.test_split()
    if "torch" in name:
        images = images.transpose(0, 3, 1, 2)
    (spec,) = baseline.inputs
    assert spec.shape == (None, *images.shape[1:])
    samples = write_samples(
        tmp_path,
        "evaluation",
        SampleStream(
            names=tuple(str(index) for index in range(len(images))),
            inputs={spec.name: Kind(images.shape[1:], images.dtype)},
            targets={},
            label=None,
            rows=iter([Row({spec.name: image}, {}, None) for image in images]),
        ),
    )
    baseline_outputs(baseline, tmp_path, samples, tmp_path / "out" / "answers.npz")
    (logits,) = load_arrays(tmp_path / "out" / "answers.npz").values()
    assert (logits.shape, logits.dtype) == ((500, 10), np.float32)
    assert (logits.argmax(1) == labels).mean() >= 0.97
    assert not np.allclose(logits.sum(axis=1), 1)  # logits, no softmax
    assert 20_000 < baseline.parameters < 100_000
    (file,) = (tmp_path / "home" / "zoo").iterdir()
    written = file.stat().st_mtime_ns
    assert snapshot(f"zoo:{name}", tmp_path / "again").sha256 == baseline.sha256
    assert file.stat().st_mtime_ns == written


def test_efficientnet_lite0_knows_a_daisy() -> None:
    import torch
    from PIL import Image
    from sklearn.datasets import load_sample_image

    module = zoo.load("efficientnet-lite0").eval()
    preprocess = zoo.ENTRIES["efficientnet-lite0"].preprocess
    photo = Image.fromarray(load_sample_image("flower.jpg")).resize((384, 256)).crop((80, 16, 304, 240))
    pixels = (np.asarray(photo, np.float32) * preprocess.scale - preprocess.mean[0]) / preprocess.std[0]
    with torch.no_grad():
        logits = module(torch.from_numpy(pixels.astype(np.float32)).permute(2, 0, 1)[None])
    assert int(logits.argmax()) == 985  # ImageNet's daisy
