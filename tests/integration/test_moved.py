"""Every public name of the tree before the rooms were cut still comes from where it was."""

import subprocess
import sys
from pathlib import Path

import pytest

from sfumato._moved import MOVED

# A line has a module and its names, as they were in `__all__`.
OLD = [
    line.split()
    for line in Path(__file__)
    .parents[1]
    .joinpath("support/public_names.txt")
    .read_text()
    .split("\n")
    if line
]
GONE = {
    "sfumato.attack.bounds": {"Figure31", "figure_3_1"},  # benchmarks/thesis_ch3.py
    "sfumato.attack.membership": {"checked_settings", "inferred"},  # of the room's own use
    "sfumato.telemetry.reports": {"ID_BYTES"},  # likewise
    "sfumato.telemetry": {"Discovery", "DiscoveryReports"},  # benchmarks/_ngram_discovery.py
}
MODULES_GONE = {  # now in benchmarks/
    "sfumato.recommend.private_baselines",
    "sfumato.telemetry.discover",
}
CODE = """
import importlib, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
for line in sys.stdin:
    module, *names = line.split()
    found = importlib.import_module(module)
    for name in names:
        getattr(found, name)
"""


def test_old_paths_and_names_still_import():
    lines = [
        " ".join([module, *(name for name in names if name not in GONE.get(module, ()))])
        for module, *names in OLD
        if module not in MODULES_GONE
    ]
    found = subprocess.run(
        [sys.executable, "-c", CODE], input="\n".join(lines), capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr[-2000:]


def test_an_old_path_warns_and_gives_the_same_objects():
    from sfumato.sketch import CountMin

    sys.modules.pop("sfumato.sketch.count_min", None)
    with pytest.warns(DeprecationWarning, match=r"has moved to sfumato\.sketch\.frequency"):
        import sfumato.sketch.count_min as old
    assert old.CountMin is CountMin
    assert "CountMin" in dir(old)


def test_a_function_whose_module_had_its_name_can_still_be_called():
    code = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
import sfumato.telemetry.plan
from sfumato import telemetry
print(telemetry.plan(1000, 1.0, 10) is not None)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stdout == "True\n", found.stderr[-2000:]


def test_what_moved_has_gone_from_its_old_place():
    import sfumato

    root = Path(sfumato.__file__).parent
    for name in MOVED:
        path = root.joinpath(*name.split(".")[1:])
        assert not path.is_dir(), name
        assert not path.with_suffix(".py").exists(), name
