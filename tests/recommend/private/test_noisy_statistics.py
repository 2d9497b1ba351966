"""Noisy sums: no neighbour moves the integers further than the noise was made for."""

from fractions import Fraction

import numpy as np
import pytest

from sfumato.recommend.private import noisy_statistics
from sfumato.recommend.private.inputs import Budget, Events
from sfumato.recommend.private.noisy_statistics import NoisySums, on_grid

USERS, ITEMS = 6, 5
HALF = Fraction(1, 2)
BUDGET = Budget.of(2, 1e-6)


class Recorder:
    """What took noise: the cells before it, and the squared norm that the noise was made for."""

    def __init__(self, monkeypatch):
        self.cells, self.norms, self.sigmas = [], [], []
        monkeypatch.setattr(noisy_statistics, "add_gaussian", self._add)
        sigma = Budget.sigma

        def noting(budget, norm_squared, fraction):
            self.norms.append(norm_squared)
            return sigma(budget, norm_squared, fraction)

        monkeypatch.setattr(Budget, "sigma", noting)

    def _add(self, cells, sigma, *, source=None):
        self.cells.append(cells.copy())
        self.sigmas.append(sigma)

    def last(self):
        return self.cells[-1].astype(object), self.norms[-1]


def events(seed, extreme):
    """Ratings inside the bounds, or at them; some pairs occur twice."""
    rng = np.random.default_rng(seed)
    ratings = rng.integers(-4096, 4097, 40)
    if extreme:
        ratings = np.where(ratings < 0, -4096, 4096)
    users, items = rng.integers(0, USERS, 40), rng.integers(0, ITEMS, 40)
    sizes = {"users": USERS, "items": ITEMS}
    return Events(users.astype(np.int32), items.astype(np.int32), ratings, sizes)


def without(all_of_them, rows):
    keep = np.setdiff1d(np.arange(all_of_them.users.size), rows)
    parts = (all_of_them.users, all_of_them.items, all_of_them.ratings)
    return Events(*(part[keep] for part in parts), all_of_them.sizes)


def distance(one, other):
    return sum((one - other) ** 2)


def measured(data, side, seed, width, most=1, length=1.7):
    """One step against public numbers of every size, among them zeros and far too long vectors."""
    rng = np.random.default_rng(seed)
    sizes = {"users": USERS, "items": ITEMS}
    other = "items" if side == "users" else "users"
    own = rng.normal(0, 0.5, (sizes[side], 1 + width))
    others = rng.normal(0, 0.5, (sizes[other], 1 + width))
    long = np.array([0, 1e-3, 1, 2, 30, 1e6])[: sizes[other], None]
    vectors = rng.normal(0, 1, (sizes[other], width)) * long
    sums = NoisySums(data, BUDGET, most)
    return sums.measure(side, own, others, vectors, HALF, length=length, counted=seed % 2 == 0)


@pytest.mark.parametrize("side", ["users", "items"])
@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize("width", [0, 1, 7])
def test_one_event_moves_a_step_by_at_most_the_stated_norm(monkeypatch, side, extreme, width):
    observed, nearest = Recorder(monkeypatch), 0.0
    for seed in range(4):
        data = events(seed, extreme)
        measured(data, side, seed, width)
        full, norm = observed.last()
        for row in range(40):
            measured(without(data, [row]), side, seed, width)
            part, same = observed.last()
            assert same == norm
            assert distance(full, part) <= norm
            nearest = max(nearest, distance(full, part) / norm)
    if extreme and width > 1:
        assert nearest > 0.9  # or the noise would be larger than it need be


def test_one_event_moves_the_total_by_at_most_the_stated_norm(monkeypatch):
    observed, data = Recorder(monkeypatch), events(0, True)
    NoisySums(data, BUDGET).total(HALF)
    full, norm = observed.last()
    for row in range(40):
        NoisySums(without(data, [row]), BUDGET).total(HALF)
        assert distance(full, observed.last()[0]) <= norm


def test_a_user_of_different_items_moves_items_by_at_most_the_stated_norm(monkeypatch):
    # Every user rated all items once, at a bound; the users' own numbers stay as they are.
    observed = Recorder(monkeypatch)
    users, items = np.divmod(np.arange(USERS * ITEMS), ITEMS)
    ratings = np.where(users % 2, 4096, -4096).astype(np.int64)
    sizes = {"users": USERS, "items": ITEMS}
    data = Events(users.astype(np.int32), items.astype(np.int32), ratings, sizes)
    for seed in range(4):
        for user in range(USERS):
            norms = []
            for each in (data, without(data, np.flatnonzero(users == user))):
                measured(each, "items", seed, 3, most=ITEMS)
                norms.append(observed.last())
                NoisySums(each, BUDGET, ITEMS).total(HALF)
                norms.append(observed.last())
            for (full, norm), (part, _) in (norms[::2], norms[1::2]):
                assert distance(full, part) <= norm


def test_the_noise_is_that_of_the_norm_and_the_share(monkeypatch):
    observed = Recorder(monkeypatch)
    measured(events(0, False), "users", 0, 2)
    norm = observed.norms[-1]
    assert observed.sigmas[-1] == BUDGET.sigma(norm, HALF)
    assert observed.sigmas[-1] ** 2 * BUDGET.precision * 0.5 >= norm


def test_a_step_tells_sums_in_units_of_ratings(monkeypatch):
    Recorder(monkeypatch)  # and so without noise
    data = events(1, False)
    vectors = np.full((ITEMS, 1), 0.5)
    zeros = np.zeros((USERS, 1)), np.zeros((ITEMS, 1))
    result = NoisySums(data, BUDGET).measure("users", *zeros, vectors, HALF, length=2, counted=True)
    ratings = data.ratings / 4096
    want = np.bincount(data.users, np.clip(ratings, -0.75, 0.75), minlength=USERS)
    np.testing.assert_allclose(result.sums[:, 0], want)
    longer = np.bincount(data.users, ratings / 2, minlength=USERS)
    np.testing.assert_allclose(result.sums[:, 1], longer)
    np.testing.assert_allclose(result.counts, np.bincount(data.users, minlength=USERS))
    assert result.energy == pytest.approx((np.clip(ratings, -0.75, 0.75) ** 2).sum(), abs=0.02)


def test_fractions_beyond_the_budget_are_refused():
    sums = NoisySums(events(0, False), BUDGET)
    sums.total(Fraction(3, 4))
    with pytest.raises(ValueError, match="sum to more than 1"):
        sums.total(Fraction(1, 3))


def test_noise_that_would_leave_64_bits_is_refused_before_it_is_drawn():
    with pytest.raises(ValueError, match="epsilon must be larger"):
        NoisySums(events(0, False), Budget.of(1e-3, 1e-6), most=100_000)


def test_numbers_beyond_the_grid_are_cut_to_it():
    got = on_grid(np.array([np.nan, np.inf, -1e30, 0.6, -0.6]), 2)
    np.testing.assert_array_equal(got, [0, 2**22, -(2**22), 1, -1])
