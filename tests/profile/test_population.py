"""Neighbours ranked by the population of a release are truly nearer than those of the two rows."""

import numpy as np
import pytest

from sfumato.data import Interactions, generate_world
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.profile import Blip, Jlt, Minima, Signs, released
from sfumato.profile.population import CommonProfile, Population

USERS, GROUPS, OWN, EACH = 400, 8, 60, 30
NOISY = {
    "blip": lambda: Blip(epsilon=2),
    "jlt": lambda: Jlt(epsilon=8, delta=1e-6),
    "signs": lambda: Signs(epsilon=12, delta=1e-6),
    "minima": lambda: Minima(epsilon=2),
}


def grouped(seed):
    """Users of eight groups; each has 30 of the 60 items of their own group, and no others."""
    draws = np.random.default_rng(seed)
    liked = [draws.choice(OWN, EACH, replace=False) + OWN * (u % GROUPS) for u in range(USERS)]
    users = np.repeat(np.arange(USERS), EACH)
    return Interactions(users, np.concatenate(liked), np.ones(users.size))


def in_group(release, ranking, metric="cosine"):
    """Part of ten neighbours that are of the same group; 12 % at random."""
    found, _ = release.nearest_rows(range(USERS), 10, metric=metric, ranking=ranking)
    return float((found % GROUPS == np.arange(USERS)[:, None] % GROUPS).mean())


@pytest.mark.parametrize("metric", ["cosine", "jaccard", "inner"])
@pytest.mark.parametrize("kind", NOISY)
def test_users_of_a_group_find_each_other_by_what_the_group_has_in_common(kind, metric):
    # Without the directions no more find each other than by pairs.
    source = InsecureSeededSource(1)
    release = NOISY[kind]().release(grouped(1), users=range(USERS), source=source)
    pairs, population = (in_group(release, each, metric) for each in ("pairs", "population"))
    assert population > pairs + 0.1
    assert in_group(release, None, metric) == population


@pytest.mark.parametrize("kind", NOISY)
def test_users_who_are_alike_in_pairs_alone_find_each_other_as_well(kind):
    # Nothing is common to more than two users; directions that barely stand out would hide them.
    users = np.repeat(np.arange(USERS), EACH)
    items = np.tile(np.arange(EACH), USERS) + EACH * (users // 2)
    before = Interactions(users, items, np.ones(users.size))
    release = NOISY[kind]().release(before, users=range(USERS), source=InsecureSeededSource(2))
    pairs, population = (
        (release.nearest_rows(range(USERS), 1, ranking=each)[0][:, 0] == np.arange(USERS) ^ 1)
        for each in ("pairs", "population")
    )
    assert population.mean() > 0.85 * pairs.mean() > 0.1


def test_similarities_returned_are_the_debiased_ones_and_nobody_is_their_own_neighbour():
    release = Blip(epsilon=2).release(
        grouped(3), users=range(USERS), source=InsecureSeededSource(3)
    )
    among = Blip(epsilon=4).release(grouped(3), users=range(USERS), source=InsecureSeededSource(4))
    for there in (release, among):
        found, near = release.nearest(range(USERS), 7, among=there)
        expected = np.take_along_axis(release.similarity(there), found, 1)
        np.testing.assert_allclose(near, expected, rtol=1e-9)
        assert not (found == np.arange(USERS)[:, None]).any()


def test_the_default_leaves_small_and_large_releases_to_pairs(monkeypatch):
    def same(release, ranking):
        default, chosen = (release.nearest_rows([0, 1], 5, ranking=r)[0] for r in (None, ranking))
        return bool((default == chosen).all())

    def made(users, **changed):
        return Blip(**{"epsilon": 1, **changed}).release(grouped(2), users=range(users))

    assert same(made(120), "population")
    assert not same(made(120), "pairs")
    assert same(made(99), "pairs")
    assert same(made(120, hashes=2), "population")
    assert same(made(120, hashes=2, epsilon=4), "pairs")
    monkeypatch.setattr(released, "CELLS", 120 * 2048 - 1)
    assert same(made(120), "pairs")
    with pytest.raises(ValueError, match="ReleasedBlip: ranking must be"):
        made(5).nearest([0], ranking="rows")


def test_posterior_means_are_far_nearer_to_rows_on_two_directions_than_noisy_rows():
    # Noise of two sizes; the best linear estimate, by the true covariance, has 1 % of its square.
    draws = np.random.default_rng(5)
    directions = draws.normal(0, 1, (2, 60))
    true = draws.normal(0, 2, (1500, 2)) @ directions
    noise = np.where(np.arange(60) % 2, 1.0, 9.0)
    noisy = (true + draws.normal(0, 1, true.shape) * np.sqrt(noise)).astype(np.float32)
    energies = np.ones(len(true))
    means = Population.fit(noisy, noise, energies).posterior(noisy, energies)
    assert ((means - true) ** 2).mean() < 0.06 * ((noisy - true) ** 2).mean()


def test_rows_of_more_energy_are_shrunk_less():
    # The best estimate with equal gains for all rows has 0.17 of the square of the noise, and that
    # with a gain for each row 0.13, by the variances that the rows are drawn with.
    draws = np.random.default_rng(6)
    energies = np.where(np.arange(1500) % 2, 0.1, 1.9)
    true = draws.normal(0, 0.5, (1500, 60)) * np.sqrt(energies)[:, None]
    noise = np.ones(60)
    noisy = (true + draws.normal(0, 1, true.shape)).astype(np.float32)
    errors = []
    for each in (energies, np.ones(1500)):
        means = Population.fit(noisy, noise, each).posterior(noisy, each)
        errors.append(float(((means - true) ** 2).mean()))
    assert errors[0] < 0.95 * errors[1] < 0.25


def test_the_common_profile_is_found_among_few_large_entries_and_rows_do_not_see_themselves():
    # A mean of 5 large entries of 500, where noise alone has as much as 0.8 of its length: the mean
    # itself would have an overlap of 0.79, and a row would add 0.44 to its own coordinate.
    draws = np.random.default_rng(7)
    mean = np.where(np.arange(500) < 5, 0.4, 0.0)
    noisy = (mean + draws.normal(0, 1, (1000, 500))).astype(np.float32)
    common = CommonProfile.fit(noisy, np.ones(500))
    true = mean / np.linalg.norm(mean)
    assert common.direction @ true > 0.95
    along, rest = common.split(noisy)
    own = along.mean() - float(common.direction @ mean)
    assert 0 < common.own < 0.1
    assert abs(own - common.own) < 0.1  # three standard errors of the mean of 1,000 coordinates
    assert abs((rest @ common.direction).max()) < 1e-4


@pytest.mark.parametrize("metric", ["cosine", "jaccard", "inner"])
@pytest.mark.parametrize("kind", NOISY)
def test_scores_are_those_of_the_factors_computed_pair_by_pair(kind, metric):
    here, there = (
        NOISY[kind]().release(grouped(seed), users=range(USERS), source=InsecureSeededSource(seed))
        for seed in (4, 5)
    )
    mine, yours = here._posterior, there._posterior
    scores = mine.scores(np.array([3, 8]), yours, metric)
    for at, u in enumerate([3, 8]):
        for v in (0, 8, 250):
            f, g = mine.factors, yours.factors
            left = f.along[u] * mine.direction + f.rest[u] * mine.rests[u]
            right = g.along[v] * yours.direction + g.rest[v] * yours.rests[v]
            if metric == "cosine":
                right = g.along_of_length[v] * yours.direction
                right = right + g.rest_of_length[v] * yours.rests[v]
            expected = left @ right
            if kind == "blip":
                inner = left @ (g.along[v] * yours.direction + g.rest[v] * yours.rests[v])
                expected *= 2048 * np.log1p(inner / 2048) / inner
            if metric == "jaccard":
                both = f.items[u], g.items[v]
                expected /= max(sum(both) - expected, *both)
            assert scores[at, v] == pytest.approx(expected, rel=1e-3, abs=1e-4)


def same_for_all(release):
    """The ten users who are most similar to others on average, by debiased similarities."""
    return np.argsort(-release.similarity().mean(axis=0))[:10]


FAINT = {
    "blip": lambda: Blip(epsilon=0.5),
    "blip of several hashes": lambda: Blip(epsilon=4, bits=1000, hashes=10),
    "jlt": lambda: Jlt(epsilon=2, delta=1e-6),
    "signs": lambda: Signs(epsilon=2, delta=1e-6),
    "minima": lambda: Minima(epsilon=0.5),
}


@pytest.mark.parametrize("kind", FAINT)
def test_where_noise_hides_pairs_the_typical_users_are_found_and_not_anybody(kind):
    # Seeds are fixed. Eight such means over three releases each were 0.98 to 1.57 times as near as
    # the same ten users for all, and 1.13 to 1.22 times as near as users at random: the least is
    # more than four standard deviations above the limits.
    world = generate_world(users=500, items=400, ratings=20_000, random_state=3)
    interactions = world.interactions
    before = np.zeros((500, 400))
    before[interactions.users, interactions.items] = 1
    lengths = np.maximum(np.sqrt(before.sum(axis=1)), 1)
    true = before @ before.T / np.outer(lengths, lengths)
    np.fill_diagonal(true, 0)
    ours, same = [], []
    for seed in range(3):
        source = InsecureSeededSource(seed)
        release = FAINT[kind]().release(interactions, users=range(500), source=source)
        found, _ = release.nearest_rows(range(500), 10)
        ours.append(true[np.arange(500)[:, None], found].mean())
        same.append(true[:, same_for_all(release)].mean())
    assert np.mean(ours) > 0.9 * np.mean(same)
    assert np.mean(ours) > 1.05 * true.mean()
