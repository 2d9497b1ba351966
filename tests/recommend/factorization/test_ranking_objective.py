"""objective="ranking": lists learned from who used which item, never worse than popularity."""

import numpy as np
import pytest

from sfumato.data import Interactions, generate_world
from sfumato.recommend import DenseFactorization, Popular, SketchFactorization, load, metrics
from sfumato.recommend.base import to_bytes
from sfumato.recommend.factorization.preferences import ItemPopularity, least_count
from sfumato.recommend.tuning import tune

BOTH = pytest.mark.parametrize("kind", [DenseFactorization, SketchFactorization])
GROUPS, USERS, ITEMS = 6, 480, 240


def grouped_world(seed=0, each=20):
    """Users of a group use the items of that group, the first of them most; others at times."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(USERS), each)
    size = ITEMS // GROUPS
    weights = 1 / np.arange(1, size + 1) ** 0.5
    within = rng.choice(size, users.size, p=weights / weights.sum())
    items = within * GROUPS + users % GROUPS
    stray = rng.random(users.size) < 0.15
    items[stray] = rng.integers(ITEMS, size=stray.sum())
    pairs = np.unique(users * ITEMS + items)
    pairs = pairs[rng.permutation(pairs.size)]
    return Interactions(pairs // ITEMS, pairs % ITEMS + 1000, np.ones(pairs.size))


TRAIN, TEST = grouped_world().split(0.8, 0.2, random_state=0)


def ndcg(model, train=TRAIN, test=TEST):
    users = np.unique(test.users)
    lists, scores = model.recommend(users, 10, exclude=train)
    return metrics.ndcg(lists, test, scores=scores, users=users)


def made(kind, **more):
    return kind(objective="ranking", **more)


def popular_order(n=10):
    return Popular().fit(TRAIN).recommend(10**9, n)[0]


def test_lists_beat_popularity_and_sketches_come_close_to_dense_ones():
    found = []
    for seed in range(3):
        train, test = grouped_world(seed).split(0.8, 0.2, random_state=seed)
        models = Popular(), *(made(SketchFactorization, space_gain=gain) for gain in (1, 4))
        models = (*models, made(DenseFactorization))
        found.append([ndcg(model.fit(train), train, test) for model in models])
    popularity, sketch, small, dense = np.mean(found, axis=0)
    assert dense > 3 * popularity
    assert sketch > 0.95 * dense
    assert small > 0.9 * dense


@pytest.mark.parametrize("make", [
    lambda: made(DenseFactorization),
    lambda: made(SketchFactorization),
    lambda: made(SketchFactorization, space_gain=4),
])  # fmt: skip
def test_lists_are_not_worse_than_popularity_where_there_is_little_to_learn(make):
    # Six rows for each user: what vectors learn is mostly noise. Means of three worlds.
    found = []
    for seed in range(3):
        world = generate_world(users=800, items=400, ratings=4800, random_state=seed).interactions
        train, test = world.split(0.8, 0.2, random_state=seed)
        found.append([ndcg(m.fit(train), train, test) for m in (make(), Popular())])
    ours, popularity = np.mean(found, axis=0)
    assert ours > 0.97 * popularity


@BOTH
def test_unknown_users_get_the_items_by_popularity(kind):
    model = made(kind).fit(TRAIN)
    np.testing.assert_array_equal(model.recommend(10**9, 10)[0], popular_order())
    np.testing.assert_array_equal(model.recommend_fold_in([], n=10)[0], popular_order())
    unknown = model.predict(np.arange(10**6, 10**6 + 400), 1000)  # a few may share counters
    assert np.mean(unknown == np.median(unknown)) > 0.95


@BOTH
def test_a_new_user_with_a_few_items_gets_items_of_that_group(kind):
    model = made(kind).fit(TRAIN)
    for group in range(GROUPS):
        items, _ = model.recommend_fold_in(1000 + group + GROUPS * np.arange(5, 10), n=10)
        assert np.mean((items - 1000) % GROUPS == group) >= 0.8
    with pytest.raises(ValueError, match="ridge must be"):
        model.recommend_fold_in([1000], ridge=-1)


@BOTH
def test_similar_items_and_explanations_read_the_same_vectors(kind):
    model = made(kind).fit(TRAIN)
    found, _ = model.similar_items(1000 + np.arange(GROUPS), 3)
    assert np.mean((found - 1000) % GROUPS == np.arange(GROUPS)[:, None]) > 0.8
    items, scores = model.recommend(5, 10)
    np.testing.assert_allclose(model.predict(5, items), scores, rtol=1e-5)
    parts = model.explain(5, items[0])
    assert parts["score"] == parts["prediction"] == pytest.approx(scores[0], rel=1e-5)
    assert (parts["mean"], parts["user_bias"]) == (0, 0)
    assert parts["item_bias"] < 0  # a log-probability
    np.testing.assert_array_equal(model.index().recommend(5, 10)[0], items)
    assert not model.predicts_ratings


@BOTH
def test_a_stream_learns_live_and_continues_alike_from_a_file(kind):
    more = {"cells": 1 << 14} if kind is SketchFactorization else {}
    model, passes = made(kind, learning_rate=0.4, **more), 4
    sizes, batch = set(), 500
    for start in range(0, passes * len(TRAIN), batch):
        rows = np.arange(start, start + batch) % len(TRAIN)
        model.partial_fit(TRAIN.filter(rows), catalogue=1000 + np.arange(ITEMS))
        sizes.add(model.nbytes)
    assert ndcg(model) > 2 * ndcg(Popular().fit(TRAIN))
    if kind is SketchFactorization:
        assert len(sizes) == 1
    assert model._popularity.counts.sum() == model.seen_ == start + batch
    for _ in range(10):  # a newcomer, who is known by now
        model.partial_fit(Interactions([9999] * 4, [1002, 1008, 1014, 1020], [1] * 4))
    near = model.recommend(9999, 10)[0]
    assert np.mean((near - 1000) % GROUPS == 2) >= 0.6
    twin = load(model.to_bytes())
    for each in (model, twin):
        each.partial_fit(TEST)
    assert model.to_bytes() == twin.to_bytes()


@BOTH
def test_items_outside_the_catalogue_are_ignored_until_they_are_named(kind):
    model = made(kind).fit(TRAIN)
    before = model.predict(3, TRAIN.items[:50])
    new = Interactions([3] * 5, [77] * 5, [1] * 5)
    np.testing.assert_array_equal(model.partial_fit(new).predict(3, TRAIN.items[:50]), before)
    assert 77 not in model.recommend(3, ITEMS + 1)[0]
    model.partial_fit(new, catalogue=np.append(model.catalogue_.ids, 77))
    assert model._popularity.counts[-1] == 5
    assert 77 in model.recommend(3, ITEMS + 1)[0]
    with pytest.raises(ValueError, match="train has no row of the catalogue's items"):
        made(kind).fit(TRAIN, catalogue=[5, 6])


@BOTH
def test_equal_seeds_give_equal_models_and_threads_learn_too(kind):
    first, again, other = (
        made(kind, epochs=2, random_state=seed).fit(TRAIN).to_bytes() for seed in (1, 1, 2)
    )
    assert first == again != other
    assert ndcg(made(kind, threads=2).fit(TRAIN)) > 1.5 * ndcg(Popular().fit(TRAIN))


@BOTH
def test_history_has_the_ndcg_of_validation_data_and_ctrl_c_keeps_epochs(kind):
    values = []

    def stop(epoch, epochs, value):
        values.append(value)
        if epoch == 3:
            raise KeyboardInterrupt

    model = made(kind, epochs=9)
    with pytest.raises(KeyboardInterrupt):
        model.fit(TRAIN, TEST, progress=stop)
    assert [entry["valid_ndcg"] for entry in model.history_] == values
    assert len(values) == 3
    assert values[-1] == pytest.approx(ndcg(model))


@BOTH
def test_a_pass_that_diverges_leaves_the_model_as_it_was(kind):
    model = made(kind, epochs=2).fit(TRAIN)
    before = model.to_bytes()
    model.set_params(learning_rate=1e30)
    with pytest.raises(ValueError, match="diverged"):
        model.partial_fit(TEST)
    model.set_params(learning_rate=0.05)
    assert model.to_bytes() == before


def test_what_has_no_meaning_for_rankings_is_refused():
    for name in ("clip", "noise"):
        with pytest.raises(ValueError, match=f"{name} is for objective='ratings'"):
            made(DenseFactorization, **{name: 1.0}).fit(TRAIN)
    for name, value in (("layout", "component"), ("readout", "median")):
        with pytest.raises(ValueError, match=f"{name} must be .* for objective='ranking'"):
            made(SketchFactorization, **{name: value}).fit(TRAIN)
    model = made(DenseFactorization, epochs=1).fit(TRAIN).set_params(objective="ratings")
    with pytest.raises(ValueError, match="another objective"):
        model.partial_fit(TEST)
    with pytest.raises(ValueError, match="metric must be 'ndcg'"):
        tune(made(DenseFactorization), TRAIN, TEST, metric="rmse")
    with pytest.raises(ValueError, match=r"needs cells=, since"):
        made(SketchFactorization).partial_fit(TRAIN)


@BOTH
def test_files_without_an_objective_are_of_ratings(kind):
    model = kind(epochs=1).fit(TRAIN)
    model._check = lambda: {k: v for k, v in kind(epochs=1)._check().items() if k != "objective"}
    twin = load(to_bytes(model))
    assert twin.objective == "ratings"
    assert twin.predicts_ratings
    np.testing.assert_array_equal(twin.predict(1, TRAIN.items), model.predict(1, TRAIN.items))


@BOTH
def test_factors_can_be_resized(kind):
    model = made(kind).fit(TRAIN)
    full = ndcg(model)
    assert ndcg(model.resize(24)) > 0.7 * full
    assert model.partial_fit(TEST).recommend(3, 2)[0].size == 2


def test_small_tables_leave_rare_items_to_popularity():
    counts = np.array([50, 40, 9, 3, 1, 1, 1])
    assert least_count(counts, 3, 640.0, 32)[0] == 1
    assert least_count(counts, 3, 384.0, 32) == (4, 64.0)
    assert least_count(np.ones(9, np.int64), 3, 8.0, 32)[0] == 1  # else nothing is learned from
    model = made(SketchFactorization, space_gain=8).fit(TRAIN.filter(np.arange(0, len(TRAIN), 6)))
    rare = model._popularity.counts < model._least
    assert rare.any()
    assert (model._item_vectors(model.catalogue_.ids)[rare, :-1] == 0).all()


def test_counts_of_a_damaged_file_are_refused():
    model = made(SketchFactorization, epochs=1).fit(TRAIN)
    model._popularity.counts[3] = -1
    with pytest.raises(ValueError, match="counts must be"):
        load(model.to_bytes())
    popular = ItemPopularity(model.catalogue_)
    popular.build(np.arange(ITEMS))
    assert popular.negatives is None  # nothing to draw from


def test_a_model_of_ratings_is_fitted_anew_to_rows_without_ratings():
    model = DenseFactorization(factors=4, epochs=1).fit(TRAIN)
    rows = Interactions(TRAIN.users, TRAIN.items)
    with pytest.raises(ValueError, match="ratings"):
        model.fit(rows)
    assert not model.set_params(objective="ranking").fit(rows).predicts_ratings
