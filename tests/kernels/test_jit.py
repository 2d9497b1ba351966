"""Kernels run without the GIL, load from the cache, and are rebuilt when any of them changes."""

import importlib
import pickle
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.registry import CPUDispatcher

import sfumato.kernels

ROOM = Path(sfumato.kernels.__file__).parent
MODULES = [module.name for module in pkgutil.walk_packages([str(ROOM)], "sfumato.kernels.")]


@pytest.mark.parametrize("name", MODULES)
def test_every_kernel_releases_the_gil_and_keeps_exact_arithmetic(name):
    module = importlib.import_module(name)
    for kernel in vars(module).values():
        if isinstance(kernel, CPUDispatcher):
            options = kernel.targetoptions
            assert options["nogil"], kernel
            assert not options.get("fastmath"), kernel
            assert not options.get("boundscheck"), kernel


def run_in(folder):
    code = "import numpy, room.caller as c; out = numpy.zeros(1); c.fill(out)\n"
    code += "print(out[0], sum(c.fill.stats.cache_hits.values()))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    value, hits = done.stdout.split()
    return float(value), int(hits)


def test_a_changed_helper_rebuilds_its_callers(tmp_path):
    room = tmp_path / "room"
    room.mkdir()
    shutil.copy(ROOM / "jit.py", room)
    (room / "__init__.py").touch()
    (room / "helper.py").write_text(
        "from .jit import inline\n\n\n@inline\ndef number():\n    return 1.0\n"
    )
    (room / "caller.py").write_text(
        "from .jit import kernel\nfrom .helper import number\n\n\n"
        "@kernel\ndef fill(out):\n    out[0] = number()\n"
    )
    assert run_in(tmp_path) == (1.0, 0)
    assert run_in(tmp_path) == (1.0, 1)
    helper = room / "helper.py"
    helper.write_text(helper.read_text().replace("1.0", "25.0"))
    assert run_in(tmp_path) == (25.0, 0)
    assert run_in(tmp_path) == (25.0, 1)


def test_an_index_of_types_that_are_gone_is_written_anew(tmp_path):
    # As after an update in place: the pickled index names a module that is not there any more.
    room = tmp_path / "room"
    room.mkdir()
    shutil.copy(ROOM / "jit.py", room)
    (room / "__init__.py").touch()
    (room / "caller.py").write_text(
        "from .jit import kernel\n\n\n@kernel\ndef fill(out):\n    out[0] = 3.0\n"
    )
    assert run_in(tmp_path) == (3.0, 0)
    (index,) = room.glob("__pycache__/*.nbi")
    version = pickle.dumps(pickle.loads(index.read_bytes()))  # the first of the two in the file
    index.write_bytes(version + b"cgone\nthing\n.")
    assert run_in(tmp_path) == (3.0, 0)
    assert run_in(tmp_path) == (3.0, 1)
