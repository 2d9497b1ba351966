"""Codes of sets are those of the stated minima, whatever the number of rows and sets."""

import numpy as np
import pytest

from sfumato.kernels.sketch.minhash import LAST, ROWS, minima


def stated(members, words):
    """The code of one set in every row, by NumPy's 32-bit arithmetic."""
    code = np.zeros(ROWS, np.uint32)
    for k, a, b, c in words:
        lowest = np.full(ROWS, 2**32 - 1, np.uint32)
        for x in members:
            mixed = (x ^ k) * a
            lowest = np.minimum(lowest, (mixed ^ (mixed >> np.uint32(15))) * b)
        code = (code ^ lowest) * c
        code = code ^ (code >> np.uint32(16))
    return code * LAST


@pytest.mark.parametrize("rows", [1, 15, 16])
@pytest.mark.parametrize("hashes", [1, 3])
def test_codes_are_those_of_the_stated_minima(rows, hashes):
    rng = np.random.default_rng(rows + hashes)
    words = rng.integers(0, 2**32, (hashes, 4, ROWS), dtype=np.uint32)
    words[:, 1:] |= np.uint32(1)
    bounds = np.concatenate([[0], np.cumsum(rng.integers(0, 6, 37))])
    members = rng.integers(0, 2**32, bounds[-1], dtype=np.uint32)
    out = np.full((rows, 37), -1, np.int64)
    minima(members, bounds, words, out)
    for i in range(37):
        expected = stated(members[bounds[i] : bounds[i + 1]], words)
        assert np.array_equal(out[:, i], expected[:rows])


def test_no_sets_have_no_codes():
    words = np.ones((1, 4, ROWS), np.uint32)
    out = np.empty((ROWS, 0), np.int64)
    minima(np.empty(0, np.uint32), np.zeros(1, np.int64), words, out)
    assert out.size == 0
