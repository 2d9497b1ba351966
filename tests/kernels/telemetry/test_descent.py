"""Coordinate descent ends where no weight can lower the penalised squares."""

import numpy as np
import pytest

from sfumato.kernels.telemetry.decoding import nonnegative_lasso


@pytest.mark.parametrize("level", [True, False])
def test_the_conditions_of_the_lasso_hold(level):
    rng = np.random.default_rng(1)
    dense = rng.random((50, 20)) < 0.2
    dense[:, 7] = False  # a column without cells stays at 0
    starts = np.append(0, np.cumsum(dense.sum(0))).astype(np.int32)
    rows = np.nonzero(dense.T)[1].astype(np.int32)
    target = dense @ rng.exponential(2, 20) + rng.standard_normal(50) + 3
    residual, weights = target.copy(), np.zeros(20)
    nonnegative_lasso(starts, rows, 4.0, level, 10_000, 1e-12, residual, weights)
    base = target - dense @ weights - residual
    assert np.allclose(base, base[0] if level else 0)
    assert not level or abs(residual.mean()) < 1e-9
    slope = dense.T @ residual - 4.0
    assert weights.min() >= 0
    assert weights[7] == 0
    assert np.allclose(slope[weights > 0], 0, atol=1e-8)
    assert (slope <= 1e-8).all()


def test_no_sweeps_change_nothing():
    residual, weights = np.ones(3), np.zeros(1)
    nonnegative_lasso(np.array([0, 3]), np.arange(3), 0.0, True, 0, 0.0, residual, weights)
    assert (residual.tolist(), weights.tolist()) == ([1, 1, 1], [0])
