"""Kernels run without the GIL, load from the cache, and are rebuilt when any of them changes."""

import importlib
import pickle
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import TypingError
from numba.core.registry import CPUDispatcher

import sfumato.kernels
from sfumato.kernels.jit import inline, kernel

ROOM = Path(sfumato.kernels.__file__).parent
MODULES = [module.name for module in pkgutil.walk_packages([str(ROOM)], "sfumato.kernels.")]


@pytest.mark.parametrize("name", MODULES)
def test_every_kernel_releases_the_gil_and_keeps_exact_arithmetic(name):
    module = importlib.import_module(name)
    for each in vars(module).values():
        if isinstance(each, CPUDispatcher):
            options = each.targetoptions
            assert options["nogil"], each
            assert not options.get("fastmath"), each
            assert not options.get("boundscheck"), each


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
    assert not list(room.glob("__pycache__/helper.number*.nbi"))  # only kernels are stored


@inline
def _squared(x):
    return x * x


@inline
def _length(x, y):
    return np.sqrt(_squared(x) + _squared(y))


@kernel
def _lengths(x, y, out):
    for i in range(out.size):
        out[i] = _length(x[i], y[i])


def test_helpers_are_inlined_without_code_of_their_own():
    lines = np.arange(3, dtype=np.float64)
    out = np.empty(3)
    _lengths(lines, lines + 1, out)
    np.testing.assert_array_equal(out, np.sqrt(lines**2 + (lines + 1) ** 2))
    _lengths.recompile()  # a stored kernel needs no helper
    (compiled,) = _length.overloads.values()
    assert not compiled.library._codegen._engine.is_symbol_defined(compiled.fndesc.llvm_func_name)


def test_compiling_loads_no_linear_algebra_and_leaves_other_code_of_numba_alone(tmp_path):
    code = """
import sys, numba, numpy as np
from sfumato.kernels.jit import kernel
@kernel
def ours(values, out):
    out[0] = min(len(np.zeros(3)), values.size)
ours(np.ones(2), out := np.empty(1))
print(out[0], "scipy.linalg" in sys.modules)
@numba.njit(nogil=True, error_model="numpy")
def theirs(values):
    return min(len(np.zeros(3)), values.size), np.dot(values, values)
print(*theirs(np.ones(2)))
"""
    file = tmp_path / "caller.py"
    file.write_text(code)
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2.0", "False", "2", "2.0"]


FOREIGN = """
import hashlib, re, sys, numba, numpy as np
if sys.argv[1] == "beside":
    from sfumato.kernels.jit import kernel
    @kernel
    def ours(values, out):
        scratch = np.zeros(3)
        for i in range(values.size):
            scratch[i % 3] += values[i] // 2 + min(values[i], values.size)
        out[0] = scratch.sum()
    ours(np.ones(2), out := np.empty(1))
@numba.njit(cache=True)
def theirs(values):
    scratch = np.zeros(3)
    for i in range(values.size):
        scratch[i % 3] += values[i] // 2 + min(values[i], values.size)
    return scratch.sum(), np.dot(values, values)
if sys.argv[1] != "load":
    (code,) = (theirs(np.ones(2)), theirs.inspect_asm())[1].values()
    operations = re.findall(r"^\\t([a-z][a-z0-9]*)", code, re.MULTILINE)
    print(hashlib.sha256(" ".join(operations).encode()).hexdigest())
print((theirs(np.ones(2)), sum(theirs.stats.cache_hits.values()), "sfumato" in sys.modules))
"""


def test_foreign_code_of_numba_is_compiled_and_stored_as_without_our_kernels(tmp_path):
    def output(*how):
        folder = tmp_path / how[-1]
        folder.mkdir(exist_ok=True)
        file = folder / "caller.py"
        file.write_text(FOREIGN)
        line = [sys.executable, file, how[0]]
        return subprocess.run(line, capture_output=True, text=True, check=True).stdout.split("\n")

    alone, beside = output("alone"), output("beside")
    assert alone[0] == beside[0]  # the same operations in the same order
    assert alone[1] == beside[1].replace("True", "False") == "((2.0, 2.0), 0, False)"
    # What it stored beside us is read where we are not installed: nothing of ours is named.
    assert output("load", "beside")[0] == "((2.0, 2.0), 1, False)"
    assert not any(b"sfumato" in each.read_bytes() for each in tmp_path.rglob("*theirs*.nb?"))


def test_python_may_call_a_helper():
    assert _length(3, 4) == 5
    assert _length(np.float32(3), 4.0) == 5


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


def test_a_kernel_from_the_cache_loads_neither_linear_algebra_nor_what_only_compiling_needs(
    tmp_path,
):
    room = tmp_path / "room"
    room.mkdir()
    shutil.copy(ROOM / "jit.py", room)
    (room / "__init__.py").touch()
    (room / "caller.py").write_text(
        "import math\n\nfrom .jit import kernel\n\n\n"
        "@kernel\ndef fill(out):\n    out[0] = math.lgamma(8.0 * out.size)\n\n\n"
        "@kernel\ndef other(out):\n    out[0] = math.erf(out[0])\n"
    )
    assert run_in(tmp_path)[1] == 0
    code = """
import sys, numpy, room.caller as c
out = numpy.zeros(1)
c.fill(out)
print(round(out[0], 3), sum(c.fill.stats.cache_hits.values()), "scipy.linalg" in sys.modules)
c.other(out)  # which is compiled here, after one that was not
print(round(out[0], 3))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["8.525", "1", "False", "1.0"]


ALLOCATING = """from .jit import kernel
import numpy as np


@kernel
def total(size, out):
    scratch = np.zeros((size, 2))
    scratch[1, 1] = 3.0
    out[0] = scratch.sum()
"""
CALLED = """import sys, numpy, room.caller as c
out = numpy.zeros(1)
c.total(4, out)
assert out[0] == 3.0
try:
    c.total(-1, out)
except ValueError:
    print(sum(c.total.stats.cache_hits.values()), "numba.np.arrayobj" in sys.modules)
"""


def test_a_stored_kernel_that_allocates_loads_none_of_the_modules_that_compiled_it(tmp_path):
    room = tmp_path / "room"
    room.mkdir()
    shutil.copy(ROOM / "jit.py", room)
    (room / "__init__.py").touch()
    (room / "caller.py").write_text(ALLOCATING)
    line = [sys.executable, "-c", CALLED]
    settings = {"cwd": tmp_path, "capture_output": True, "text": True, "check": True}
    assert subprocess.run(line, **settings).stdout.split() == ["0", "True"]
    assert subprocess.run(line, **settings).stdout.split() == ["1", "False"]


def test_an_operator_is_resolved_anew_for_other_types_and_code():
    @kernel
    def double(values, out):
        for i in range(values.size):
            out[i] = values[i] + values[i]

    for dtype in (np.int8, np.float32, np.complex128):
        values, out = np.arange(3).astype(dtype), np.empty(3, dtype)
        double(values, out)
        np.testing.assert_array_equal(out, values + values)
    with pytest.raises(TypingError, match="No implementation"):
        double(np.array(["a", "b"]), np.empty(2))
