"""An index of items answers as its model does, from fewer scores, and never of another state."""

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.recommend import DenseFactorization, ItemIndex, StaleIndexError, item_index
from sfumato.recommend.item_index import LIMITS
from support.recommender_contract import MODELS, TRAIN, Known, learned, random_world

# Everything is found: a short-list of all items, or both sides of a plane.
WHOLE = [
    {"kind": "codes", "bits": 16, "shortlist": 10**6},
    {"kind": "bands", "bits": 1, "bands": 1, "probes": 2},
]
FEW = [{"kind": "codes", "bits": 32, "shortlist": 30}, {"kind": "bands", "bits": 3, "probes": 1}]


def same(left, right):
    return all(
        np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(left, right, strict=True)
    )


def observed(model, users, fraction, seed=0):
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(users * len(model.catalogue_))
    who, what = np.divmod(pairs[: int(fraction * pairs.size)], len(model.catalogue_))
    return Interactions(who, model.catalogue_.ids[what], np.ones(who.size))


@pytest.mark.parametrize("options", WHOLE)
@pytest.mark.parametrize("make", [makers[0] for makers in MODELS.values()])
def test_an_index_that_finds_all_answers_as_every_model_does(make, options):
    model = learned(make)
    index = model.index(**options)
    for n in (1, 7, 100):
        assert same(index.recommend([3, 5, 4], n), model.recommend([3, 5, 4], n))
        assert same(index.recommend(3, n), model.recommend(3, n))
    only = np.arange(len(model.catalogue_)) % 3 > 0
    given = {"exclude": TRAIN, "filter": only}
    assert same(index.recommend([3, 5, 4], 9, **given), model.recommend([3, 5, 4], 9, **given))
    assert index.recall([3, 5, 4]) == 1
    assert index.statement == model.statement


@pytest.mark.parametrize("options", WHOLE + FEW)
def test_scores_are_exact_and_what_is_excluded_stays_out(options):
    model = random_world(40, 500, 8)
    index = model.index(**options)
    rated, allowed = observed(model, 40, 0.4), np.arange(500) % 5 > 0
    items, scores = index.recommend(range(40), 6, exclude=rated, filter=allowed)
    found = scores > -np.inf
    assert (allowed[items] | ~found).all()
    pairs = set(zip(rated.users.tolist(), rated.items.tolist(), strict=True))
    assert not any((u, i) in pairs for u in range(40) for i in items[u][found[u]].tolist())
    exact = model.users_[:, :-1] @ model.items_[:, :-1].T + model.items_[:, -1] + 3
    exact += model.users_[:, -1:]
    assert scores[found] == pytest.approx(np.take_along_axis(exact, items, 1)[found], abs=1e-5)


def test_excluded_items_take_no_slot_of_the_short_list():
    # Whoever excludes the best 300 of 500 items still gets what a short-list of the others gives.
    model = random_world(20, 500, 8)
    index = model.index(bits=256, shortlist=40)
    best = model.recommend(range(20), 300)[0]
    rated = Interactions(np.repeat(np.arange(20), 300), best.reshape(-1), np.ones(best.size))
    assert index.recall(range(20), 10, exclude=rated) >= 0.8
    scores = index.recommend(range(20), 40, exclude=rated)[1]
    assert (scores > -np.inf).all()


@pytest.mark.parametrize("options", FEW)
def test_a_list_does_not_depend_on_the_other_users_of_the_call(options):
    model = random_world(30, 400, 8)
    rated = observed(model, 30, 0.1)
    index = model.index(**options)
    items, scores = index.recommend(range(30), 5, exclude=rated)
    for user in range(30):
        alone = index.recommend([user], 5, exclude=rated)
        assert same(alone, (items[user : user + 1], scores[user : user + 1]))


@pytest.mark.parametrize("options", FEW)
def test_users_are_processed_in_batches(options, monkeypatch):
    model = random_world(30, 400, 8)
    rated, index = observed(model, 30, 0.1), model.index(**options)
    full, touched = index.recommend(range(30), 5, exclude=rated), index.touched(range(30))
    monkeypatch.setattr(item_index, "ROOM", 20)  # four users at a time, or one
    assert same(index.recommend(range(30), 5, exclude=rated), full)
    assert index.touched(range(30)) == pytest.approx(touched)


def test_most_answers_are_found_with_the_defaults():
    # Measured on ten seeds: codes 1.00, bands from 0.97 on.
    model = random_world(50, 20_000, 16)
    codes, bands = model.index(), model.index("bands")
    assert codes.recall(range(50)) >= 0.98
    assert codes.touched(range(50)) == 1
    assert bands.recall(range(50)) >= 0.9
    assert bands.touched(range(50)) < 0.5
    assert codes.nbytes > model.items_.nbytes
    assert bands.nbytes > model.items_.nbytes


def test_recall_is_the_share_of_the_models_own_answers():
    model = random_world(30, 400, 8)
    index = model.index(bits=16, shortlist=12)
    true, mine = (each.recommend(range(30), 10)[0] for each in (model, index))
    fraction = np.mean([np.isin(true[u], mine[u]).mean() for u in range(30)])
    assert index.recall(range(30), 10) == pytest.approx(fraction)
    assert 0.1 < fraction < 1


def test_texts_are_ids_like_any_other():
    model = random_world(10, 60, 4)
    named = Known.of(model.users_, model.items_, [f"film {i}" for i in range(60)])
    for options in WHOLE:
        assert same(named.index(**options).recommend([1, 2], 70), named.recommend([1, 2], 70))


def test_a_stale_index_says_so_and_refuses():
    model = DenseFactorization(factors=4, epochs=3).fit(TRAIN)
    index = model.index(bits=16)
    assert not index.stale
    model.recommend(1)  # asking changes nothing
    assert not index.stale
    model.partial_fit(TRAIN)
    assert index.stale
    for ask in (index.recommend, index.recall, index.touched):
        with pytest.raises(StaleIndexError, match="call index again"):
            ask([1])
    assert not model.index(bits=16).stale


def test_unknown_users_and_no_users_are_answered():
    model = random_world(10, 60, 4)
    for options in WHOLE:
        index = model.index(**options)
        assert same(index.recommend([99], 3), model.recommend([99], 3))
        assert index.recommend([], 3)[0].shape == (0, 3)


def test_bad_parameters_are_refused():
    model = random_world(5, 20, 4)
    for name, limit in LIMITS.items():
        for value in limit.bad():
            with pytest.raises(ValueError, match=f"ItemIndex: {name} must be"):
                ItemIndex(model, **{name: value})
    with pytest.raises(ValueError, match="at most 64"):
        model.index("bands", bits=65)
    with pytest.raises(ValueError, match="not fitted"):
        DenseFactorization().index()
    for bad in ({"n": 0}, {"filter": [True]}):
        with pytest.raises(ValueError, match="Known: "):
            model.index().recommend([1], **bad)


def test_few_items_of_great_length_are_found_whatever_their_direction():
    # 40 items as popular as no other differ only in how much; codes alone would not show which.
    rng = np.random.default_rng(4)
    items = rng.normal(0, 0.05, (8000, 9))
    items[:40, -1] = rng.permutation(np.linspace(3, 4, 40))
    model = Known.of(rng.normal(0, 0.1, (30, 9)), items)
    index = model.index("codes", bits=32, shortlist=10)
    assert index.recall(range(30)) == 1
    rated = observed(model, 30, 0.2)
    assert same(
        index.recommend(range(30), 5, exclude=rated, filter=np.arange(8000) != 7),
        model.recommend(range(30), 5, exclude=rated, filter=np.arange(8000) != 7),
    )
