"""Neighbours of flipped filters are ranked by shrunk similarity, and come with the debiased one."""

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.profile import Blip

PRIOR = 1 / 20


class Nothing:
    """A source of noise whose every bit is 1, so that no coin below 1/2 falls."""

    def fill(self, out):
        out.view(np.uint8).reshape(-1)[:] = 255


def released(profiles, source, **changed):
    """A release of users 0, 1, ... with these items."""
    users = np.repeat(np.arange(len(profiles)), [len(items) for items in profiles])
    items = np.concatenate([*profiles, np.empty(0, np.int64)]).astype(np.int64)
    blip = Blip(**{"epsilon": 8.0, "bits": 1000, "hashes": 10, **changed})
    before = Interactions(users, items, np.ones(users.size))
    return blip.release(before, users=range(len(profiles)), source=source)


def uneven(seed, users=400, groups=8, catalogue=1600):
    """Profiles of 10 to 500 items, few of them large; four in five items are of a group's own."""
    draws = np.random.default_rng(seed)
    sizes = np.clip(10 * (1 + draws.pareto(0.8, users)), 10, 500).astype(int)
    own = catalogue // groups
    for user, size in enumerate(sizes):
        liked = np.full(catalogue, 0.2 / catalogue)
        liked[own * (user % groups) : own * (user % groups + 1)] += 0.8 / own
        yield draws.choice(catalogue, size, replace=False, p=liked)


def plain(here, there, metric):
    """What ranks pairs, by the formula: from unpacked bits, with NumPy alone."""
    bits, hashes = here.bits, here.hashes
    p, q = (float(each.flip_probability) for each in (here, there))
    left, right = (
        np.unpackbits(each.words.view(np.uint8), axis=1, bitorder="little")[:, :bits].astype(int)
        for each in (here, there)
    )
    ones, others, common = left.sum(axis=1)[:, None], right.sum(axis=1), left @ right.T
    steep = -1 / (hashes * np.log1p(-1 / bits))  # items for each bit of an empty filter, in shares
    empty = (bits * (1 - p) - ones) * (1 - q) - (1 - p) * others + common
    empty = np.maximum(empty / (bits * (1 - 2 * p) * (1 - 2 * q)), 0.5 / bits)

    def side(ones, flip, error):
        free = np.maximum(1 - (ones / bits - flip) / (1 - 2 * flip), 0.5 / bits)
        size = -steep * np.log(free)
        return np.minimum(free, 1.0), size, np.maximum(size, np.maximum(error, 1.0))

    errors = [np.sqrt(each._size_variance()) for each in (here, there)]
    a, m, left_size = side(ones, p, errors[0][:, None])
    b, n, right_size = side(others, q, errors[1])
    inner = m + n + steep * np.log(empty)
    v, w = (x * (1 - x) / (1 - 2 * x) ** 2 for x in (p, q))
    f, g, h = steep / a, steep / b, steep / empty
    variance = v * (f**2 + b * h * (h - 2 * f)) + w * (g**2 + a * h * (h - 2 * g)) + v * w * h**2
    root = np.sqrt(left_size * right_size)
    cosine = inner / (root + variance / bits / (PRIOR * root))
    if metric == "cosine":
        return cosine
    common = cosine * root
    union = np.maximum(left_size + right_size - common, np.maximum(left_size, right_size))
    return inner if metric == "inner" else common / union


@pytest.mark.parametrize("metric", ["cosine", "jaccard", "inner"])
@pytest.mark.parametrize(("epsilon", "other"), [(4.0, 4.0), (30.0, 7.0), (40.0, 40.0)])
def test_the_order_is_that_of_the_formula_and_similarities_are_debiased(metric, epsilon, other):
    profiles = [*uneven(3, users=90), *[np.empty(0)] * 3, np.arange(5000)]
    here = released(profiles, InsecureSeededSource(1), epsilon=epsilon)
    there = here
    if other != epsilon:
        there = released(profiles, InsecureSeededSource(2), epsilon=other)
    scores = plain(here, there, metric)
    assert np.isfinite(scores).all()
    np.fill_diagonal(scores, -np.inf)  # nobody is their own neighbour
    expected = np.argsort(-scores, axis=1, kind="stable")
    found, near = here.nearest(range(94), 100, metric=metric, among=there)
    np.testing.assert_array_equal(found[:, :93], expected[:, :93])
    result = here.similarity(there, metric=metric)
    np.testing.assert_array_equal(near[:, :93], np.take_along_axis(result, expected[:, :93], 1))
    assert (near[:, 93:] == -np.inf).all()
    assert (metric == "inner") == (np.diff(near[:, :93]) <= 0).all()  # others need not fall


def of_ideal(profiles, positions, metric):
    """How similar these neighbours truly are on average, over those who are nearest."""
    before = np.zeros((len(profiles), 1 + max(each.max() for each in profiles)))
    for user, items in enumerate(profiles):
        before[user, items] = 1
    sizes, common = before.sum(axis=1), before @ before.T
    if metric == "cosine":
        true = common / np.sqrt(np.outer(sizes, sizes))
    else:
        true = common / (sizes[:, None] + sizes - common)
    np.fill_diagonal(true, -1)
    ideal = -np.sort(-true, axis=1)[:, : positions.shape[1]]
    return np.take_along_axis(true, positions, 1).mean() / ideal.mean()


def compared(seed, epsilon, metric):
    """Quality of the neighbours returned, and of those with the largest estimates."""
    profiles = list(uneven(seed))
    source = InsecureSeededSource(seed)
    private_release = released(profiles, source, bits=5000, hashes=20, epsilon=epsilon)
    estimates = private_release.similarity(metric=metric)
    np.fill_diagonal(estimates, -np.inf)
    largest = np.argsort(-estimates, axis=1, kind="stable")[:, :10]
    found, _ = private_release.nearest_rows(range(len(profiles)), metric=metric)
    return tuple(of_ideal(profiles, positions, metric) for positions in (found, largest))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("metric", "margin"), [("cosine", 1.6), ("jaccard", 1.05)])
def test_at_low_epsilon_neighbours_are_truly_nearer_than_by_estimates(seed, metric, margin):
    # With 20 other seeds 1.74 to 2.71 times as near (cosine), 1.10 to 1.27 times (jaccard).
    found, largest = compared(seed, 8.0, metric)
    assert found > margin * largest


@pytest.mark.parametrize("metric", ["cosine", "jaccard"])
def test_at_high_epsilon_nothing_is_lost(metric):
    found, largest = compared(0, 60.0, metric)
    assert found > largest - 0.005
    assert found > 0.9


@pytest.mark.parametrize("metric", ["cosine", "jaccard", "inner"])
def test_rows_that_are_passed_over_would_not_have_ranked(metric):
    # 2,100 rows are in two blocks; most of them are passed over by their bits in common alone.
    draws = np.random.default_rng(4)
    profiles = [draws.integers(0, 100, size) for size in draws.integers(1, 40, 2100)]
    here, there = (
        released(each, InsecureSeededSource(5), bits=200, hashes=2)
        for each in (profiles[:7], profiles)
    )
    scores = plain(here, there, metric)
    scores[range(7), range(7)] = -np.inf
    found, _ = here.nearest(range(7), 25, metric=metric, among=there)
    ranks = np.take_along_axis(scores, found, 1)
    np.testing.assert_allclose(ranks, -np.sort(-scores, axis=1)[:, :25], rtol=1e-9)


def test_equal_neighbours_come_in_the_order_of_their_rows():
    # Without flips, equal profiles have equal filters.
    profiles = [np.arange(30), np.arange(20, 60), np.arange(30), np.arange(90, 99)] * 9
    private_release = released(profiles, Nothing())
    whole = {
        each: private_release.nearest_rows(range(36), 20, metric=each)
        for each in ("cosine", "jaccard")
    }
    same = [np.setdiff1d(np.arange(0, 36, 2), [row]).tolist() for row in (0, 34)]
    for metric, (found, near) in whole.items():
        assert found[[0, 34], :17].tolist() == same
        few, _ = private_release.nearest_rows(range(36), 5, metric=metric)
        np.testing.assert_array_equal(few, found[:, :5])  # the last of equal ones too
        assert (near[0, :17] == near[0, 0]).all()
        assert not (found == np.arange(36)[:, None]).any()  # nobody is their own neighbour


@pytest.mark.parametrize("metric", ["cosine", "jaccard", "inner"])
@pytest.mark.parametrize(("bits", "hashes"), [(8, 64), (64, 1)])
@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 4000.0])
def test_everybody_is_ranked_however_full_or_noisy_filters_are(metric, bits, hashes, epsilon):
    profiles = [np.arange(500), np.empty(0), np.arange(3), np.arange(400, 900)]
    private_release = released(
        profiles, InsecureSeededSource(5), bits=bits, hashes=hashes, epsilon=epsilon
    )
    found, near = private_release.nearest_rows(range(4), 3, metric=metric)
    assert np.isfinite(near).all()
    assert np.sort(found, axis=1).tolist() == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]
