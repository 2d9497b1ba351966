"""The nonnegative fit is the best one: checked by its conditions and by an independent solver."""

import numpy as np
import pytest
from scipy.optimize import nnls

from sfumato.telemetry.decoding.weighted_least_squares import nonnegative


def problems():
    rng = np.random.default_rng(3)
    for size in (1, 2, 7, 40):
        for scale in (0.01, 1.0):
            rows = rng.standard_normal((3 * size, size))
            yield rows, scale * rng.standard_normal(3 * size)


@pytest.mark.parametrize("closed", [False, True])
def test_the_conditions_of_the_best_fit_hold(closed):
    for rows, y in problems():
        gram, target = rows.T @ rows, rows.T @ y
        fractions = nonnegative(gram, target, closed=closed)
        slope = gram @ fractions - target
        assert fractions.min() >= 0
        assert fractions.sum() == pytest.approx(1) if closed else fractions.sum() <= 1 + 1e-9
        full = closed or fractions.sum() > 1 - 1e-9
        price = slope[fractions > 0].mean() if full and (fractions > 0).any() else 0.0
        assert closed or price <= 1e-7
        assert np.allclose(slope[fractions > 0], price, atol=1e-7)
        assert (slope >= price - 1e-7).all()


def test_it_agrees_with_active_sets_where_the_sum_does_not_bind():
    for rows, y in problems():
        best, _ = nnls(rows, 0.02 * y)
        assert np.allclose(nonnegative(rows.T @ rows, rows.T @ (0.02 * y), closed=False), best)


def test_nothing_positive_gives_zeros():
    assert nonnegative(np.eye(3), -np.ones(3), closed=False).tolist() == [0, 0, 0]
