"""DATA as a folder of images: one sub-folder a class, or images alone without labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edgebench.data.sources.image_files import confined, is_image_name, read_image
from edgebench.data.sources.protocol import ImageData, Pools, Wanted
from edgebench.data.wording import listed, shown
from edgebench.errors import DataError
from edgebench.types import Caution

_SPLIT_NAMES = frozenset({"train", "training", "test", "val", "valid", "validation"})


class ImageFolder:
    """Class i is the i-th sub-folder in plain string order, as in Keras and torchvision; hidden names are skipped."""

    syntax = "a folder with one sub-folder of images a class, or with images alone"

    def recognises(self, source: str) -> bool:
        return source != "" and Path(source).is_dir()

    def file(self, source: str) -> Path:
        return Path(source)

    def open(self, source: str, wanted: Wanted) -> Pools:
        root = Path(source)
        entries = _visible(root, root)
        folders = [entry for entry in entries if entry.is_dir()]
        if folders and {folder.name.lower() for folder in folders} <= _SPLIT_NAMES:
            raise DataError(
                f"{shown(root)} holds the splits {listed(folder.name for folder in folders)}, not classes: "
                f"name one of them, such as {shown(folders[0])}"
            )
        if folders:
            return Pools(evaluation=_labelled(source, root, folders, [e for e in entries if not e.is_dir()]))
        images, others = _parted(entries)
        if not images:
            raise DataError(f"{shown(root)} holds no images; found: {listed(path.name for path in others)}")
        return Pools(evaluation=_images(source, root, images, None, (), _unused(others, root)))


def _labelled(source: str, root: Path, folders: list[Path], strays: list[Path]) -> ImageData:
    classes = tuple(folder.name for folder in folders)
    images: list[Path] = []
    labels: list[int] = []
    unused = list(strays)
    empty = []
    for label, folder in enumerate(folders):
        found, others = _parted(_walk(folder, root))
        images += found
        labels += [label] * len(found)
        unused += others
        if not found:
            empty.append(folder.name)
    if not images:
        raise DataError(f"{shown(root)} holds no images in its {len(folders)} sub-folders {listed(classes)}")
    cautions = list(_unused(unused, root))
    if empty:
        cautions.append(
            Caution(
                code="empty-class",
                message=f"{len(empty)} of {len(classes)} class folders hold no image: {listed(empty)}; "
                "each still counts as a class, so labels keep their order",
                advice="fill or remove the empty class folders",
            )
        )
    cautions += _numeric_order(classes)
    return _images(source, root, images, labels, classes, tuple(cautions))


def _numeric_order(classes: tuple[str, ...]) -> tuple[Caution, ...]:
    if not all(name.isdecimal() for name in classes) or [int(name) for name in classes] == list(range(len(classes))):
        return ()
    pairs = ", ".join(f"{label} = '{name}'" for label, name in enumerate(classes) if int(name) != label)[:120]
    return (
        Caution(
            code="numeric-class-names",
            message=f"class folders are named by numbers that are not their place in string order ({pairs}); labels "
            "are places, as in Keras and torchvision",
            advice="if the model counts classes otherwise, pad the names (002) or give a CSV",
        ),
    )


def _images(
    source: str,
    root: Path,
    images: list[Path],
    labels: list[int] | None,
    classes: tuple[str, ...],
    cautions: tuple[Caution, ...],
) -> ImageData:
    return ImageData(
        source=source,
        names=tuple(path.relative_to(root).as_posix() for path in images),
        read=lambda index: read_image(images[index]),
        labels=None if labels is None else np.array(labels, dtype=np.int64),
        classes=classes,
        cautions=cautions,
    )


def _visible(folder: Path, root: Path) -> list[Path]:
    try:
        entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise DataError(f"{shown(folder)} can't be listed: {error.strerror}") from error
    return [confined(entry, root) if entry.is_symlink() else entry for entry in entries]


def _walk(folder: Path, root: Path) -> list[Path]:
    """Every file below, in string order of the paths; linked folders inside are not entered, so no loop is possible."""
    files: list[Path] = []
    for entry in _visible(folder, root):
        if not entry.is_dir():
            files.append(entry)
        elif not entry.is_symlink():
            files += _walk(entry, root)
    return files


def _parted(files: list[Path]) -> tuple[list[Path], list[Path]]:
    return [f for f in files if is_image_name(f)], [f for f in files if not is_image_name(f)]


def _unused(files: list[Path], root: Path) -> tuple[Caution, ...]:
    if not files:
        return ()
    names = listed(file.relative_to(root).as_posix() for file in files)
    return (
        Caution(
            code="unused-files",
            message=f"{len(files)} files are left out, as they are no images or lie beside class folders: {names}",
            advice="move images that should count into the folder of their class",
        ),
    )
