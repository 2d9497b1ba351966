"""Likelihoods of reports, against sets in plain Python."""

import numpy as np
import pytest

from sfumato.kernels.telemetry import decoding as paired

rng = np.random.default_rng(5)
MEMBERS = np.array([[[0, 9], [3, -1]], [[10, 2], [9, 3]], [[7, 8], [-1, -1]]], np.int32)
COHORTS = rng.integers(0, 3, 200).astype(np.int32)
BASE = rng.random((3, 2))
POWERS = np.array([1.0, 5.0, 25.0])


def by_hand(marked_cells):
    out = np.empty((200, 2))
    for r, marked in enumerate(marked_cells):
        for a in range(2):
            ones = len({c for c in MEMBERS[COHORTS[r], a] if c >= 0} & marked)
            out[r, a] = BASE[COHORTS[r], a] * POWERS[ones]
    return out


@pytest.fixture
def marks():
    return rng.random((200, 16)) < 0.5


def test_bits_count_the_marked_cells_of_a_set(marks):
    out = np.empty((200, 2))
    payload = np.packbits(marks, axis=1, bitorder="little")
    paired.of_bits(payload, COHORTS, MEMBERS, BASE, POWERS, out)
    np.testing.assert_allclose(out, by_hand([set(np.flatnonzero(row)) for row in marks]))


def test_a_symbol_is_in_a_set_or_not():
    symbols = rng.integers(0, 11, 200)
    out = np.empty((200, 2))
    paired.of_symbols(symbols, COHORTS, MEMBERS, BASE, POWERS, out)
    np.testing.assert_allclose(out, by_hand([{symbol} for symbol in symbols]))


def test_weights_of_marked_cells_are_summed(marks):
    weights, out = rng.random(16), np.empty(200)
    paired.weighted_marks(np.packbits(marks, axis=1, bitorder="little"), weights, out)
    np.testing.assert_allclose(out, marks @ weights)
