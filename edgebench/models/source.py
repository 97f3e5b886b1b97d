"""What the MODEL on the command line is, told from its text and files: no framework is imported, no code is run."""

from __future__ import annotations

import ast
import difflib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path

from edgebench.errors import MissingError, ModelError, missing_extra
from edgebench.models import keras_applications, zoo
from edgebench.types import Framework, Layout, Preprocess, Task

RANDOM_WEIGHTS = Path("random")
"""`--weights random`: seeded random weights where trained ones can't be downloaded; good for latency only."""

_FORMS = (
    "zoo:NAME, keras:NAME, timm:NAME, a .keras, .h5, .pt2, TorchScript (.pt, .pth, .ts), .onnx or .tflite file, "
    "a SavedModel folder, or file.py:function"
)
_ARCHITECTURE_WITHOUT_WEIGHTS = "only keras:NAME, timm:NAME and file.py:function take --weights"


class Kind(StrEnum):
    ZOO = "zoo"
    KERAS_APPLICATION = "keras.applications"
    TIMM = "timm"
    KERAS_FILE = "Keras file"
    SAVED_MODEL = "SavedModel"
    EXPORTED_PROGRAM = "ExportedProgram"
    TORCH_FILE = "TorchScript"
    ONNX = "ONNX"
    TFLITE = "TFLite"
    FUNCTION = "Python function"


_BY_SUFFIX = {
    ".keras": Kind.KERAS_FILE,
    ".h5": Kind.KERAS_FILE,
    ".hdf5": Kind.KERAS_FILE,
    ".pt2": Kind.EXPORTED_PROGRAM,
    ".pt": Kind.TORCH_FILE,
    ".pth": Kind.TORCH_FILE,
    ".ts": Kind.TORCH_FILE,
    ".onnx": Kind.ONNX,
    ".tflite": Kind.TFLITE,
}
_FRAMEWORK = {
    Kind.KERAS_APPLICATION: Framework.TENSORFLOW,
    Kind.TIMM: Framework.TORCH,
    Kind.KERAS_FILE: Framework.TENSORFLOW,
    Kind.SAVED_MODEL: Framework.TENSORFLOW,
    Kind.EXPORTED_PROGRAM: Framework.TORCH,
    Kind.TORCH_FILE: Framework.TORCH,
    Kind.ONNX: Framework.ONNX,
    Kind.TFLITE: Framework.TFLITE,
}
_LAYOUT: dict[Framework, Layout] = {Framework.TENSORFLOW: "NHWC", Framework.TORCH: "NCHW"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """MODEL, parsed. `target` is the NAME or the function; `path` the file or folder, None for a NAME."""

    text: str
    kind: Kind
    target: str
    path: Path | None = None
    framework: Framework | None = None

    @property
    def name(self) -> str:
        """What the model is called in records: the NAME, file-function, or the file's name without its ending."""
        if self.kind is Kind.FUNCTION and self.path is not None:
            return f"{self.path.stem}-{self.target}"
        return self.target if self.path is None else self.path.stem


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceInfo:
    """What is known of a MODEL before it is loaded.

    `framework` is None where only running the user's function can tell. `needs_example` says that a snapshot may need
    one sample of the data, because the model does not say the shape of its inputs.
    """

    name: str
    framework: Framework | None
    needs_example: bool
    layout: Layout | None
    preprocess: Preprocess | None
    task: Task | None


def describe(source: str, *, weights: Path | None = None, trust: bool = False) -> SourceInfo:
    """What is known of `source` without loading it.

    Raises:
        ModelError: an unknown form or name, a missing file, or weights for a model that has its own.
        MissingError: the extra that lists the names of this form is absent.
    """
    parsed = parse(source)
    check_weights(parsed, weights)
    if parsed.kind is Kind.TORCH_FILE and not trust and weights is None:
        _refuse_a_bare_checkpoint(parsed)
    preprocess: Preprocess | None = None
    task: Task | None = None
    needs_example = parsed.kind is Kind.TORCH_FILE
    if parsed.kind is Kind.ZOO:
        entry = zoo.ENTRIES[parsed.target]
        preprocess, task = entry.preprocess, entry.task
    elif parsed.kind is Kind.FUNCTION:
        needs_example = parsed.framework is not Framework.TENSORFLOW
    elif parsed.kind in (Kind.KERAS_APPLICATION, Kind.TIMM):
        task = Task.CLASSIFICATION
    layout = _LAYOUT.get(parsed.framework) if parsed.framework is not None else None
    return SourceInfo(
        name=parsed.name,
        framework=parsed.framework,
        needs_example=needs_example,
        layout=layout,
        preprocess=preprocess,
        task=task,
    )


def parse(source: str) -> Source:
    """The MODEL text as a `Source` whose file exists or whose name is known; raises as `describe` does."""
    scheme, colon, name = source.partition(":")
    if colon and scheme == "zoo":
        known_or_nearest(name, zoo.ENTRIES, "zoo model")
        return Source(text=source, kind=Kind.ZOO, target=name, framework=zoo.ENTRIES[name].framework)
    if colon and scheme == "keras":
        known_or_nearest(name, keras_applications.names(), "keras.applications model")
        return Source(text=source, kind=Kind.KERAS_APPLICATION, target=name, framework=Framework.TENSORFLOW)
    if colon and scheme == "timm":
        if find_spec("torch") is None:
            raise missing_extra("torch", "torch", f"MODEL '{source}'")
        if find_spec("timm") is None:
            raise MissingError(f"MODEL '{source}' needs the package 'timm': pip install timm")
        return Source(text=source, kind=Kind.TIMM, target=name, framework=Framework.TORCH)
    file, colon, function = source.rpartition(":")
    if colon and file.endswith(".py"):
        return _function(source, Path(file), function)
    return _file(source)


def check_weights(source: Source, weights: Path | None) -> None:
    """Raise ModelError unless `weights` is None or an existing file for a model that takes weights."""
    if weights is None:
        return
    if source.kind not in (Kind.KERAS_APPLICATION, Kind.TIMM, Kind.FUNCTION):
        raise ModelError(f"MODEL '{source.text}' has its own weights; {_ARCHITECTURE_WITHOUT_WEIGHTS}")
    if weights == RANDOM_WEIGHTS and source.kind is not Kind.FUNCTION:
        return
    if not weights.is_file():
        raise ModelError(f"weights '{weights}' {_what_is_there(weights)}; --weights takes one file")


def known_or_nearest(name: str, known: Iterable[str], what: str) -> None:
    """Raise ModelError that names the nearest known name, or all of a few, unless `name` is one of `known`."""
    names = sorted(known)
    if name in names:
        return
    by_lower = {each.lower(): each for each in names}
    near = [by_lower[each] for each in difflib.get_close_matches(name.lower(), by_lower, n=1)]
    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(names[:40])}"
    raise ModelError(f"no {what} is called '{name}'; {hint}")


def is_torchscript(path: Path) -> bool:
    """Whether the file is a TorchScript archive: a zip file with a `code/` folder."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any("/code/" in entry for entry in archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False


def _refuse_a_bare_checkpoint(source: Source) -> None:
    assert source.path is not None  # a file's kind
    if not is_torchscript(source.path):
        raise ModelError(
            f"{source.path} is not TorchScript: for a checkpoint name its architecture, file.py:function --weights "
            f"{source.path.name}; a pickled module runs code when it is loaded and needs --trust"
        )


def _file(source: str) -> Source:
    path = Path(source)
    if path.is_dir():
        if not (path / "saved_model.pb").is_file():
            raise ModelError(f"folder '{source}' is no SavedModel: it has no saved_model.pb. MODEL is {_FORMS}")
        return Source(
            text=source, kind=Kind.SAVED_MODEL, target=path.name, path=path, framework=_FRAMEWORK[Kind.SAVED_MODEL]
        )
    kind = _BY_SUFFIX.get(path.suffix.lower())
    if not path.is_file():
        hint = "" if kind else f"; MODEL is {_FORMS}"
        raise ModelError(f"MODEL '{source}' is not there: no such file or folder{hint}")
    if kind is None:
        hint = f"name its function: {source}:function" if path.suffix == ".py" else f"MODEL is {_FORMS}"
        raise ModelError(f"MODEL '{source}' has no known ending; {hint}")
    if path.name.lower().endswith(".weights.h5"):
        raise ModelError(
            f"{source} holds weights only: name their architecture, file.py:function --weights {path.name}"
        )
    return Source(text=source, kind=kind, target=path.name, path=path, framework=_FRAMEWORK[kind])


def _function(source: str, path: Path, function: str) -> Source:
    if not path.is_file():
        raise ModelError(f"MODEL '{source}': '{path}' {_what_is_there(path)}")
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise ModelError(f"MODEL '{source}': {path} is not Python: {error}") from error
    names = _top_level_names(tree)
    if names is not None:
        known_or_nearest(function, names, f"function of {path}")
    return Source(text=source, kind=Kind.FUNCTION, target=function, path=path, framework=_framework_by_imports(tree))


def _top_level_names(tree: ast.Module) -> set[str] | None:
    """The names that a module binds at its top level; None where that can't be told (a star import, an `if`)."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound = {(alias.asname or alias.name).split(".")[0] for alias in node.names}
            if "*" in bound:
                return None
            names |= bound
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
            return None
    return names


def _framework_by_imports(tree: ast.Module) -> Framework | None:
    packages: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            packages |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            packages.add(node.module.split(".")[0])
    uses_torch = bool(packages & {"torch", "timm", "torchvision"})
    uses_keras = bool(packages & {"tensorflow", "keras"})
    if uses_torch == uses_keras:
        return None
    return Framework.TORCH if uses_torch else Framework.TENSORFLOW


def _what_is_there(path: Path) -> str:
    return "is a folder" if path.is_dir() else "is not there"
