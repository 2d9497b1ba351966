"""The doctor names what is there, what is missing with its remedy, and fails for what is needed."""

import json
from importlib import metadata

import pytest

from sfumato.cli import doctor
from sfumato.kernels import jit
from support.cli_workspace import result_of


def parts(tmp_path, code=0):
    rows = json.loads(result_of(tmp_path, "doctor", "--json", code=code).stdout)["rows"]
    return {each["part"]: (each["state"], each["detail"]) for each in rows}


def test_it_lists_versions_threads_vectors_kernels_and_optional_parts(tmp_path):
    found = parts(tmp_path)
    needed = {"sfumato", "Python", "SQLite", "threads", "vectors", "compiled kernels", "browser"}
    assert needed | set(doctor.OPTIONAL) <= set(found)
    assert "usable" in found["threads"][1]
    assert found["vectors"][1].split()[0] in (*doctor.VECTORS, "baseline")


def test_a_version_outside_the_range_or_a_missing_package_is_broken(tmp_path, monkeypatch):
    lines = ["numba<0.1", "numpy>=1", "no-such-package>=3", "extra-thing; extra == 'x'"]
    monkeypatch.setattr(metadata, "requires", lambda name: lines)
    found = {each["part"]: each for each in doctor._versions()}
    assert found["numba"]["state"] == "broken"
    assert "numba<0.1" in found["numba"]["detail"]
    assert found["numpy"]["state"] == "ok"
    assert "extra-thing" not in found
    assert found["no-such-package"]["detail"] == "not installed; needed: no-such-package>=3"
    assert parts(tmp_path, code=1)["numba"][0] == "broken"


def test_an_optional_part_that_is_missing_comes_with_its_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "OPTIONAL", {"Thing": (("no-such-package",), "sfumato[thing]")})
    (row,) = doctor._optional()
    assert row["state"] == "missing"
    assert row["detail"] == "no-such-package not installed: pip install 'sfumato[thing]'"


@pytest.mark.parametrize("writable", [True, False])
def test_a_cache_without_kernels_is_empty_and_one_that_cannot_be_written_broken(
    tmp_path, monkeypatch, writable
):
    def folders():
        if not writable:
            raise OSError("no folder")
        return [tmp_path]

    monkeypatch.setattr(jit, "cache_folders", folders)
    state, detail = parts(tmp_path, code=0 if writable else 1)["compiled kernels"]
    assert state == ("empty" if writable else "broken")
    assert ("sfumato warmup" if writable else "no folder") in detail


def test_the_folders_of_the_cache_are_those_that_kernels_are_stored_in():
    from sfumato.kernels import hash_tables
    from sfumato.kernels.sketch import codes

    found = {str(each) for each in jit.cache_folders()}
    assert {hash_tables.put._cache.cache_path, codes.signs._cache.cache_path} <= found
