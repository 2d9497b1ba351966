"""Small matrices take one BLAS thread, and every number of threads comes back."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import ThreadpoolController, threadpool_limits

from sfumato.core.linear_algebra import LARGE, blas_threads, one_blas_thread
from sfumato.telemetry import Counts, Rappor, ReportEncoder, decode
from sfumato.telemetry.decoding import weighted_least_squares


def threads():
    assert scipy.linalg.__name__  # its library is one of them
    return [each["num_threads"] for each in ThreadpoolController().select(user_api="blas").info()]


@pytest.fixture(autouse=True)
def _two_threads():
    with threadpool_limits(2, user_api="blas"):
        yield


def test_threads_are_limited_inside_and_restored_after():
    before = threads()
    with one_blas_thread:
        assert set(threads()) == {1}
        with one_blas_thread:
            assert set(threads()) == {1}
        assert set(threads()) == {1}
    assert threads() == before != [1] * len(before)


def test_threads_are_restored_after_an_error():
    before = threads()

    @one_blas_thread
    def fail():
        assert set(threads()) == {1}
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            fail()
        assert threads() == before


def test_the_last_of_several_python_threads_restores():
    before, inside, leave = threads(), threading.Event(), threading.Event()

    def work():
        with one_blas_thread:
            inside.set()
            leave.wait(10)

    other = threading.Thread(target=work)
    with one_blas_thread:
        other.start()
        inside.wait(10)
    assert set(threads()) == {1}
    leave.set()
    other.join()
    assert threads() == before


@pytest.mark.parametrize(("size", "limited"), [(1, True), (LARGE - 1, True), (LARGE, False)])
def test_only_small_matrices_are_limited(size, limited):
    with blas_threads(size):
        assert (set(threads()) == {1}) == limited


def test_decoding_of_few_candidates_takes_one_thread(monkeypatch):
    recorded, solve = [], weighted_least_squares.factored

    def watched(gram):
        recorded.append(threads())
        return solve(gram)

    monkeypatch.setattr(weighted_least_squares, "factored", watched)
    scheme = Rappor(bits=16, hashes=2, cohorts=8, f=0.25)
    counts = Counts(scheme).update(ReportEncoder(scheme, seed=1).encode_many(["a", "b"] * 400))
    decode(counts, ["a", "b", "c"])
    assert recorded
    assert {number for each in recorded for number in each} == {1}
    assert np.unique(threads()).tolist() == [2]


def test_libraries_that_are_loaded_inside_are_limited_with_the_next_entry():
    code = """
import sys
from threadpoolctl import ThreadpoolController
from sfumato.core.linear_algebra import one_blas_thread, one_numpy_thread

def threads():
    found = ThreadpoolController().select(user_api="blas").info()
    return [each["num_threads"] for each in found]

import numpy
with one_numpy_thread:
    assert set(threads()) <= {1}, threads()
    assert "scipy.linalg" not in sys.modules
before = threads()
assert set(before) <= {2}, before
with one_numpy_thread:
    with one_blas_thread:
        assert "scipy.linalg" in sys.modules
        assert set(threads()) <= {1}, threads()
    assert set(threads()) <= {1}, threads()
assert set(threads()) <= {2}, threads()
"""
    given = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
