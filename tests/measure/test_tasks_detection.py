from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest

from edgebench.errors import DataError
from edgebench.measure.tasks import detection
from edgebench.measure.tasks.protocol import Context, Truth

pytest.importorskip("pycocotools")


def _scene(seed=0, images=20, k=6, classes=3, jitter=1.5):
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 80, (images, k, 2))
    boxes = np.concatenate([corners, corners + random.uniform(10, 20, (images, k, 2))], axis=-1)
    labels = random.integers(0, classes, (images, k))
    labels[:, -1] = -1  # padding
    found = {
        "boxes": (boxes + random.normal(0, jitter, boxes.shape)).astype(np.float32),
        "scores": random.uniform(0.1, 1, (images, k)).astype(np.float32),
        "classes": np.where(labels < 0, 0, labels).astype(np.float32),
    }
    found["scores"][:, -1] = 0
    return found, {"boxes": boxes, "classes": labels}


def _bind(outputs, targets=None):
    return detection.bind(Context(baseline_outputs=outputs, truth=Truth(targets=targets or {})))


def test_map_is_pycocotools_own_from_its_json_form():
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    found, targets = _scene()
    boxes = targets["boxes"]
    sizes = boxes[..., 2:] - boxes[..., :2]
    annotations = [
        {
            "id": 1 + i * 10 + j,
            "image_id": i,
            "category_id": int(targets["classes"][i, j]),
            "bbox": [*boxes[i, j, :2], *sizes[i, j]],
            "area": sizes[i, j].prod(),
            "iscrowd": 0,
        }
        for i in range(20)
        for j in range(5)
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {
            "info": {},
            "images": [{"id": i} for i in range(20)],
            "categories": [{"id": i} for i in range(3)],
            "annotations": annotations,
        }
        truth.createIndex()
        results = [
            {
                "image_id": i,
                "category_id": int(found["classes"][i, j]),
                "score": float(found["scores"][i, j]),
                "bbox": [
                    float(v)
                    for v in (*found["boxes"][i, j, :2], *(found["boxes"][i, j, 2:] - found["boxes"][i, j, :2]))
                ],
            }
            for i in range(20)
            for j in range(5)
        ]
        reference = COCOeval(truth, truth.loadRes(results), "bbox")
        reference.evaluate()
        reference.accumulate()
        reference.summarize()
    metrics = _bind(found, targets).metrics(found)
    assert [metrics[name].value for name in ("map", "map50", "map75")] == pytest.approx(
        list(reference.stats[:3]), abs=1e-6
    )
    assert 0.05 < metrics["map"].value < 0.95
    assert metrics["map"].low < metrics["map"].value < metrics["map"].high
    assert metrics["map"].n == 20


def test_perfect_boxes_have_map_one_in_any_unit_and_order():
    found, targets = _scene(jitter=0.0)
    normalized = {**found, "boxes": (found["boxes"] / 100)[..., [1, 0, 3, 2]]}
    targets = {"gt_boxes": (targets["boxes"] / 100)[..., [1, 0, 3, 2]], "gt_labels": targets["classes"]}
    assert _bind(normalized, targets).metrics(normalized)["map"].value == pytest.approx(1)


def test_a_drop_is_of_map_in_points():
    found, targets = _scene(jitter=0.0)
    worse = {**found, "boxes": found["boxes"].copy()}
    worse["boxes"][::2] += 50
    measure = _bind(found, targets)
    drop = measure.drop(worse)
    lost = measure.metrics(found)["map"].value - measure.metrics(worse)["map"].value
    assert drop.pp.value == pytest.approx(100 * lost)
    assert drop.pp.low > 0
    assert drop.p_value is None


def test_without_targets_there_is_no_metric():
    found, _ = _scene()
    measure = _bind(found)
    assert measure.metrics(found) == {}
    assert measure.drop(found) is None


def test_only_padding_as_targets_gives_no_metric():
    found, targets = _scene()
    targets["classes"][:] = -1
    assert _bind(found, targets).metrics(found) == {}


def test_names_and_shapes_outside_the_convention_are_told():
    found, targets = _scene()
    with pytest.raises(DataError, match="one output with 'score' in its name; the outputs are: boxes, classes"):
        _bind({name: found[name] for name in ("boxes", "classes")}, targets)
    with pytest.raises(DataError, match=r"boxes of shape \[20, 6, 3\]"):
        _bind({**found, "boxes": found["boxes"][..., :3]}, targets)
    with pytest.raises(DataError, match="one target with 'box' in its name; the targets are: classes"):
        _bind(found, {"classes": targets["classes"]})


def test_an_image_drawn_twice_counts_as_two_images():
    """The quick precision of a resample is pycocotools' of a data set in which the drawn images really lie."""
    found, targets = _scene()
    drawn = np.random.default_rng(1).integers(0, 20, 20)
    quick = detection._match(
        (found["boxes"], found["scores"], found["classes"]), targets["boxes"], targets["classes"]
    ).precision(drawn)
    drawn_found = {name: values[drawn] for name, values in found.items()}
    drawn_targets = {name: values[drawn] for name, values in targets.items()}
    metrics = _bind(drawn_found, drawn_targets).metrics(drawn_found)
    assert [metrics[name].value for name in detection.METRICS] == pytest.approx(list(quick))
