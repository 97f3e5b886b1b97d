from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edgebench.data.preprocess import apply
from edgebench.errors import DataError
from edgebench.types import Preprocess

SMALL = Preprocess(height=4, width=4)


def test_pixels_are_scaled_shifted_and_divided_channel_by_channel() -> None:
    image = Image.new("RGB", (4, 4), (255, 128, 0))
    preprocess = replace(SMALL, scale=1 / 255, mean=(0.5, 0.25, 0.0), std=(0.5, 1.0, 2.0))
    values = apply(image, preprocess)
    assert values.shape == (4, 4, 3)
    assert values.dtype == np.float32
    np.testing.assert_allclose(values[0, 0], [(1 - 0.5) / 0.5, 128 / 255 - 0.25, 0.0], rtol=1e-6)


def test_nchw_and_bgr_reorder_the_same_pixels() -> None:
    image = Image.new("RGB", (4, 4), (10, 20, 30))
    values = apply(image, replace(SMALL, layout="NCHW", channels="BGR"))
    assert values.shape == (3, 4, 4)
    assert values[:, 0, 0].tolist() == [30, 20, 10]


def test_the_middle_of_a_wide_image_is_taken() -> None:
    pixels = np.zeros((4, 12, 3), dtype=np.uint8)
    pixels[:, 4:8] = 200
    assert apply(Image.fromarray(pixels), SMALL).min() == 200


def test_the_crop_fraction_leaves_out_the_border() -> None:
    pixels = np.zeros((32, 32, 3), dtype=np.uint8)
    pixels[4:28, 4:28] = 200
    whole = apply(Image.fromarray(pixels), Preprocess(height=16, width=16))
    cropped = apply(Image.fromarray(pixels), Preprocess(height=16, width=16, crop_fraction=0.5))
    assert whole.min() == 0
    assert cropped.min() == 200


def test_a_usual_image_net_resize_gives_256_before_the_crop() -> None:
    image = Image.new("RGB", (500, 375), (9, 9, 9))
    assert apply(image, Preprocess(height=224, width=224, crop_fraction=0.875)).shape == (224, 224, 3)


def test_stretch_keeps_every_column() -> None:
    pixels = np.zeros((4, 8, 3), dtype=np.uint8)
    pixels[:, :4] = 200
    values = apply(Image.fromarray(pixels), replace(SMALL, resize="stretch"))
    assert values[0, 0, 0] > 150
    assert values[0, 3, 0] < 50


def test_shrinking_averages_instead_of_picking_pixels() -> None:
    stripes = np.zeros((64, 64, 3), dtype=np.uint8)
    stripes[:, ::2] = 255
    values = apply(Image.fromarray(stripes), SMALL)
    assert np.all(np.abs(values - 127.5) < 12)


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "LA", "CMYK", "1"])
def test_every_image_mode_becomes_three_channels(mode: str) -> None:
    image = Image.new("RGB", (6, 6), (255, 255, 255)).convert("L" if mode == "LA" else "RGB").convert(mode)
    assert apply(image, SMALL).tolist() == np.full((4, 4, 3), 255.0).tolist()


def test_sixteen_bit_gray_is_scaled_to_eight_bits_instead_of_clipped(tmp_path: Path) -> None:
    path = tmp_path / "deep.png"
    Image.fromarray(np.full((4, 4), 32896, dtype=np.uint16)).save(path)
    with Image.open(path) as image:
        assert apply(image, replace(SMALL, channels="gray"))[0, 0, 0] == 128


def test_exif_orientation_is_obeyed(tmp_path: Path) -> None:
    pixels = np.zeros((4, 4, 3), dtype=np.uint8)
    pixels[0] = 255
    image = Image.fromarray(pixels)
    exif = image.getexif()
    exif[274] = 3  # rotated by half a turn
    image.save(tmp_path / "turned.png", exif=exif)
    with Image.open(tmp_path / "turned.png") as turned:
        values = apply(turned, SMALL)
    assert values[3].min() == 255
    assert values[0].max() == 0


def test_an_integer_input_is_rounded_and_clipped() -> None:
    image = Image.new("RGB", (4, 4), (0, 128, 255))
    values = apply(image, replace(SMALL, dtype="int8", mean=(127.5,), std=(0.5,)))
    assert values.dtype == np.int8
    assert values[0, 0].tolist() == [-128, 1, 127]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (replace(SMALL, mean=(1.0, 2.0)), "mean has 2 values for 3 channels"),
        (replace(SMALL, std=(0.0,)), "must be above 0"),
        (replace(SMALL, crop_fraction=0.0), "crop_fraction 0.0"),
        (replace(SMALL, height=0), "at least 1x1"),
        (replace(SMALL, dtype="str"), "no number type"),
    ],
)
def test_an_impossible_preprocess_is_refused_with_its_value(wrong: Preprocess, text: str) -> None:
    with pytest.raises(DataError, match=text):
        apply(Image.new("RGB", (4, 4)), wrong)


def test_an_image_of_unknown_range_is_refused() -> None:
    with pytest.raises(DataError, match="mode 'F'"):
        apply(Image.fromarray(np.ones((4, 4), dtype=np.float32)), SMALL)
