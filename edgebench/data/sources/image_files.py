"""Image files as samples: which files count as images, and how one is decoded without running anything in it."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, UnidentifiedImageError

from edgebench.data.wording import shown
from edgebench.errors import DataError

SUFFIXES = frozenset(
    {".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"}
)
# Pillow would hand PostScript to Ghostscript, whatever the file is called: only plain raster decoders may open a file.
_DECODERS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")


def is_image_name(path: Path) -> bool:
    """Whether the name's ending, in any case, is a raster image's."""
    return path.suffix.lower() in SUFFIXES


def read_image(path: Path) -> Image.Image:
    """The decoded image (the first frame of an animation).

    Raises:
        DataError: names the file that is missing, no image, damaged, cut short or absurdly large.
    """
    try:
        with Image.open(path, formats=_DECODERS) as image:
            image.load()
            return image
    except UnidentifiedImageError as error:
        raise DataError(f"{shown(path)} is not an image that can be read: replace or remove it") from error
    except Image.DecompressionBombError as error:
        raise DataError(f"{shown(path)} is absurdly large ({error}): remove it or scale it down") from error
    except (OSError, ValueError, SyntaxError, EOFError, MemoryError) as error:
        # Pillow's decoders report damage with any of these.
        raise DataError(f"{shown(path)} can't be read ({error}): replace or remove it") from error


def confined(path: Path, root: Path) -> Path:
    """The path itself, after a check that it stays inside `root` when every link is followed.

    Raises:
        DataError: names the path that leaves the folder.
    """
    try:
        target = path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise DataError(f"{shown(path)} can't be followed ({error})") from error
    if not target.is_relative_to(root.resolve()):
        raise DataError(
            f"{shown(path)} leads out of {shown(root)} to {shown(target)}: copy the files into the folder instead"
        )
    return path
