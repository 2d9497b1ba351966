"""Packages: equal to the best of all sets by brute force, and refused where there is none."""

from itertools import combinations, product

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.recommend import recommend_package
from support.recommender_contract import random_world

KINDS = np.array([None, "hotel", "museum", "meal"], object)


def brute_force(scores, kinds, sizes, costs, budget):
    """The best total score over all packages."""
    choices = [
        [
            (sum(scores[i] for i in chosen), sum(costs[i] for i in chosen))
            for chosen in combinations(np.flatnonzero(kinds == kind), size)
        ]
        for kind, size in sizes.items()
    ]
    totals = [
        sum(score for score, _ in package)
        for package in product(*choices)
        if sum(cost for _, cost in package) <= budget + 1e-9
    ]
    return max(totals, default=-np.inf)


@pytest.mark.parametrize("integral", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_the_package_is_the_best_of_all(seed, integral):
    rng = np.random.default_rng(seed)
    model = random_world(users=6, items=18, factors=4, seed=seed)
    kinds = KINDS[rng.integers(0, 4, 18)]
    sizes = {"museum": 2, "hotel": 1, "meal": int(rng.integers(1, 4))}
    for kind, size in sizes.items():
        kinds[rng.permutation(18)[: 2 * size]] = kind
    missing = [kind for kind, size in sizes.items() if (kinds == kind).sum() < size]
    if missing:
        pytest.skip("the draw has too few items of a kind")
    costs = rng.integers(0, 30, 18) if integral else rng.uniform(0, 30, 18).round(2)
    least = sum(np.sort(costs[kinds == kind])[:size].sum() for kind, size in sizes.items())
    budget = least + float(rng.integers(0, 40))
    items, scores = recommend_package(model, np.arange(6), kinds, sizes, costs=costs, budget=budget)
    for user in range(6):
        own = model._uncut(np.full(18, user), np.arange(18))
        assert scores[user] == pytest.approx(brute_force(own, kinds, sizes, costs, budget))
        assert own[items[user]].sum() == pytest.approx(scores[user])
        assert costs[items[user]].sum() <= budget + 1e-6
        assert [*kinds[items[user]]] == [kind for kind, size in sizes.items() for _ in range(size)]
        assert len({*items[user].tolist()}) == items.shape[1]


def test_without_costs_it_is_the_best_of_each_kind():
    model = random_world(users=3, items=30, factors=4)
    kinds = np.array(["a", "b", "c"] * 10, object)
    items, scores = recommend_package(model, np.arange(3), kinds, {"c": 3, "a": 1})
    own = model._uncut(np.zeros(30, np.int64), np.arange(30))
    of_c, of_a = (np.flatnonzero(kinds == kind) for kind in "ca")
    best = [*of_c[np.argsort(-own[of_c])[:3]], of_a[own[of_a].argmax()]]
    assert items[0].tolist() == best
    assert scores[0] == pytest.approx(own[best].sum())
    one, total = recommend_package(model, 0, kinds, {"c": 3, "a": 1})
    assert one.tolist() == best
    assert total == scores[0]


def test_excluded_and_filtered_items_are_in_no_package():
    model = random_world(users=3, items=12, factors=4)
    kinds = {at: "a" if at < 6 else "b" for at in range(12)}
    items, _ = recommend_package(model, 0, kinds, {"a": 2, "b": 1})
    mask = np.ones(12, bool)
    mask[items[2]] = False
    rated = Interactions([0], [items[0]])
    other, _ = recommend_package(model, 0, kinds, {"a": 2, "b": 1}, exclude=rated, filter=mask)
    assert items[0] not in other
    assert items[2] not in other


def test_where_no_package_exists_a_sentence_says_why():
    model = random_world(users=2, items=6, factors=4)
    kinds, costs = ["a", "a", "b", "b", "b", None], [5, 6, 7, 8, 9, 1]
    with pytest.raises(ValueError, match="3 items of kind 'a' are wanted, and there are 2"):
        recommend_package(model, 0, kinds, {"a": 3})
    with pytest.raises(ValueError, match="the cheapest costs 20; enlarge the budget"):
        recommend_package(model, 0, kinds, {"a": 1, "b": 2}, costs=costs, budget=19.9)
    taken = Interactions([0, 0], [2, 3])
    with pytest.raises(ValueError, match="no package for this user; enlarge the budget"):
        recommend_package(model, 0, kinds, {"a": 1, "b": 2}, costs=costs, budget=30, exclude=taken)
    items, scores = recommend_package(
        model, [0, 1], kinds, {"a": 1, "b": 2}, costs=costs, budget=30, exclude=taken
    )
    assert items[0].tolist() == [-1] * 3
    assert np.isneginf(scores[0])
    assert np.isfinite(scores[1])


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("kinds", ["a"], "kinds must be a mapping, or a sequence of 6 values"),
        ("sizes", {}, "sizes must be a mapping of kinds to numbers"),
        ("sizes", {"a": 0}, "sizes of 'a' must be an integer"),
        ("costs", [1, 2, 3, 4, 5, -6], "costs must be finite numbers from 0 up"),
        ("costs", {0: 1}, "costs must be given for all items of kind 'a'"),
        ("budget", -1, "budget must be a number from 0 up"),
    ],
)
def test_invalid_arguments_are_refused(name, value, sentence):
    given = {"kinds": ["a"] * 6, "sizes": {"a": 2}, name: value}
    with pytest.raises(ValueError, match=sentence):
        recommend_package(random_world(users=2, items=6, factors=4), 0, **given)


def test_real_costs_that_leave_too_many_selections_are_refused(monkeypatch):
    monkeypatch.setattr("sfumato.recommend.packages.STATES", 100)
    model = random_world(users=1, items=40, factors=4)
    own = model._uncut(np.zeros(40, np.int64), np.arange(40))
    costs = own - own.min()  # no item undercuts a better one
    with pytest.raises(ValueError, match="round costs to integers"):
        recommend_package(model, 0, ["a"] * 40, {"a": 6}, costs=costs, budget=1e4)
