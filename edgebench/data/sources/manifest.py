"""DATA as a CSV manifest: image path and label, one a line; no path leaves the CSV's folder."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from edgebench.data.samples import IntArray
from edgebench.data.sources.image_files import confined, read_image
from edgebench.data.sources.protocol import ImageData, Pools, Wanted
from edgebench.data.wording import shown
from edgebench.errors import DataError

_PATH_HEADERS = ("path", "file", "filename", "image")
_LABEL_HEADERS = ("label", "class")


class Manifest:
    """Whole-number labels are taken as they are; other labels are class names, numbered in string order.

    A first line whose first cell is `path`, `file`, `filename` or `image` is a header. Without a label column the
    images have no labels.
    """

    syntax = "a .csv manifest of path,label"

    def recognises(self, source: str) -> bool:
        return source.lower().endswith(".csv")

    def file(self, source: str) -> Path:
        return Path(source)

    def open(self, source: str, wanted: Wanted) -> Pools:
        manifest = Path(source)
        rows = _rows(manifest)
        root = manifest.parent
        paths = [_path(manifest, root, line, cell) for line, cell, _ in rows]
        labels, classes = _labels(manifest, [(line, label) for line, _, label in rows])
        return Pools(
            evaluation=ImageData(
                source=source,
                names=tuple(cell for _, cell, _ in rows),
                read=lambda index: read_image(paths[index]),
                labels=labels,
                classes=classes,
            )
        )


def _rows(manifest: Path) -> list[tuple[int, str, str | None]]:
    """(line number, path cell, label cell or None) of each line that is not blank."""
    try:
        with manifest.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
    except FileNotFoundError as error:
        raise DataError(f"the manifest {shown(manifest)} does not exist") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{shown(manifest)} is no UTF-8 CSV file that can be read: {error}") from error
    path_column, label_column = 0, 1
    if lines and lines[0][1][0].lower() in _PATH_HEADERS:
        header = [cell.lower() for cell in lines.pop(0)[1]]
        named = [column for column, cell in enumerate(header) if cell in _LABEL_HEADERS]
        label_column = named[0] if named else len(header)
    if not lines:
        raise DataError(f"{shown(manifest)} lists no image: write one 'path,label' a line")
    return [
        (line, cells[path_column], cells[label_column] if len(cells) > label_column else None) for line, cells in lines
    ]


def _path(manifest: Path, root: Path, line: int, cell: str) -> Path:
    where = f"{shown(manifest)} line {line}"
    if not cell or "\0" in cell:
        raise DataError(f"{where}: the path is empty or holds a zero byte")
    if Path(cell).is_absolute():
        raise DataError(f"{where}: the path '{shown(cell)}' is absolute; write it relative to the CSV's folder")
    try:
        path = confined(root / cell, root)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
    if not path.is_file():
        raise DataError(f"{where}: there is no file {shown(path)}")
    return path


def _labels(manifest: Path, cells: list[tuple[int, str | None]]) -> tuple[IntArray | None, tuple[str, ...]]:
    if all(not label for _, label in cells):
        return None, ()
    texts = []
    for line, label in cells:
        if not label:
            raise DataError(f"{shown(manifest)} line {line} has no label, but other lines have: label all or none")
        texts.append(label)
    if all(text.isdecimal() for text in texts):
        return np.array([int(text) for text in texts], dtype=np.int64), ()
    for line, text in cells:
        if text is not None and _is_number(text):
            raise DataError(
                f"{shown(manifest)} line {line}: the label '{text}' is a number but no class index; labels are whole "
                "numbers from 0 or names; give regression targets as `target:OUTPUT` in an .npz"
            )
    classes = tuple(sorted(set(texts)))
    places = {name: place for place, name in enumerate(classes)}
    return np.array([places[text] for text in texts], dtype=np.int64), classes


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    # In a mixed column "3" beside "cat" is a name; "0.5" and "-1" are not plausible as one.
    return not text.isdecimal()
