"""Design decisions as checks: which room may import which, and no framework at the top of a module."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "edgebench"
MODULES = sorted(PACKAGE.rglob("*.py"))

FRAMEWORKS = {"tensorflow", "keras", "torch", "onnx", "onnxruntime", "ai_edge_litert", "ai_edge_quantizer", "tf2onnx"}
FRAMEWORKS |= {"litert_torch", "tflite_runtime", "sklearn", "pycocotools", "matplotlib", "pandas", "scipy"}

# A room may import those named here, and itself.
GROUND = {"types", "errors", "__init__"}
LEVEL = GROUND | {"codec", "naming", "arrays", "isolation", "catalogue_files", "environments", "yaml_files", "atomic"}
LEVEL |= {"cache_folder", "hashing"}
ALLOWED = {
    "types": set(),
    "errors": set(),
    "codec": GROUND,
    "naming": GROUND,
    "arrays": GROUND | {"atomic"},
    "atomic": GROUND,
    "isolation": GROUND,
    "catalogue_files": GROUND,
    "yaml_files": GROUND,
    "cache_folder": GROUND,
    "hashing": GROUND,
    "environments": GROUND | {"cache_folder"},
    "stats": LEVEL,
    "store": LEVEL | {"database"},
    "database": LEVEL,
    "matrix": LEVEL,
    "config": LEVEL | {"matrix", "converters"},
    "runner": set(),
    "models": LEVEL | {"data"},
    "data": LEVEL,
    "converters": LEVEL | {"data"},
    "devices": LEVEL | {"runner"},
    "measure": LEVEL | {"stats", "devices"},
    "reports": LEVEL | {"stats", "store", "matrix", "measure"},
    "pipeline": LEVEL | {"store", "matrix", "models", "data", "converters", "devices", "measure"},
}


def room_of(module: Path) -> str:
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "edgebench":
            parts = node.module.split(".")[1:]
            names |= {parts[0]} if parts else {alias.name for alias in node.names}
        if isinstance(node, ast.Import):
            names |= {a.name.split(".")[1] for a in node.names if a.name.startswith("edgebench.")}
    return names - {"__version__"}


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_what_lies_below_it(module: Path) -> None:
    room = room_of(module)
    if room in ("cli", "__init__", "__main__"):
        return
    found = imported_rooms(ast.parse(module.read_text())) - {room}
    assert found <= ALLOWED[room], f"{room} must not import {sorted(found - ALLOWED[room])}"


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_framework_is_imported_at_the_top_of_a_module(module: Path) -> None:
    tops = set()
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, ast.Import):
            tops |= {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            tops.add(node.module.split(".")[0])
    assert not tops & FRAMEWORKS


def test_help_starts_without_any_framework_numpy_or_pydantic() -> None:
    code = (
        "import sys; from edgebench.cli import app; from typer.testing import CliRunner\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        f"print(sorted(({FRAMEWORKS | {'numpy', 'pydantic', 'sqlalchemy', 'yaml'}!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
