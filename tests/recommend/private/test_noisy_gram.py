"""What stands out of noise: nothing of pure noise, and the planted directions of a signal."""

import numpy as np
import pytest

from sfumato.recommend.private.noisy_gram import (
    ENOUGH,
    FEWEST,
    LARGEST,
    NoisyGram,
    head_of,
    head_scores,
)

SIZE = 60


def noise(seed, size=SIZE):
    half = np.random.default_rng(seed).normal(0, 1, (size, size))
    return (half + half.T) / np.sqrt(2)


def scored(signal, seed=0, **options):
    size = len(signal)
    given = dict(counts=np.linspace(90, 30, size), count_noise=10.0, diagonal=np.full(size, 50.0))
    matrix = signal + noise(seed, size)
    return head_scores(np.arange(size), NoisyGram(matrix, noise=1.0, unit=0.0, **(given | options)))


def test_pure_noise_leaves_the_counts_as_they_are():
    # The largest eigenvalue of 60 rows exceeds the edge by chance; not at these seeds.
    for seed in range(4):
        found = scored(np.zeros((SIZE, SIZE)), seed)
        assert not found.weights.any()
        assert found.popular.tolist() == np.linspace(90, 30, SIZE).tolist()


def test_one_direction_is_popularity_and_better_known_than_the_counts():
    true = np.linspace(90, 30, SIZE)
    noisy = true + np.random.default_rng(1).normal(0, 20, SIZE)
    found = scored(0.02 * np.outer(true, true), counts=noisy, count_noise=20.0)
    assert not found.weights.any()
    assert np.abs(found.popular - true).mean() < 0.3 * np.abs(noisy - true).mean()
    # As good as they are: counts without noise stay.
    exact = scored(0.02 * np.outer(true, true), counts=true, count_noise=1e-9)
    assert exact.popular == pytest.approx(true)


def test_two_groups_of_items_recommend_their_own():
    group = np.arange(SIZE) % 2
    signal = np.where(group[:, None] == group, 3.0, 1.0)
    weights = scored(signal).weights
    same = group[:, None] == group
    np.fill_diagonal(same, False)
    assert (np.diag(weights) == 0).all()
    assert weights[same].mean() > 5 * abs(weights[group[:, None] != group].mean())


def test_the_head_is_of_confident_items_and_empty_where_noise_would_hide_it():
    counts = np.concatenate([np.arange(100.0, 0, -1), np.zeros(400)])
    assert head_of(counts, 1.0, ENOUGH - 1).size == 0
    assert head_of(counts, 1.0, -5.0).size == 0
    assert head_of(counts, 1.0, 1e6).tolist() == list(range(97))  # more than three deviations
    assert head_of(counts, 1.0, ENOUGH).size == int(6 * ENOUGH**0.5)
    assert head_of(counts, 100.0 / 3 - 7, 1e6).size == 0  # popularity itself is uncertain
    assert head_of(counts[:4], 1.0, 1e6).size == 4  # of a small catalogue fewer will do
    many = np.arange(2 * LARGEST, 0.0, -1)
    assert head_of(many, 0.1, 1e9).size == LARGEST
    assert FEWEST == 30


def test_directions_of_a_sample_of_short_histories_are_not_taken_for_real():
    # Users of two items at random: cells are Poisson, and there is nothing but popularity.
    rng = np.random.default_rng(3)
    counts = np.bincount(rng.integers(0, SIZE, (4000, 2)).reshape(-1), minlength=SIZE)
    cells = rng.poisson(1.1, (SIZE, SIZE))
    matrix = np.triu(cells, 1) + np.triu(cells, 1).T.astype(float)
    given = (matrix, counts / 1.0, 0.01)
    assert not head_scores(np.arange(SIZE), NoisyGram(*given, 1.0, counts, 1.0)).weights.any()
    # The same cells as sums of many small parts, of which none is a sample, are all real.
    assert head_scores(np.arange(SIZE), NoisyGram(*given, 0.0, counts, 1.0)).weights.any()


def test_users_are_a_sample_too():
    matrix = np.full((SIZE, SIZE), 9.0)
    flat = NoisyGram(matrix, np.ones(SIZE), 4.0, 1.0, np.ones(SIZE), 1.0)
    assert flat.deviation() == pytest.approx(5.0)
    assert NoisyGram(-matrix, np.ones(SIZE), 4.0, 1.0, np.ones(SIZE), 1.0).deviation() == 4.0
    assert flat.history == pytest.approx(1 + 9.0 * (SIZE - 1))
