"""Posterior means of sizes and coordinates of rows are those of a direct sum, at any noise."""

import numpy as np
import pytest
from scipy.stats import norm

from sfumato.profile.row_prior import RowPrior, shrunk_entries


def world(count, noise, seed):
    """True sizes and coordinates of rows, and noisy ones."""
    draws = np.random.default_rng(seed)
    sizes = np.exp(draws.normal(3.5, 0.7, count))
    along = 0.3 * sizes**0.7 * np.exp(draws.normal(0, 0.2, count))
    noisy = (
        each + draws.normal(0, v**0.5, count) for each, v in zip((sizes, along), noise, strict=True)
    )
    return sizes, along, *noisy


def test_posterior_means_are_those_of_a_direct_sum():
    noise = (400.0, 1.0)
    *_, sizes, along = world(300, noise, 1)
    prior = RowPrior.fit(sizes, along, noise)
    assert prior.weights.sum() == pytest.approx(1)
    found = prior.expect(sizes[:4], along[:4], lambda a, s: (a / np.sqrt(s), s))
    for u in range(4):
        above, below = np.zeros(2), 0.0
        for (i, j), weight in np.ndenumerate(prior.weights):
            point = np.array([prior.sizes[i, 0], prior.along[i, j]])
            around = np.array([prior.of_sizes[i, 0], prior.of_along[i, j]])
            given = np.array([sizes[u], along[u]])
            each = weight * np.prod(norm.pdf(given, point, np.sqrt(around + noise)))
            size, a = np.maximum(point + around / (around + noise) * (given - point), point / 10)
            above += each * np.array([a / np.sqrt(size), size])
            below += each
        np.testing.assert_allclose(found[u], above / below, rtol=1e-9)


@pytest.mark.parametrize("noise", [(100.0, 0.25), (2000.0, 1.0), (1e6, 1.0)])
def test_expected_ratios_are_nearer_to_the_true_ones_than_those_of_noisy_numbers(noise):
    size, coordinate, sizes, along = world(1000, noise, 2)
    prior = RowPrior.fit(sizes, along, noise)
    found = prior.expect(sizes, along, lambda a, s: (a / np.sqrt(s),))[:, 0]
    true = coordinate / np.sqrt(size)
    noisy = along / np.sqrt(np.maximum(sizes, 1))
    assert ((found - true) ** 2).mean() < 0.7 * ((noisy - true) ** 2).mean()
    assert np.corrcoef(found, true)[0, 1] > 0.6


def test_without_noise_numbers_are_those_given():
    *_, sizes, along = world(1000, (0.0, 0.0), 2)
    prior = RowPrior.fit(sizes, along, (0.0, 0.0))
    found = prior.expect(sizes, along, lambda a, s: (s, a))
    np.testing.assert_allclose(found, np.column_stack([sizes, along]), rtol=1e-6)


def test_noise_alone_gives_equal_rows_and_no_error():
    draws = np.random.default_rng(3)
    prior = RowPrior.fit(draws.normal(0, 100, 50), draws.normal(0, 5, 50), (1e4, 25.0))
    far = np.array([-1e9, 0.0, 1e9])
    found = prior.expect(far, far, lambda a, s: (a, s))
    assert np.isfinite(found).all()
    assert (found > 0).all()
    rows = prior.expect(draws.normal(0, 100, 50), draws.normal(0, 5, 50), lambda a, s: (s,))
    assert rows.std() < 0.2 * rows.mean()


def test_normal_entries_are_shrunk_as_the_best_linear_estimate():
    # Variance 4 under noise of variance 1: the best factor is 0.8, with an error of 0.8.
    draws = np.random.default_rng(4)
    true = draws.normal(0, 2, 3000)
    noisy = true + draws.normal(0, 1, 3000)
    shrunk, slopes = shrunk_entries(noisy, 1.0)
    assert ((shrunk - true) ** 2).mean() < 0.86
    assert slopes.mean() == pytest.approx(0.8, abs=0.05)


def test_derivatives_are_those_of_the_posterior_means():
    # Between the ends of the grid; moving one of 3,000 means changes the mixture next to nothing.
    draws = np.random.default_rng(5)
    means = np.where(np.arange(3000) % 10, 0.0, 4.0) + draws.normal(0, 1, 3000)
    shrunk, slopes = shrunk_entries(means, 1.0)
    at = np.flatnonzero((means > -1) & (means < 5))[:20]
    for each in at:
        moved = means.copy()
        moved[each] += 0.01
        change = (shrunk_entries(moved, 1.0)[0][each] - shrunk[each]) / 0.01
        assert change == pytest.approx(slopes[each], abs=0.05)


def test_more_means_than_the_mixture_reads_are_all_shrunk():
    draws = np.random.default_rng(6)
    means = draws.normal(0, 1, 10_000)
    means[7] = 50.0
    shrunk, _ = shrunk_entries(means, 1.0)
    assert shrunk[7] > 48
    assert np.abs(np.delete(shrunk, 7)).mean() < 0.2
