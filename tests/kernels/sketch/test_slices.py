"""Histograms along lines: what is shared sums to the unit, and curves are read between points."""

import numpy as np

from sfumato.kernels.sketch import kernel_sums as slices

RANDOM = np.random.default_rng(1)


def test_points_are_shared_by_their_place_between_two_bins():
    positions = RANDOM.uniform(0, 9, (3, 200))
    weights = RANDOM.integers(-3, 4, 200)
    table = np.zeros((3, 11), np.int64)
    slices.share_slices(positions, weights, 16, table)
    expected = np.zeros((3, 11), np.int64)
    for r, row in enumerate(positions):
        for place, weight in zip(row, weights, strict=True):
            upper = int(np.floor((place - np.floor(place)) * 16 + 0.5))
            expected[r, int(place)] += (16 - upper) * weight
            expected[r, int(place) + 1] += upper * weight
    assert np.array_equal(table, expected)
    assert (table.sum(axis=1) == 16 * weights.sum()).all()


def test_curves_are_read_as_straight_lines():
    curves = RANDOM.normal(size=(4, 41))
    positions = RANDOM.uniform(0, 9.9, (4, 50))
    out = np.ones(50)
    slices.read_slices(positions, 4.0, curves, out)
    expected = 1 + sum(
        np.interp(4 * row, np.arange(41), curve)
        for row, curve in zip(positions, curves, strict=True)
    )
    np.testing.assert_allclose(out, expected, atol=1e-12)
