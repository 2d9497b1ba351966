"""Sharing among nodes and reading between them, held against splines written out in NumPy."""

import itertools

import numpy as np
import pytest
from scipy.interpolate import BSpline

from sfumato.kernels.sketch import kernel_sums as grid

STEP = 1 << grid.PLACE_BITS
QUADRATIC = BSpline.basis_element(np.arange(4.0) - 1.5, extrapolate=False)
CUBIC = BSpline.basis_element(np.arange(5.0) - 2, extrapolate=False)


def around(spline, place, nodes):
    return np.nan_to_num(spline(np.arange(nodes) - place))


@pytest.mark.parametrize("axes", [1, 2, 3, 4])
def test_a_point_shares_its_whole_unit_as_a_quadratic_spline_does(axes):
    rng = np.random.default_rng(axes)
    shape, bits = (1,) * (4 - axes) + (7,) * axes, 15 // axes
    spans = np.array([3 if n > 1 else 1 for n in shape])
    for weight in (1, -3):
        steps = np.zeros((1, 4), np.int64)
        steps[0, 4 - axes :] = rng.integers(STEP, 5 * STEP, axes)
        table = np.zeros(shape, np.int64)
        grid.share(steps, np.array([weight]), bits, spans, table)
        assert table.sum() == weight << (bits * axes)
        assert (np.sign(weight) * table >= 0).all()
        want = np.ones(())
        for place in steps[0, 4 - axes :] / STEP:
            want = np.multiply.outer(want, around(QUADRATIC, place, 7))
        got = table.reshape((7,) * axes) / (weight << (bits * axes))
        np.testing.assert_allclose(got, want, rtol=0, atol=axes * 2.0**-bits)


def test_parts_are_never_negative_and_sum_exactly():
    for bits in (4, 5, 7, 15):
        parts = [
            [grid.part(node, far, bits, 3) for node in range(3)]
            for far in range(-STEP // 2, STEP // 2)
        ]
        assert min(map(min, parts)) >= 0
        assert set(map(sum, parts)) == {1 << bits}


@pytest.mark.parametrize("axes", [1, 2, 3, 4])
def test_reading_is_a_cubic_spline(axes):
    rng = np.random.default_rng(axes)
    shape = (1,) * (4 - axes) + (8,) * axes
    field = rng.normal(size=shape)
    places = np.zeros((5, 4))
    places[:, 4 - axes :] = rng.uniform(0, 4.99, (5, axes))
    out = np.empty(5)
    grid.read(field, places, np.array([4 if n > 1 else 1 for n in shape]), out)
    for place, got in zip(places, out, strict=True):
        weights = [
            around(CUBIC, at + 1, 8) if n > 1 else [1] for at, n in zip(place, shape, strict=True)
        ]
        spots = itertools.product(*map(range, shape))
        want = sum(
            field[spot] * np.prod([w[i] for w, i in zip(weights, spot, strict=True)])
            for spot in spots
        )
        assert got == pytest.approx(want, abs=1e-12)
