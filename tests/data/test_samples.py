from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgebench.data.samples import Kind, Row, SampleStream, open_samples, write_samples
from edgebench.errors import DataError

HOSTILE = "../../etc/passwd\n\x00"


def stream(values: np.ndarray, name: str = HOSTILE, label: int = 1) -> SampleStream:
    return SampleStream(
        names=tuple(f"sample {index}" for index in range(len(values))),
        inputs={name: Kind(values.shape[1:], values.dtype)},
        targets={"t": Kind((2,), np.dtype(np.float32))},
        label=Kind((), np.dtype(np.int64)),
        rows=(Row({name: value}, {"t": np.array([1, 2], np.float32)}, np.array(label)) for value in values),
    )


VALUES = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    written = write_samples(tmp_path, "evaluation", stream(VALUES))
    samples = open_samples(tmp_path, written)
    np.testing.assert_array_equal(samples.inputs[HOSTILE], VALUES)
    assert isinstance(samples.inputs[HOSTILE], np.memmap)
    assert samples.labels is not None
    assert samples.labels.tolist() == [1, 1, 1]
    assert samples.targets["t"].tolist() == [[1, 2]] * 3
    assert samples.names == ("sample 0", "sample 1", "sample 2")
    assert written.n == 3


def test_a_hostile_tensor_name_never_becomes_a_path(tmp_path: Path) -> None:
    write_samples(tmp_path / "run", "evaluation", stream(VALUES))
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    names = ("input-0.npy", "labels-0.npy", "target-0.npy", "samples.json")
    assert files == {f"run/data/evaluation/{name}" for name in names}


def test_the_hash_covers_values_names_and_labels(tmp_path: Path) -> None:
    same = [write_samples(tmp_path, "evaluation", stream(VALUES)).sha256 for _ in range(2)]
    others = [
        write_samples(tmp_path, "evaluation", stream(VALUES + 1)).sha256,
        write_samples(tmp_path, "evaluation", stream(VALUES, name="x")).sha256,
        write_samples(tmp_path, "evaluation", stream(VALUES, label=2)).sha256,
        write_samples(tmp_path, "evaluation", stream(VALUES.astype(np.float64))).sha256,
    ]
    assert same[0] == same[1]
    assert len({same[0], *others}) == 5


def test_a_failing_stream_leaves_the_earlier_set_untouched(tmp_path: Path) -> None:
    written = write_samples(tmp_path, "evaluation", stream(VALUES))

    def rows():  # type: ignore[no-untyped-def]
        yield Row({HOSTILE: VALUES[0]}, {"t": np.zeros(2, np.float32)}, np.array(0))
        raise DataError("the second image is damaged")

    with pytest.raises(DataError, match="second image"):
        write_samples(tmp_path, "evaluation", replace(stream(VALUES), rows=rows()))
    np.testing.assert_array_equal(open_samples(tmp_path, written).inputs[HOSTILE], VALUES)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["evaluation"]


def test_a_truncated_file_is_told_as_damage(tmp_path: Path) -> None:
    written = write_samples(tmp_path, "evaluation", stream(VALUES))
    path = tmp_path / "data/evaluation/input-0.npy"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DataError, match="missing or damaged"):
        open_samples(tmp_path, written)


def test_an_index_that_names_a_file_elsewhere_is_refused(tmp_path: Path) -> None:
    written = write_samples(tmp_path, "evaluation", stream(VALUES))
    index = tmp_path / "data/evaluation/samples.json"
    np.save(tmp_path / "data/secret.npy", VALUES)
    index.write_text(index.read_text().replace("input-0.npy", "../secret.npy"))
    with pytest.raises(DataError, match="not one that edgebench writes"):
        open_samples(tmp_path, written)


def test_an_empty_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="calibration set is empty"):
        write_samples(tmp_path, "calibration", stream(VALUES[:0]))
