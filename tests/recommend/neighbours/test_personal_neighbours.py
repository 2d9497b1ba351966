"""Personal neighbours: the formula by hand, nothing of others stored, guarantees as they are."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest

from sfumato.data import Interactions, generate_world
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.recommend import (
    DenseFactorization,
    NotFittedError,
    PersonalNeighbours,
    PrivateFactorization,
    PrivateLinearItems,
    PrivateNeighbours,
)
from sfumato.recommend.private import noisy_statistics
from sfumato.recommend.private.neighbours import CountSensitivity, Shape

ITEMS = np.arange(40) + 1000
ROWS = generate_world(users=300, items=40, ratings=6000, random_state=1).interactions
NAMED = Interactions([f"secret-{u}" for u in ROWS.users], ROWS.items + 1000, ROWS.ratings)
USERS = [f"secret-{u}" for u in range(300)]
# Users of two groups, each with items of its own, so that pairs stand out of the noise.
GROUPS = Interactions(
    np.repeat(np.arange(3000), 6),
    np.concatenate([1000 + u % 2 * 20 + (u + np.arange(6) * 3) % 20 for u in range(3000)]),
    np.ones(18000),
)


def private(train=NAMED, catalogue=ITEMS, **options):
    model = PrivateFactorization(
        **{"epsilon": 50.0, "delta": 1e-6, "bounds": (1, 5), "covers": "joint", **options}
    )
    users = None if "rows" in options else USERS
    return model.fit(train, catalogue=catalogue, users=users, source=InsecureSeededSource(1))


MEANS = private()
LINEAR = PrivateLinearItems(epsilon=50.0, delta=1e-6)
LINEAR = LINEAR.fit(GROUPS, catalogue=ITEMS, source=InsecureSeededSource(2)).release_
PAIRS = PrivateNeighbours(epsilon=50.0, per_user=6, neighbours=9)
PAIRS = PAIRS.fit(GROUPS, catalogue=ITEMS[5:], source=InsecureSeededSource(3)).release_
OWN, RATED = ITEMS[[3, 8, 21, 30]], np.array([5.0, 1.0, 4.0, 2.0])


def by_hand(means, similar, own, ratings, neighbours, damping):
    """The formula of the docstring, in plain loops over ids."""
    items, biases = means.catalogue_.ids.tolist(), means.item_vectors_[:, -1].tolist()
    bias = dict(zip(items, biases, strict=True))
    over = {j: r - means.mean_ - bias[j] for j, r in zip(own.tolist(), ratings, strict=True)}
    mine = sum(over.values()) / (len(over) + means.residual_ / means.user_bias_)
    predicted = []
    for i in items:
        top = bottom = 0.0
        for j, left in over.items():
            if similar.catalogue_.positions([j])[0] >= 0:
                ids, near = similar.similar_items(j, neighbours)
                for other, s in zip(ids.tolist(), near.tolist(), strict=True):
                    if other == i and s > 0:
                        top += s * (left - mine)
                        bottom += s
        added = top / (damping + bottom) if bottom else 0.0
        predicted.append(means.mean_ + bias[i] + mine + added)
    return np.array(predicted)


@pytest.mark.parametrize("similar", [LINEAR, PAIRS])
@pytest.mark.parametrize(("neighbours", "damping"), [(50, 1.0), (7, 0.0)])
def test_predictions_are_what_the_formula_says(similar, neighbours, damping):
    model = PersonalNeighbours(MEANS, similar, neighbours=neighbours, damping=damping)
    want = by_hand(MEANS, similar, OWN, RATED, neighbours, damping)
    got = model.predict_fold_in(OWN, RATED, ITEMS)
    np.testing.assert_allclose(got, np.clip(want, 1, 5), rtol=1e-5)
    alone = MEANS.mean_ + MEANS.item_vectors_[:, -1]
    assert np.ptp(want - alone) > 0.01  # neighbours add something
    items, scores = model.recommend_fold_in(OWN, RATED, n=100)
    assert set(items.tolist()) == set(ITEMS.tolist()) - set(OWN.tolist())
    np.testing.assert_allclose(scores, want[items - 1000], rtol=1e-5)
    assert (np.diff(scores) <= 0).all()


def test_without_ratings_or_neighbours_means_remain():
    model = PersonalNeighbours(MEANS, LINEAR)
    alone = np.clip(MEANS.mean_ + MEANS.item_vectors_[:, -1].astype(float), 1, 5)
    np.testing.assert_allclose(model.predict_fold_in([], [], ITEMS), alone)
    np.testing.assert_allclose(model.predict_fold_in([7], [5.0], ITEMS), alone)  # no such item
    assert model.predict_fold_in([], [], [7])[0] == pytest.approx(MEANS.mean_)
    assert model.predict_fold_in(OWN, [9.0] * 4, [7]) == model.predict_fold_in(OWN, None, [7])
    few = ITEMS < 1010
    assert set(model.recommend_fold_in([], n=40, filter=few)[0].tolist()) == set(ITEMS[few])


def test_texts_as_ids_give_the_same_predictions():
    names = [f"item {item}" for item in ITEMS]
    rows = Interactions(NAMED.users, [f"item {item}" for item in NAMED.items], NAMED.ratings)
    groups = Interactions(GROUPS.users, [f"item {item}" for item in GROUPS.items], GROUPS.ratings)
    lists = PrivateLinearItems(epsilon=50.0, delta=1e-6)
    lists.fit(groups, catalogue=names, source=InsecureSeededSource(2))
    model = PersonalNeighbours(private(rows, names), lists.release_)
    got = model.predict_fold_in([f"item {item}" for item in OWN], RATED, names)
    want = PersonalNeighbours(MEANS, LINEAR).predict_fold_in(OWN, RATED, ITEMS)
    np.testing.assert_allclose(got, want)
    quiet = PrivateLinearItems(epsilon=0.01, delta=1e-6).fit(groups, catalogue=names).release_
    alone = PersonalNeighbours(private(rows, names), quiet)  # which has no similar items
    assert not alone._weights.any()
    assert alone.recommend_fold_in(names[:2], n=50)[0].size == ITEMS.size - 2


def test_similar_items_foretell_what_means_cannot():
    # Everybody likes the items of one group only, so that all items have about equal means, of
    # RMSE 1.07. At the seeds 2 to 6 of the noise on similarities it was 0.855 to 0.859.
    rng = np.random.default_rng(4)
    users, items = np.divmod(rng.permutation(300 * 40), 40)
    ratings = np.where(items // 20 == users % 2, 4.0, 2.0) + rng.integers(0, 2, users.size)
    rows = Interactions([f"secret-{u}" for u in users], ITEMS[items], ratings)
    train, test = rows.filter(np.arange(4000)), rows.filter(np.arange(4000, 6000))
    errors = []
    for damping in (1.0, 1e9):
        model = PersonalNeighbours(private(train), LINEAR, damping=damping)
        missed = [np.empty(0)]
        for user in np.unique(test.users)[:100]:
            own, here = train.users == user, test.users == user
            got = model.predict_fold_in(train.items[own], train.ratings[own], test.items[here])
            missed.append(got - test.ratings[here])
        errors.append(float(np.sqrt(np.mean(np.concatenate(missed) ** 2))))
    assert errors[0] < 0.9 < 1.05 < errors[1]


def test_no_user_is_stored_and_nothing_changes_by_a_call():
    listed = private(covers="file", catalogue=ITEMS, rows=64)
    for means in (MEANS, listed):
        model = PersonalNeighbours(means, LINEAR)
        model.recommend_fold_in(ITEMS[:2])  # the catalogue sorts its ids once
        before = pickle.dumps(model)
        model.predict_fold_in(OWN, RATED, ITEMS)
        model.recommend_fold_in(OWN, RATED)
        assert pickle.dumps(model) == before
        assert b"secret-" not in before
        held = [value for value in vars(model).values() if isinstance(value, np.ndarray)]
        assert all(len(array) == ITEMS.size for array in held)  # rows of items, none of users
        assert model.nbytes == sum(array.nbytes for array in held)


def test_statements_are_those_of_the_releases_and_none_is_invented():
    both = PersonalNeighbours(MEANS, LINEAR)
    assert both.statements == (MEANS.statement, LINEAR.statement)
    assert not hasattr(both, "statement")
    assert both.privacy_label == "none"  # the noise of these tests has a seed
    secure = PrivateFactorization(epsilon=4.0, delta=1e-6, bounds=(1, 5), covers="joint")
    secure.fit(NAMED, catalogue=ITEMS, users=USERS)
    lists = PrivateLinearItems(epsilon=50.0, delta=1e-6).fit(GROUPS, catalogue=ITEMS).release_
    assert PersonalNeighbours(secure, lists).privacy_label == "proved"
    assert PersonalNeighbours(secure, LINEAR).privacy_label == "none"
    secure._statement = replace(secure.statement, proof="measured")
    assert PersonalNeighbours(secure, lists).privacy_label == "measured"
    assert "privacy='none'" in repr(both)


NEIGHBOURS = {
    "without a user": ROWS.filter(ROWS.users != 3),
    "without a rating": ROWS.filter(np.arange(1, len(ROWS))),
    "a user who rated everything": Interactions(
        np.append(ROWS.users, [299] * 40), np.append(ROWS.items, range(40)), [5] * (len(ROWS) + 40)
    ),
    "nobody": Interactions([], [], []),
    "ids and ratings of nowhere": Interactions([10**9], [10**9], [1e300]),
    "another order and times": Interactions(
        ROWS.users[::-1], ROWS.items[::-1], ROWS.ratings[::-1], np.arange(len(ROWS))
    ),
}


@pytest.mark.parametrize("pairs", ["linear", "user", "event"])
@pytest.mark.parametrize("unit", ["event", "user"])
def test_noisy_sums_are_all_that_worlds_differ_in(monkeypatch, unit, pairs):
    # The attacker sees the same noisy sums in every world; then all else must be the same too.
    def published(train):
        sums = np.random.default_rng(6)

        def drowned(cells, scale, *, source=None):
            cells[:] = sums.integers(-5, 40, cells.size) * 2**18

        monkeypatch.setattr(noisy_statistics, "add_gaussian", drowned)
        monkeypatch.setattr(noise, "add_gaussian", drowned)
        monkeypatch.setattr(noise, "add_laplace", drowned)
        means = PrivateFactorization(
            epsilon=2, delta=1e-6, bounds=(1, 5), unit=unit, covers="joint"
        ).set_params(per_user=9 if unit == "user" else None)
        means.fit(train, catalogue=range(40), users=range(300) if unit == "event" else None)
        lists = PrivateLinearItems(epsilon=2, delta=1e-6)
        if pairs != "linear":
            lists = PrivateNeighbours(epsilon=2, per_user=5, unit=pairs)
        model = PersonalNeighbours(means, lists.fit(train, catalogue=range(40)).release_)
        answers = model.predict_fold_in([3, 8], [5, 1], range(40)), *model.recommend_fold_in([3])
        parts = repr(model), model.statements, model.nbytes, model._own_damping
        return *parts, *(each.tobytes() for each in (*answers, model._lists, model._weights))

    want = published(ROWS)
    for name, train in NEIGHBOURS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert published(train) == want, name


def test_a_release_for_users_may_cost_more_for_a_row():
    # Why statements of two units do not simply add up: a row may move another one into the sample
    # of two, which changes more than a whole user does; twice a user is always enough.
    shape = Shape(items=9, weight=1, width=36, depth=1, seed=0, sketched=False)
    user, event = (CountSensitivity.by(unit, "add/remove", 2) for unit in ("user", "event"))
    assert user.l1(shape) < event.l1(shape) <= 2 * user.l1(shape)


def test_an_item_that_is_there_twice_has_the_mean_of_its_ratings():
    model = PersonalNeighbours(MEANS, LINEAR)
    twice = model.predict_fold_in([*OWN, OWN[0]], [5.0, 1.0, 4.0, 2.0, 2.0], ITEMS)
    np.testing.assert_allclose(twice, model.predict_fold_in(OWN, [3.5, 1.0, 4.0, 2.0], ITEMS))


def test_what_is_no_release_is_refused():
    unfitted = PrivateFactorization(epsilon=1, delta=0.1, bounds=(1, 5))
    raw = DenseFactorization(factors=2, epochs=1).fit(ROWS)
    words = private(catalogue=["a", "b"], train=NAMED)
    fitted = PrivateLinearItems(epsilon=1.0, delta=1e-6).fit(GROUPS, catalogue=ITEMS)
    for make, kind, sentence in (
        (
            lambda: PersonalNeighbours(raw, LINEAR),
            TypeError,
            "means must be a fitted Private",
        ),
        (lambda: PersonalNeighbours(MEANS, raw), TypeError, "similar must be a Released"),
        (lambda: PersonalNeighbours(MEANS, MEANS), TypeError, "similar must be a Released"),
        (lambda: PersonalNeighbours(MEANS, fitted), TypeError, "has it in release_"),
        (lambda: PersonalNeighbours(words, LINEAR), TypeError, "similar holds integers"),
        (lambda: PersonalNeighbours(MEANS, LINEAR, neighbours=0), ValueError, "neighbours must be"),
        (lambda: PersonalNeighbours(MEANS, LINEAR, damping=-1), ValueError, "damping must be"),
        (
            lambda: PersonalNeighbours(unfitted, LINEAR),
            NotFittedError,
            "call fit first",
        ),
    ):
        with pytest.raises(kind, match=sentence):
            make()
    model = PersonalNeighbours(MEANS, LINEAR)
    with pytest.raises(ValueError, match="ratings must be 4 finite numbers"):
        model.predict_fold_in(OWN, [1.0], ITEMS)
    with pytest.raises(TypeError, match="wanted are text"):
        model.predict_fold_in(OWN, RATED, ["tea"])
