"""Noisy histograms become bells where noise dominates, and stay as they are where it does not."""

import numpy as np
import pytest

from sfumato.density.histogram_shrinkage import bells, shrunk_to_bells

RNG = np.random.default_rng(0)
SIZE = 5_000.0


def histograms(rows, cells, width=0.1):
    """Counts of normal points of this width around places of their own, by row."""
    middles = RNG.uniform(0.3, 0.7, rows)
    points = np.clip(RNG.normal(middles, width, (int(SIZE), rows)), 0, 1 - 1e-9)
    return np.stack([np.bincount((each * cells).astype(int), minlength=cells) for each in points.T])


def test_bells_are_of_the_mean_and_width_as_far_as_they_are_known():
    fractions = np.array([[0.0, 0.1, 0.8, 0.1, 0.0, 0.0, 0.0, 0.0]])
    exact, half, hidden = (bells(fractions, variance)[0] for variance in (0.0, 0.005, 1e6))
    assert exact.argmax() == 2
    assert exact[2] > half[2] > hidden[2]
    np.testing.assert_allclose(hidden, hidden[::-1], rtol=1e-3)
    assert (np.diff(hidden[:4]) > 0).all()


def test_without_noise_counts_stay_as_they_are():
    counts = histograms(4, 32)
    found = shrunk_to_bells(counts.astype(float), 1e-9, SIZE)
    np.testing.assert_allclose(found[counts > 0], counts[counts > 0], rtol=1e-3)


def test_noise_alone_becomes_a_bell_that_falls_from_the_middle():
    # 40 rows of Laplace noise of 40 times the mean cell, 50 draws: the evidence passed 3 deviations
    # in 2 of 50 draws, and the estimate was a bell in all others.
    falling = 0
    for _ in range(50):
        noise = RNG.laplace(0, 40 * SIZE / 16, (40, 16))
        found = shrunk_to_bells(SIZE / 16 + noise, 2 * (40 * SIZE / 16) ** 2, SIZE)
        falling += bool((np.diff(found[:, 8:].mean(axis=0)) < 0).all())
    assert falling >= 45


@pytest.mark.parametrize("noise", [30.0, 300.0])
def test_estimates_are_nearer_than_noisy_counts_and_than_bells(noise):
    # 20 rows of 64 cells: squared errors are sums of 1280 terms, so ratios vary by some percent.
    true = histograms(20, 64, width=0.03)
    noisy = true + RNG.laplace(0, noise, true.shape)
    found = shrunk_to_bells(noisy, 2 * noise**2, SIZE)
    plain = SIZE * bells(noisy / SIZE, 2 * noise**2 / SIZE**2)
    error = lambda each: ((each - true) ** 2).mean()  # noqa: E731
    assert error(found) < 0.6 * error(noisy)
    assert error(found) < 1.01 * error(plain)


def test_a_cell_far_above_the_noise_is_never_lost_among_many_rows_of_noise():
    counts = np.zeros((30, 64))
    counts[:, 5] = SIZE
    found = shrunk_to_bells(counts + RNG.laplace(0, 200, counts.shape), 2 * 200.0**2, SIZE)
    assert (found.argmax(axis=1) == 5).all()
    assert (found[:, 5] > 0.5 * SIZE).all()
