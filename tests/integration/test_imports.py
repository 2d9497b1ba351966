"""Rooms import one way, in the order of the design; only kernels compile; imports stay light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sfumato

ROOT = Path(sfumato.__file__).parent
# Rooms of one rank do not import each other.
ORDER = [
    {"_version"},
    {"kernels"},
    {"core"},
    {"data"},
    {"privacy"},
    {"sketch"},
    {"engine"},
    {"retrieve"},
    {"profile", "recommend", "telemetry", "density", "mine"},
    {"attack"},
    {"store"},
    {"engine.spark"},
    {"serve", "cli"},
    {"__main__"},
]
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def room_of(parts):
    dotted = ".".join(parts[:2])
    return dotted if dotted in RANK else parts[0]


def imported(tree, package):
    """The dotted names of our own modules that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("sfumato"))
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            if name.startswith("sfumato"):
                yield from (f"{name}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_rooms_import_only_what_comes_before_them(path):
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    here = room_of(parts)
    assert here in RANK, f"{here} has no place in the order"
    tree = ast.parse(path.read_text())
    for name in imported(tree, ["sfumato", *parts[:-1]]):
        there = room_of(name.split(".")[1:] or [""])
        if there in RANK and there != here:
            assert RANK[there] < RANK[here], f"{here} imports {there}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_kernels_compile(path):
    if ROOT / "kernels" not in path.parents:
        names = [
            alias.name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        ]
        modules = [
            node.module or ""
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom)
        ]
        assert not any(name.split(".")[0] in ("numba", "llvmlite") for name in names + modules)


def test_import_is_light():
    heavy = "numpy numba pyarrow duckdb scipy sklearn pandas polars matplotlib typer rich"
    code = f"import sys, sfumato; print([m for m in '{heavy}'.split() if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_only_estimators_load_scikit_learn():
    rooms = "data privacy sketch engine retrieve recommend profile telemetry attack density cli"
    code = f"""
import importlib, sys
for room in "{rooms}".split():
    importlib.import_module("sfumato." + room)
loaded = "sklearn" in sys.modules
sys.modules["sfumato.density"].SketchDensity
print(loaded, "sklearn" in sys.modules)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False True"
