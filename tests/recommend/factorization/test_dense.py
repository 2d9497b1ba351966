"""DenseFactorization: learns a known world, serves what it learned, and grows with its ids."""

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.recommend import DenseFactorization, load
from support.recommender_contract import known_rank as world
from support.recommender_contract import rmse


@pytest.mark.parametrize("factors", [8, 16, 32, 33])
def test_it_learns_a_known_world(factors):
    train, test = world()
    model = DenseFactorization(factors=factors).fit(train)
    assert rmse(model, test) < 0.6 * test.ratings.std()


def test_one_factor_is_the_bias_alone():
    train, test = world()
    model = DenseFactorization(factors=1).fit(train)
    means = {i: train.ratings[train.items == i].mean() for i in np.unique(train.items)}
    found = model.predict(0, np.array(list(means)))
    assert np.corrcoef(found, list(means.values()))[0, 1] > 0.95
    assert rmse(model, test) < test.ratings.std()


def test_predictions_are_those_of_the_vectors_served():
    train, _ = world()
    model = DenseFactorization(factors=11, epochs=3).fit(train)
    p, q = model._user_vectors(train.users[:50]), model._item_vectors(train.items[:50])
    result = model.mean_ + (p[:, :-1] * q[:, :-1]).sum(1) + p[:, -1] + q[:, -1]
    found = model.predict(train.users[:50], train.items[:50])
    np.testing.assert_allclose(found, np.clip(result, model.low_, model.high_), atol=1e-5)


def test_whom_it_never_saw_reads_zeros():
    train, _ = world()
    model = DenseFactorization(epochs=1).fit(train)
    assert (model._user_vectors(np.array([7, 10**6]))[1] == 0).all()
    assert (model._user_vectors(np.array([7, 10**6]))[0] != 0).any()
    assert model.predict(10**6, 10**6)[0] == pytest.approx(model.mean_)


def test_new_ids_get_rows_and_old_ones_keep_theirs():
    train, _ = world()
    model = DenseFactorization(epochs=3).fit(train)
    before, size = model._user_vectors(np.arange(300)), model.nbytes
    batch = Interactions(users=[900, 901, 900], items=[5, 700, 701], ratings=[5, 1, 4])
    model.partial_fit(batch)
    assert (model._user_vectors(np.arange(300)) == before).all()
    assert (model._user_vectors(np.array([900, 901]))[:, -1] != 0).all()
    assert model.nbytes == size + 4 * 32 * 4 + 4 * 8
    assert len(model.catalogue_) == 200


def test_a_stream_from_nothing_learns():
    train, test = world(rows=60_000)
    model = DenseFactorization(factors=8, learning_rate=0.1, bounds=(1, 5))
    for start in range(0, len(train), 4000):
        model.partial_fit(train.filter(np.arange(start, min(start + 4000, len(train)))))
    assert rmse(model, test) < 0.8 * test.ratings.std()


def test_a_look_up_reads_no_more_than_it_must(monkeypatch):
    # Known users are sorted on first use, and not again until there are new ones.
    train, test = world()
    model = DenseFactorization(epochs=1).fit(train)
    model.predict(5, 7)
    sorts = []
    monkeypatch.setattr(np, "argsort", lambda *args: sorts.append(args))
    model.predict(test.users, test.items)
    model.partial_fit(test)
    model.predict(5, 7)
    assert not sorts


@pytest.mark.parametrize("factors", [5, 16, 40])
def test_resizing_keeps_biases_and_first_components(factors):
    train, test = world()
    model = DenseFactorization(factors=24, epochs=5).fit(train)
    before = model._item_vectors(np.arange(200))
    after = model.resize(factors)._item_vectors(np.arange(200))
    retained = min(factors, 24) - 1
    assert after.shape == (200, factors)
    assert (after[:, :retained] == before[:, :retained]).all()
    assert (after[:, -1] == before[:, -1]).all()
    assert rmse(model.partial_fit(train), test) < 0.8 * test.ratings.std()


def test_files_give_back_integers_and_texts():
    train, _ = world()
    words = Interactions(
        [f"u{u}" for u in train.users], [f"i{i}" for i in train.items], train.ratings
    )
    for data in (train, words):
        model = DenseFactorization(factors=11, epochs=2).fit(data)
        twin = DenseFactorization.from_bytes(model.to_bytes())
        result = model.predict(data.users, data.items)
        assert (twin.predict(data.users, data.items) == result).all()
        twin.partial_fit(data)
        assert (model.predict(data.users, data.items) == result).all()


def test_changed_parameters_wait_for_the_next_fit():
    train, test = world()
    model = DenseFactorization(epochs=2).fit(train)
    result = model.predict(test.users, test.items)
    model.set_params(factors=16)
    assert (model.predict(test.users, test.items) == result).all()


def test_four_penalties_are_those_of_users_items_and_their_biases():
    train, _ = world(users=60, items=40, rows=1500)
    # With a clip that skips nothing biases are penalised as components are, and not damped.
    one = DenseFactorization(factors=5, regularization=0.1, clip=1e9).fit(train)
    same = DenseFactorization(factors=5, regularization=(0.1,) * 4, clip=1e9).fit(train)
    sides = [
        (model._user_vectors(np.arange(60)), model._item_vectors(np.arange(40)))
        for model in (one, same)
    ]
    for users, others in zip(*sides, strict=True):
        np.testing.assert_array_equal(users, others)
    tables = [(0, slice(-1)), (1, slice(-1)), (0, slice(-1, None)), (1, slice(-1, None))]
    for at, (side, columns) in enumerate(tables):
        penalties = [0.01] * 4
        penalties[at] = 8.0
        model = DenseFactorization(factors=5, regularization=tuple(penalties)).fit(train)
        vectors = model._user_vectors(np.arange(60)), model._item_vectors(np.arange(40))
        sizes = [float(np.abs(vectors[side][:, columns]).mean()) for side, columns in tables]
        assert sizes[at] < 0.05
        biases = [sizes[other] for other in (2, 3) if other != at]
        assert min(biases) > 2 * sizes[at]


def test_four_penalties_are_stored_and_refused_for_rankings():
    train, _ = world(users=60, items=40, rows=1500)
    model = DenseFactorization(factors=3, epochs=1, regularization=[0.1, 0.2, 0.3, 0]).fit(train)
    twin = load(model.to_bytes())
    assert tuple(twin.get_params()["regularization"]) == (0.1, 0.2, 0.3, 0.0)
    model.partial_fit(train)
    twin.partial_fit(train)
    np.testing.assert_array_equal(
        model.predict(train.users, train.items), twin.predict(train.users, train.items)
    )
    with pytest.raises(ValueError, match="regularization must be one number for objective"):
        model.set_params(objective="ranking").fit(train)
