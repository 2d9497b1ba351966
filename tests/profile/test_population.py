"""Neighbours ranked by the population of a release are truly nearer than those of the two rows."""

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.profile import Blip, Jlt, Minima, Signs, released
from sfumato.profile.population import Population

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


def test_the_default_leaves_small_large_and_crowded_releases_to_pairs(monkeypatch):
    def same(release, ranking):
        default, chosen = (release.nearest_rows([0, 1], 5, ranking=r)[0] for r in (None, ranking))
        return bool((default == chosen).all())

    def made(users, **changed):
        return Blip(**{"epsilon": 1, **changed}).release(grouped(2), users=range(users))

    assert same(made(120), "population")
    assert not same(made(120), "pairs")
    assert same(made(99), "pairs")
    assert same(made(120, hashes=2), "pairs")
    monkeypatch.setattr(released, "CELLS", 120 * 2048 - 1)
    assert same(made(120), "pairs")
    with pytest.raises(ValueError, match="ReleasedBlip: ranking must be"):
        made(5).nearest([0], ranking="rows")


def test_posterior_means_are_far_nearer_to_rows_on_two_directions_than_noisy_rows():
    # Noise of two sizes; the best linear estimate, by the true covariance, has 1 % of its square.
    draws = np.random.default_rng(5)
    mean, directions = draws.normal(0, 3, 60), draws.normal(0, 1, (2, 60))
    true = mean + draws.normal(0, 2, (1500, 2)) @ directions
    noise = np.where(np.arange(60) % 2, 1.0, 9.0)
    noisy = (true + draws.normal(0, 1, true.shape) * np.sqrt(noise)).astype(np.float32)
    means = Population.fit(noisy, noise).posterior(noisy)
    assert ((means - true) ** 2).mean() < 0.06 * ((noisy - true) ** 2).mean()
