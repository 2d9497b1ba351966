"""XXH64 in plain Python is the XXH64 of the library that defines it, and the kernel's."""

import subprocess
import sys

import numpy as np
import pytest
import xxhash

from sfumato.core import file_format
from sfumato.core.hashing import hash_column
from sfumato.core.xxh64 import xxh64


@pytest.mark.parametrize("size", [*range(72), 1000, 4099])
def test_hash_is_that_of_xxhash(size):
    data = np.random.default_rng(size).bytes(size)
    assert xxh64(data) == xxhash.xxh64_intdigest(data)


@pytest.mark.parametrize("data", [b"SFUM" + bytes(range(200)), b"2026", b"-7.0", b""])
def test_checksum_does_not_depend_on_who_computes_it(data, monkeypatch):
    view = memoryview(data)  # the decimal text of a number is not the key of that number here
    hash_column(["tea"])  # loads the compiler
    compiled = file_format.checksum(view)
    monkeypatch.delitem(sys.modules, "numba")
    monkeypatch.setattr(file_format, "kernels", None)  # not called
    assert file_format.checksum(view) == compiled


def test_a_stored_sketch_is_read_without_a_compiler(tmp_path):
    from sfumato.sketch import CountMin

    CountMin(64).update(["tea"]).save(tmp_path / "tea.sfu")
    code = f"""
import sys, sfumato
print(sfumato.load({str(tmp_path / "tea.sfu")!r}).total, "numba" in sys.modules)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["1", "False"]
