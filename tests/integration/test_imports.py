"""Rooms import one way and keep their names apart; only kernels compile; imports stay light."""

import ast
import importlib
import subprocess
import sys
import types
from collections import defaultdict
from pathlib import Path

import pytest

import sfumato

ROOT = Path(sfumato.__file__).parent
# Rooms of one rank do not import each other.
ORDER = [
    {"_moved"},
    {"errors"},
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
    {"client"},
    {"serve"},
    {"cli"},
    {"__main__"},
]
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}
FILES = {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}


def module_of(path):
    """The dotted name of a file below the package, without "sfumato": parts of its path."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def folder_of(path):
    return path.relative_to(ROOT).parent.parts


def room_of(parts):
    dotted = ".".join(parts[:2])
    return dotted if dotted in RANK else parts[0]


def imported(path, tree):
    """What a file imports of ours: (dotted parts below the package, line)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = ("sfumato", *folder_of(path))
            base = package[: len(package) - node.level + 1] if node.level else ()
            whole = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{whole}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            first, *parts = name.split(".")
            if first == "sfumato" and parts:
                yield tuple(parts), node.lineno


def test_rooms_import_only_what_comes_before_them():
    wrong = []
    for path, tree in FILES.items():
        here = room_of(module_of(path) or ("__init__",))
        if here == "__init__":
            continue
        assert here in RANK, f"{here} has no place in the order"
        for parts, line in imported(path, tree):
            there = room_of(parts)
            if there in RANK and there != here and not RANK[there] < RANK[here]:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {here} imports {there}")
    assert not wrong, "\n".join(wrong)


def test_underscores_stay_in_their_folder():
    # A module or name with a leading underscore is for the files beside it. The last part of an
    # import may be a module or a name of one, so the folder of either is compared.
    wrong = []
    for path, tree in FILES.items():
        for parts, line in imported(path, tree):
            at = next((k for k, part in enumerate(parts) if part.startswith("_")), None)
            if at is None or parts[at].startswith("__"):
                continue
            module = ROOT.joinpath(*parts[:at])
            folder = parts[:at] if module.is_dir() else parts[: at - 1]
            if folder != folder_of(path):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {'.'.join(parts)}")
        wrong += [f"{path.relative_to(ROOT)}:{line}" for line in reached_into(path, tree)]
    assert not wrong, "\n".join(wrong)


def reached_into(path, tree):
    """Lines with `module._name`, where the module is one of another folder."""
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sfumato"):
            for alias in node.names:
                parts = (*node.module.split(".")[1:], alias.name)
                if ROOT.joinpath(*parts).with_suffix(".py").is_file():
                    modules[alias.asname or alias.name] = parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            private = node.attr.startswith("_") and not node.attr.startswith("__")
            if private and modules.get(node.value.id, folder_of(path)) != folder_of(path):
                yield node.lineno


def test_only_kernels_compile():
    wrong = []
    for path, tree in FILES.items():
        if ROOT / "kernels" in path.parents:
            continue
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] in ("numba", "llvmlite") for name in names):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not wrong, "\n".join(wrong)


def test_import_is_light():
    heavy = "numpy numba pyarrow duckdb scipy sklearn pandas polars matplotlib typer rich tempfile"
    code = f"import sys, sfumato; print([m for m in '{heavy}'.split() if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_names_of_rooms_load_neither_compiler_nor_libraries_that_they_may_never_use():
    # A kernel, a sparse matrix or a table is imported when it is first used.
    names = [
        "sketch.HyperLogLog",
        "sketch.MinHash",
        "sketch.Race",
        "retrieve.BinaryIndex",
        "profile.Blip",
        "telemetry.decode",
        "telemetry.ReportEncoder",
        "recommend.SketchFactorization",
        "recommend.LinearItems",
        "recommend.ALS",
        "privacy.Ledger",
        "privacy.discrete_laplace",
        "mine.itemsets.frequent_itemsets",
        "mine.similar.near_duplicates",
        "mine.decompose.svd",
        "mine.rank.pagerank",
        "mine.cluster.KMeans",
        "density.SketchDensity",
        "density.SketchClassifier",
        "attack.audit",
        "data.Interactions",
    ]
    heavy = "numba scipy.special scipy.sparse scipy.stats sklearn pandas duckdb matplotlib"
    heavy += " pyarrow.compute"
    code = f"""
import importlib, sys
for name in {names}:
    room, _, public = name.rpartition(".")
    getattr(importlib.import_module("sfumato." + room), public)
    loaded = [each for each in "{heavy}".split() if each in sys.modules]
    if loaded:
        sys.exit(name + " loads " + " ".join(loaded))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_estimators_of_plain_arrays_do_not_load_scikit_learn():
    # Nor SciPy's statistics and Matplotlib, which would be as slow to import.
    code = """
import sys
import numpy as np
from sfumato.density import SketchAnomalyDetector, SketchClassifier, SketchDensity, SketchRegressor
from sfumato.mine.cluster import BFR, CURE, Hierarchical, KMeans
from sfumato.mine.decompose import PCA, PrivatePCA
rows = np.random.default_rng(0).uniform(size=(300, 2))
public = dict(epsilon=100.0, bounds=(0, 1))
for model in (
    SketchDensity(bandwidth=0.2), SketchDensity(bandwidth=0.2, **public), SketchClassifier(),
    SketchAnomalyDetector(), SketchRegressor(),
    KMeans(2, random_state=0), BFR(2), CURE(2, random_state=0), Hierarchical(2),
    PCA(1), PrivatePCA(1, **public),
):
    model.fit(rows, (rows[:, 0] > 0.5).astype(int))
    for name in ("score_samples", "predict", "transform"):
        if hasattr(model, name):
            getattr(model, name)(rows[:10].tolist())
    repr(model), dir(model), model.set_params(**model.get_params())
    heavy = "sklearn scipy.stats matplotlib"
    loaded = [each for each in heavy.split() if each in sys.modules]
    if loaded:
        sys.exit(type(model).__name__ + " loads " + " ".join(loaded))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_recommend_loads_only_the_models_that_are_used():
    code = """
import sys, sfumato.recommend
before = "numpy" in sys.modules
sfumato.recommend.SVDpp, sfumato.recommend.ALS
others = "sketch", "retrieve", "recommend.hybrid", "recommend.content", "recommend.private"
print(before, [name for name in others if "sfumato." + name in sys.modules])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False []"


@pytest.mark.parametrize("room", ["density", "recommend"])
def test_names_on_demand_are_those_that_type_checkers_read(room):
    package = importlib.import_module(f"sfumato.{room}")
    nodes = [node for node in FILES[ROOT / room / "__init__.py"].body if isinstance(node, ast.If)]
    imports = {alias.name: node.module for node in nodes[0].body for alias in node.names}
    assert sorted(imports) == sorted(package.__all__)
    for name, home in imports.items():
        assert getattr(package, name) is getattr(importlib.import_module(home), name)
    with pytest.raises(AttributeError, match="has no attribute"):
        package.Missing  # noqa: B018


def test_a_class_name_has_one_meaning():
    homes = defaultdict(list)
    for path, tree in FILES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(path.relative_to(ROOT)))
    twice = {name: where for name, where in homes.items() if len(where) > 1}
    assert not twice


def test_functions_and_modules_of_a_room_differ_in_name():
    # `import sfumato.room.name` binds the module over the function: whose name it is must be clear.
    wrong = []
    for init in (path for path in FILES if path.name == "__init__.py"):
        modules = {each.stem for each in init.parent.iterdir() if not each.stem.startswith("_")}
        room = importlib.import_module(".".join(["sfumato", *folder_of(init)]))
        public = modules & set(getattr(room, "__all__", ()))
        wrong += [
            f"{room.__name__}.{name}"
            for name in public
            if not isinstance(getattr(room, name), types.ModuleType)
        ]
    assert not wrong
