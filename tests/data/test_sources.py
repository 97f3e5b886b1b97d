"""Real files of every form of DATA, good and bad, opened as a user names them."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edgebench.data.preprocess import apply
from edgebench.data.sources import ArrayData, ImageData, Wanted, open_source
from edgebench.errors import DataError
from edgebench.types import Preprocess

WriteImage = Callable[..., Path]


@pytest.fixture
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Wanted:
    return Wanted(
        scratch=tmp_path_factory.mktemp("scratch"), calibration_samples=2, evaluation_samples=3, seed=0, inputs=()
    )


def open_images(source: Path | str, wanted: Wanted) -> ImageData:
    data = open_source(str(source), wanted).evaluation
    assert isinstance(data, ImageData)
    return data


def open_arrays(source: Path | str, wanted: Wanted) -> ArrayData:
    data = open_source(str(source), wanted).evaluation
    assert isinstance(data, ArrayData)
    return data


def codes(data: ImageData | ArrayData) -> list[str]:
    return [caution.code for caution in data.cautions]


# Folders


def test_each_sub_folder_is_a_class_in_string_order(tmp_path: Path, wanted: Wanted, write_image: WriteImage) -> None:
    for place, name in enumerate(["dog/a.png", "cat/b.png", "cat/deep/c.PNG", "Zebra/d.jpeg"]):
        write_image(tmp_path / name, place)
    data = open_images(tmp_path, wanted)
    assert data.classes == ("Zebra", "cat", "dog")
    assert data.names == ("Zebra/d.jpeg", "cat/b.png", "cat/deep/c.PNG", "dog/a.png")
    assert data.labels is not None
    assert data.labels.tolist() == [0, 1, 1, 2]
    assert data.read(1).size == (10, 12)
    assert data.cautions == ()


def test_a_folder_of_images_alone_has_no_labels(tmp_path: Path, wanted: Wanted, write_image: WriteImage) -> None:
    write_image(tmp_path / "b.png")
    write_image(tmp_path / "a.png")
    data = open_images(tmp_path, wanted)
    assert data.names == ("a.png", "b.png")
    assert data.labels is None


@pytest.mark.parametrize(
    "name", ["with space.png", "-rf.png", "ünïcødé.png", "new\nline.png", "$(touch x).png", "%s{0}.png", "a..png"]
)
def test_odd_file_names_are_names_like_any_other(
    tmp_path: Path, wanted: Wanted, write_image: WriteImage, name: str
) -> None:
    write_image(tmp_path / name)
    data = open_images(tmp_path, wanted)
    assert data.names == (name,)
    assert data.read(0).size == (10, 12)


def test_a_name_that_is_no_utf8_is_read_and_its_error_can_be_printed(tmp_path: Path, wanted: Wanted) -> None:
    path = os.fsencode(tmp_path) + b"/\xff\xfe.png"
    with open(path, "wb") as file:
        file.write(b"no image")
    with pytest.raises(DataError) as error:
        open_images(tmp_path, wanted).read(0)
    assert "\\udcff" in str(error.value)
    str(error.value).encode("utf-8")


def test_hidden_files_are_skipped_and_other_files_are_named(
    tmp_path: Path, wanted: Wanted, write_image: WriteImage
) -> None:
    write_image(tmp_path / "cat" / "a.png")
    write_image(tmp_path / "cat" / ".hidden.png")
    write_image(tmp_path / ".thumbs" / "b.png")
    write_image(tmp_path / "stray.png")
    (tmp_path / "cat" / "notes.txt").write_text("hello")
    data = open_images(tmp_path, wanted)
    assert data.names == ("cat/a.png",)
    assert "'stray.png', 'cat/notes.txt'" in data.cautions[0].message
    assert codes(data) == ["unused-files"]


def test_an_empty_class_keeps_its_number(tmp_path: Path, wanted: Wanted, write_image: WriteImage) -> None:
    (tmp_path / "ant").mkdir()
    write_image(tmp_path / "bee" / "a.png")
    data = open_images(tmp_path, wanted)
    assert data.classes == ("ant", "bee")
    assert data.labels is not None
    assert data.labels.tolist() == [1]
    assert codes(data) == ["empty-class"]


def test_numbered_classes_out_of_order_are_told(tmp_path: Path, wanted: Wanted, write_image: WriteImage) -> None:
    for name in ("0", "1", "2", "10"):
        write_image(tmp_path / name / "a.png")
    data = open_images(tmp_path, wanted)
    assert codes(data) == ["numeric-class-names"]
    assert "2 = '10', 3 = '2'" in data.cautions[0].message


def test_a_folder_of_splits_is_not_taken_for_classes(tmp_path: Path, wanted: Wanted, write_image: WriteImage) -> None:
    write_image(tmp_path / "train" / "cat" / "a.png")
    write_image(tmp_path / "test" / "cat" / "b.png")
    with pytest.raises(DataError, match=r"splits 'test', 'train', not classes"):
        open_source(str(tmp_path), wanted)


@pytest.mark.parametrize("sub_folder", ["", "cat"])
def test_a_folder_without_images_says_so(tmp_path: Path, wanted: Wanted, sub_folder: str) -> None:
    (tmp_path / sub_folder).mkdir(exist_ok=True)
    (tmp_path / sub_folder / "notes.txt").write_text("hello")
    with pytest.raises(DataError, match="holds no images"):
        open_source(str(tmp_path), wanted)


def test_an_unreadable_image_is_named(tmp_path: Path, wanted: Wanted, write_image: WriteImage) -> None:
    whole = write_image(tmp_path / "whole.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "void.png").write_bytes(b"")
    data = open_images(tmp_path, wanted)
    for index, name in ((0, "cut.png"), (1, "text.png"), (2, "void.png")):
        with pytest.raises(DataError, match=name):
            data.read(index)


def test_postscript_in_disguise_is_never_handed_to_an_interpreter(tmp_path: Path, wanted: Wanted) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png", format="EPS")
    with pytest.raises(DataError, match="not an image that can be read"):
        open_images(tmp_path, wanted).read(0)


def test_a_link_that_leaves_the_folder_is_refused(tmp_path: Path, wanted: Wanted, write_image: WriteImage) -> None:
    outside = write_image(tmp_path / "outside" / "secret.png")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link.png").symlink_to(outside)
    with pytest.raises(DataError, match="leads out of"):
        open_source(str(inside), wanted)


def test_a_link_that_loops_is_not_followed(tmp_path: Path, wanted: Wanted, write_image: WriteImage) -> None:
    write_image(tmp_path / "cat" / "a.png")
    (tmp_path / "cat" / "again").symlink_to(tmp_path, target_is_directory=True)
    assert open_images(tmp_path, wanted).names == ("cat/a.png",)


@pytest.mark.parametrize("file_format", ["PNG", "JPEG", "TIFF", "WEBP"])
def test_a_photo_taken_sideways_is_upright_after_reading(tmp_path: Path, wanted: Wanted, file_format: str) -> None:
    pixels = np.zeros((16, 32, 3), dtype=np.uint8)
    pixels[:, 16:] = 255
    image = Image.fromarray(pixels)
    exif = image.getexif()
    exif[274] = 6  # to be turned a quarter clockwise
    image.save(tmp_path / f"a.{file_format.lower()}", format=file_format, exif=exif)
    upright = apply(open_images(tmp_path, wanted).read(0), Preprocess(height=32, width=16))
    assert upright[:12].max() < 30
    assert upright[20:].min() > 225


def test_an_animation_gives_its_first_frame(tmp_path: Path, wanted: Wanted) -> None:
    first, second = Image.new("RGB", (8, 8), (200, 0, 0)), Image.new("RGB", (8, 8), (0, 200, 0))
    first.save(tmp_path / "a.gif", save_all=True, append_images=[second])
    values = apply(open_images(tmp_path, wanted).read(0), Preprocess(height=8, width=8))
    assert values[0, 0].tolist() == [200, 0, 0]


# Manifests


def manifest(folder: Path, text: str) -> Path:
    path = folder / "list.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_manifest_takes_names_as_classes(tmp_path: Path, wanted: Wanted, write_image: WriteImage) -> None:
    write_image(tmp_path / "img" / "a, b.png")
    write_image(tmp_path / "img" / "c.png")
    data = open_images(manifest(tmp_path, 'path,label\n"img/a, b.png",dog\nimg/c.png,cat\n\n'), wanted)
    assert data.classes == ("cat", "dog")
    assert data.labels is not None
    assert data.labels.tolist() == [1, 0]


def test_whole_number_labels_are_kept_and_the_header_is_optional(
    tmp_path: Path, wanted: Wanted, write_image: WriteImage
) -> None:
    write_image(tmp_path / "a.png")
    data = open_images(manifest(tmp_path, "a.png,281\n"), wanted)
    assert data.labels is not None
    assert data.labels.tolist() == [281]
    assert data.classes == ()


def test_a_manifest_of_paths_alone_has_no_labels(tmp_path: Path, wanted: Wanted, write_image: WriteImage) -> None:
    write_image(tmp_path / "a.png")
    assert open_images(manifest(tmp_path, "a.png\n"), wanted).labels is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("../secret.png,1\n", "line 1: .*leads out of"),
        ("/etc/passwd,1\n", "line 1: .*is absolute"),
        ("a.png,1\nlink.png,1\n", "line 2: .*leads out of"),
        ("a.png,1\nnone.png,1\n", "line 2: there is no file"),
        ("path,label\na.png,1\na.png,\n", "line 3 has no label"),
        ("a.png,0.5\n", "line 1: the label '0.5' is a number but no class index"),
        ("path,label\n", "lists no image"),
        ("", "lists no image"),
        (",1\n", "path is empty"),
    ],
)
def test_a_bad_manifest_line_is_named(
    tmp_path: Path, wanted: Wanted, write_image: WriteImage, text: str, message: str
) -> None:
    folder = tmp_path / "set"
    write_image(folder / "a.png")
    (folder / "link.png").symlink_to(write_image(tmp_path / "secret.png"))
    with pytest.raises(DataError, match=message):
        open_source(str(manifest(folder, text)), wanted)


def test_a_binary_manifest_is_refused(tmp_path: Path, wanted: Wanted) -> None:
    (tmp_path / "list.csv").write_bytes(b"\xff\x00\x80")
    with pytest.raises(DataError, match="no UTF-8 CSV"):
        open_source(str(tmp_path / "list.csv"), wanted)


# Arrays


def test_npz_arrays_are_mapped_under_their_own_names(tmp_path: Path, wanted: Wanted) -> None:
    values = np.arange(12.0).reshape(4, 3)
    np.savez_compressed(tmp_path / "d.npz", **{"../x": values, "labels": np.arange(4), "target:y": values})
    data = open_arrays(tmp_path / "d.npz", wanted)
    assert data.arrays.keys() == {"../x", "labels", "target:y"}
    np.testing.assert_array_equal(data.arrays["../x"], values)
    assert len(data.names) == 4


def test_a_pickled_array_is_refused_and_never_loaded(tmp_path: Path, wanted: Wanted) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (tmp_path / "exploded",))  # type: ignore[return-value]  # what a pickle would call

    np.savez(tmp_path / "d.npz", x=np.array([Bomb()], dtype=object))
    with pytest.raises(DataError, match="'x' holds Python objects"):
        open_source(str(tmp_path / "d.npz"), wanted)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9])
def test_a_truncated_npz_is_told(tmp_path: Path, wanted: Wanted, kept: float) -> None:
    np.savez(tmp_path / "whole.npz", x=np.random.default_rng(0).random((50, 50)))
    whole = (tmp_path / "whole.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(DataError, match="cut short or no"):
        open_source(str(tmp_path / "cut.npz"), wanted)


def test_a_flipped_byte_is_found_by_the_checksum(tmp_path: Path, wanted: Wanted) -> None:
    np.savez(tmp_path / "d.npz", x=np.zeros((50, 50)))
    content = bytearray((tmp_path / "d.npz").read_bytes())
    content[5000] ^= 1
    (tmp_path / "d.npz").write_bytes(content)
    with pytest.raises(DataError, match="CRC"):
        open_source(str(tmp_path / "d.npz"), wanted)


def test_a_member_whose_header_promises_more_than_it_holds_is_refused(tmp_path: Path, wanted: Wanted) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((4, 3)))
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
        archive.writestr("x.npy", buffer.getvalue().replace(b"(4, 3)", b"(9, 9)"))
    with pytest.raises(DataError, match="cut short or no"):
        open_source(str(tmp_path / "d.npz"), wanted)


def test_a_member_that_is_no_array_is_named(tmp_path: Path, wanted: Wanted) -> None:
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
        archive.writestr("readme.txt", "hello hello hello")
    with pytest.raises(DataError, match=r"'readme\.txt' is no array"):
        open_source(str(tmp_path / "d.npz"), wanted)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((3, 2)), "labels": np.zeros(4)}, r"different numbers of samples.*'x' \(3, 2\), 'labels' \(4\)"),
        ({"x": np.float32(1)}, "needs a sample axis"),
        ({"x": np.zeros((0, 2))}, "holds 0 samples"),
        ({}, "holds no array"),
    ],
)
def test_arrays_that_are_no_samples_are_refused(
    tmp_path: Path, wanted: Wanted, arrays: dict[str, np.ndarray], message: str
) -> None:
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(DataError, match=message):
        open_source(str(tmp_path / "d.npz"), wanted)


# Functions


def function(folder: Path, body: str) -> str:
    (folder / "helper.py").write_text("SIZE = 3\n")
    (folder / "mine.py").write_text(f"import numpy as np\nfrom helper import SIZE\n\ndef samples():\n{body}\n")
    return f"{folder / 'mine.py'}:samples"


def test_a_function_may_be_endless(tmp_path: Path, wanted: Wanted) -> None:
    body = "    i = 0\n    while True:\n        yield {'x': np.full(SIZE, i, np.float32), 'label': i}\n        i += 1"
    data = open_arrays(function(tmp_path, body), wanted)
    assert data.arrays["x"].tolist() == [[i] * 3 for i in range(5)]
    assert data.arrays["labels"].tolist() == [0, 1, 2, 3, 4]
    assert codes(data) == ["data-truncated"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    yield {'x': np.zeros(2)}\n    raise RuntimeError('disk\\nfull')", r"RuntimeError: disk\\nfull"),
        ("    raise SystemExit(3)", "SystemExit: 3"),
        ("    yield {'x': np.zeros(2)}\n    yield {'x': np.zeros(3)}", r"sample 1 is float64 \(3\), of sample 0"),
        ("    yield {'x': np.zeros(2)}\n    yield {'y': np.zeros(2)}", "sample 1 has the keys 'y', sample 0 had 'x'"),
        ("    yield {'x': 'text'}", "not numbers"),
        ("    yield {'x': np.zeros(2), 'label': 'cat'}", r"labels are text \('cat' \.\.\.\): number the classes 0, 1"),
        ("    yield {'x': np.array([object()])}", "not numbers"),
        ("    yield {'x': np.zeros((0, 2))}", "is empty"),
        ("    yield [1, 2]", "sample 0 is a list"),
        ("    return {'x': np.zeros((5, 2))}", "returned a dict"),
        ("    return 3", "returned a int"),
        ("    return []", "yielded no sample"),
    ],
)
def test_what_a_function_does_wrong_is_told_in_one_line(
    tmp_path: Path, wanted: Wanted, body: str, message: str
) -> None:
    with pytest.raises(DataError, match=message) as error:
        open_source(function(tmp_path, body), wanted)
    assert "\n" not in str(error.value)


def test_a_misspelled_function_names_the_nearest(tmp_path: Path, wanted: Wanted) -> None:
    source = function(tmp_path, "    yield {}")
    with pytest.raises(DataError, match=r"mine\.py has no function 'sample'; did you mean 'samples'\?"):
        open_source(source.replace(":samples", ":sample"), wanted)


def test_a_missing_function_lists_what_there_is(tmp_path: Path, wanted: Wanted) -> None:
    source = function(tmp_path, "    yield {}")
    with pytest.raises(DataError, match="no function 'other'; it has 'samples'"):
        open_source(source.replace(":samples", ":other"), wanted)


def test_a_file_that_fails_to_import_is_named(tmp_path: Path, wanted: Wanted) -> None:
    (tmp_path / "bad.py").write_text("import nothing_of_this_name\n")
    with pytest.raises(DataError, match=r"bad\.py can't be imported: ModuleNotFoundError"):
        open_source(f"{tmp_path / 'bad.py'}:f", wanted)


# Packaged data and everything else


def test_sample_photos_draw_calibration_and_evaluation_as_different_crops(wanted: Wanted) -> None:
    pools = open_source("sample-photos", wanted)
    assert isinstance(pools.evaluation, ImageData)
    assert isinstance(pools.calibration, ImageData)
    assert (len(pools.calibration.names), len(pools.evaluation.names)) == (2, 3)
    short_side = 427
    for data in (pools.calibration, pools.evaluation):
        sides = [data.read(index).size for index in range(60)]
        assert all(width == height and int(0.6 * short_side) <= width <= short_side for width, height in sides)
        assert len(set(sides)) > 20
    again = open_source("sample-photos", wanted).evaluation
    assert isinstance(again, ImageData)
    assert np.array_equal(np.asarray(again.read(1)), np.asarray(pools.evaluation.read(1)))


@pytest.mark.parametrize("source", ["nowhere", "digit", "x.tar", ""])
def test_an_unknown_source_lists_what_data_can_be(wanted: Wanted, source: str) -> None:
    with pytest.raises(DataError, match=r"does not exist; data can be: digits; sample-photos; file\.py:function"):
        open_source(source, wanted)


def test_a_missing_npz_is_named(wanted: Wanted) -> None:
    with pytest.raises(DataError, match=r"no file nowhere\.npz"):
        open_source("nowhere.npz", wanted)
