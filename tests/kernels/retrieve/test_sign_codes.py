"""Unit vectors, and codes as sides or packed words, are what NumPy makes of them."""

import numpy as np
import pytest

from sfumato.kernels.retrieve import sign_codes as sides


def normalised(rows, centre):
    lengths, out = np.empty(len(rows)), np.empty_like(rows)
    sides.normalise(rows, centre, lengths, out)
    return lengths, out


@pytest.mark.parametrize("dimension", [1, 15, 16, 17, 50, 128])
def test_rows_become_unit_vectors_from_the_centre(dimension):
    rng = np.random.default_rng(dimension)
    rows = rng.normal(size=(9, dimension)).astype(np.float32)
    centre = rng.normal(size=dimension).astype(np.float32)
    lengths, out = normalised(rows, centre)
    apart = rows.astype(np.float64) - centre
    np.testing.assert_allclose(lengths, np.linalg.norm(apart, axis=1), rtol=1e-14)
    np.testing.assert_allclose(out, apart / lengths[:, None], rtol=1e-6)


@pytest.mark.parametrize("size", [1e-40, 1e-20, 1e30, 3e38])
def test_no_size_of_numbers_overflows_or_vanishes(size):
    rows = np.full((1, 20), size, np.float32)
    lengths, out = normalised(rows, np.zeros(20, np.float32))
    np.testing.assert_allclose(out, 20**-0.5, rtol=1e-6)
    np.testing.assert_allclose(lengths, 20**0.5 * rows[0, 0].astype(np.float64), rtol=1e-12)


def test_the_centre_itself_has_no_direction_and_bad_numbers_show_in_the_length():
    rows = np.ones((4, 18), np.float32)
    rows[1, 3], rows[2, 17], rows[3, 0] = np.nan, np.inf, -np.inf
    lengths, out = normalised(rows, np.ones(18, np.float32))
    assert not out[0].any()
    assert lengths[0] == 0
    assert not np.isfinite(lengths[1:]).any()


@pytest.mark.parametrize("bits", [1, 31, 32, 33, 64, 65, 100, 128, 200])
def test_packing_and_unpacking_are_inverse(bits):
    rng = np.random.default_rng(bits)
    projections = np.zeros((7, -(-bits // 32) * 32), np.float32)
    projections[:, :bits] = rng.normal(size=(7, bits))
    projections[0, 0] = 0
    made, again = np.full_like(projections, 9), np.full_like(projections, 9)
    sides.sides(projections, bits, made)
    np.testing.assert_array_equal(made[:, :bits], np.where(projections[:, :bits] > 0, 1, -1))
    assert not made[:, bits:].any()
    words = np.empty((7, -(-bits // 64)), np.uint64)
    sides.pack(made, words)
    set_bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    np.testing.assert_array_equal(set_bits[:, :bits], made[:, :bits] > 0)
    assert not set_bits[:, bits:].any()
    sides.unpack(words, bits, again)
    np.testing.assert_array_equal(again, made)


def test_products_are_those_of_float64():
    rng = np.random.default_rng(4)
    a, b = (rng.normal(size=(5, 96)).astype(np.float32) for _ in range(2))
    out = np.empty(4)
    sides.products(a, b, out)
    np.testing.assert_allclose(out, (a.astype(np.float64) * b).sum(axis=1)[:4], rtol=1e-13)
