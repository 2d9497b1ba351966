"""Projections equal matrix products, and count sketches of rows equal their definition."""

import numpy as np
import pytest

from sfumato.core.hashing import hash_column
from sfumato.kernels.hash import ROW
from sfumato.kernels.sketch import projections

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 8, 11])
def test_project_adds_the_product(count):
    rows, matrix = RNG.normal(size=(count, 13)), RNG.normal(size=(13, 48))
    panels = np.ascontiguousarray(matrix.reshape(13, 3, 16).transpose(1, 0, 2))
    before = RNG.normal(size=(count, 48))
    out = before.copy()
    projections.project(rows, panels, out)
    np.testing.assert_allclose(out, before + rows @ matrix, rtol=1e-12, atol=1e-12)


def test_project_sums_alike_however_rows_and_columns_are_split():
    rows, panels = RNG.normal(size=(7, 100)), RNG.normal(size=(2, 100, 16))
    whole, parts = np.zeros((7, 32)), np.zeros((7, 32))
    projections.project(rows, panels, whole)
    for r in (slice(0, 2), slice(2, 7)):
        for i in (slice(0, 33), slice(33, 100)):
            part = np.ascontiguousarray(rows[r, i])
            projections.project(part, np.ascontiguousarray(panels[:, i]), parts[r])
    np.testing.assert_array_equal(parts, whole)


def test_whole_products_are_exact_beyond_the_digits_of_a_float():
    rows, directions = (RNG.integers(-(2**30), 2**30, size) for size in ((3, 7), (7, 5)))
    rows[:, ::2] = 0
    out = np.full((3, 5), 9)
    projections.project_whole(rows, directions.astype(np.int32), out)
    assert out.tolist() == (rows.astype(object) @ directions.astype(object)).tolist()
    assert np.abs(out).max() > 2**53


def test_scatter_and_place_follow_the_rows_of_the_hash():
    rows, hashes = RNG.normal(size=(3, 20)), hash_column(range(20), seed=4)
    out, want = np.zeros((3, 2, 7)), np.zeros((3, 2, 7))
    projections.scatter(rows, hashes, out)
    slots, signs = np.empty(20, np.int32), np.empty(20)
    projections.place(hashes, 7, slots, signs)
    for b in range(2):
        for i, h in enumerate(hashes):
            product = int(h) * int(ROW[b]) % 2**64
            slot, sign = (product >> 32) * 7 >> 32, 1 - 2 * (product >> 31 & 1)
            want[:, b, slot] += sign * rows[:, i]
            if b == 0:
                assert (slots[i], signs[i]) == (slot, sign)
    np.testing.assert_allclose(out, want, rtol=1e-12, atol=1e-12)
