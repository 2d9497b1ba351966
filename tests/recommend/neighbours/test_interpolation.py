"""Learned weights are the least squares they state, and beat those of similarities."""

import copy

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.kernels.recommend import interpolation as kernels
from sfumato.recommend import InterpolationWeights, ModelFormatError, RatingNeighbours, load
from support.recommender_contract import known_rank

TRAIN = known_rank(users=60, items=25, rows=700)[0]
CASES = [("relative", True), ("relative", False), ("plain", True), ("plain", False)]


def by_hand(model, item):
    """Features and targets of one item, by loops over the definition."""
    near, rows = model._near, model._near.rated
    residuals = rows.ratings - near.baseline.at(rows.user_rows, rows.positions)
    begun = near.at(rows.user_rows, rows.positions)
    listed, features, targets = near.listed(item)[0].tolist(), [], []
    for a, b in zip(rows.starts[:-1], rows.starts[1:], strict=True):
        mine = dict(zip(rows.positions[a:b].tolist(), residuals[a:b].tolist(), strict=True))
        if item in mine:
            rated = [j for j in listed if j in mine]
            scale = max(len(rated), 1) ** -0.5 if model.weights == "relative" else 1.0
            row = [scale * mine.get(j, 0.0) for j in listed]
            if model.implicit:
                row += [scale * (j in mine) for j in listed]
            features.append(row)
            at = a + int(np.flatnonzero(rows.positions[a:b] == item)[0])
            targets.append(rows.ratings[at] - begun[at])
    return np.array(features), np.array(targets)


def own_weights(model, item):
    ends = model._near.lists.ends
    return model._weights[:, ends[item] : ends[item + 1]].reshape(-1)


@pytest.mark.parametrize(("weights", "implicit"), CASES)
def test_weights_solve_the_normal_equations(weights, implicit):
    model = InterpolationWeights(
        neighbours=6, weights=weights, implicit=implicit, shrinkage=5.0, regularization=0.7,
        epochs=40,
    ).fit(TRAIN)  # fmt: skip
    for item in (0, 7, 20):
        f, y = by_hand(model, item)
        wanted = np.linalg.solve(f.T @ f + 0.7 * np.eye(f.shape[1]), f.T @ y)
        assert own_weights(model, item) == pytest.approx(wanted, abs=2e-5)


@pytest.mark.parametrize(("weights", "implicit"), CASES)
def test_every_step_lowers_the_error_and_both_ways_of_descent_end_at_one_minimum(weights, implicit):
    given = dict(neighbours=4, weights=weights, implicit=implicit, regularization=2.0)
    fast = InterpolationWeights(epochs=20, **given).fit(TRAIN)
    slow = InterpolationWeights(epochs=600, learning_rate=5e-3, **given).fit(TRAIN)
    assert slow._weights == pytest.approx(fast._weights, abs=1e-3)
    for model in (fast, slow):
        assert (np.diff(model.history_) <= 1e-9 * model.history_[0]).all()
        assert model.history_[-1] < model.history_[0]
    assert slow.history_[-1] == pytest.approx(fast.history_[-1], rel=1e-5)


def test_the_history_is_the_squared_error_plus_the_penalty():
    model = InterpolationWeights(neighbours=5, epochs=3, regularization=2.0).fit(TRAIN)
    total = 0.0
    for item in range(len(model.catalogue_)):
        f, y = by_hand(model, item)
        own = own_weights(model, item)
        total += np.sum((y - f @ own) ** 2) + 2.0 * np.sum(own**2)
    assert model.history_[-1] == pytest.approx(total, rel=1e-5)


def test_a_step_follows_the_gradient_by_differences():
    rate, ridge, item = 1e-3, 2.0, 3
    given = dict(neighbours=4, weights="plain", regularization=ridge, learning_rate=rate)
    one, two = (InterpolationWeights(epochs=epochs, **given).fit(TRAIN) for epochs in (1, 2))
    f, y = by_hand(one, item)

    def loss(w):
        return np.sum((f @ w - y) ** 2) + ridge * np.sum(w**2)

    small, before = 1e-5 * np.eye(f.shape[1]), np.zeros(f.shape[1])
    for model in (one, two):
        gradient = [(loss(before + d) - loss(before - d)) / 2e-5 for d in small]
        after = own_weights(model, item)
        assert after == pytest.approx(before - rate * np.array(gradient), abs=1e-5)
        before = after.astype(np.float64)


def test_predictions_begin_as_those_of_item_neighbours_or_of_the_baseline():
    given = dict(neighbours=9, shrinkage=3.0, regularization=1e12)
    pairs = TRAIN.users[:200], TRAIN.items[::-1][:200]
    begun = RatingNeighbours(stored=9, shrinkage=3.0).fit(TRAIN)
    relative = InterpolationWeights(**given).fit(TRAIN)
    assert relative.predict(*pairs) == pytest.approx(begun.predict(*pairs), abs=1e-6)
    assert relative.slope_ == begun.slope_ > 0
    plain = InterpolationWeights(weights="plain", **given).fit(TRAIN)
    base = RatingNeighbours(slope=0.0).fit(TRAIN)
    assert plain.predict(*pairs) == pytest.approx(base.predict(*pairs), abs=1e-6)


def test_neighbours_are_the_most_similar_by_residuals():
    model = InterpolationWeights(neighbours=5, shrinkage=3.0).fit(TRAIN)
    other = RatingNeighbours(shrinkage=3.0).fit(TRAIN)
    for mine, wanted in zip(model.similar_items([4, 9], 5), other.similar_items([4, 9], 5),
                            strict=True):  # fmt: skip
        assert np.array_equal(mine, wanted)
    assert (model.similar_items(4, n=25)[1] > 0).sum() == 5


@pytest.mark.parametrize(("weights", "implicit"), [("relative", True), ("plain", False)])
def test_learned_weights_beat_those_of_similarities(weights, implicit):
    train, test = known_rank()

    def rmse(model):
        model.fit(train)
        return np.sqrt(np.mean((model.predict(test.users, test.items) - test.ratings) ** 2))

    given = dict(weights=weights, implicit=implicit, regularization=3.0)
    assert rmse(InterpolationWeights(**given)) < 0.97 * rmse(RatingNeighbours())


@pytest.mark.parametrize(("weights", "implicit"), CASES)
def test_explanations_lists_and_predictions_agree(weights, implicit):
    model = InterpolationWeights(
        neighbours=12, weights=weights, implicit=implicit, regularization=1.0, bounds=(-9, 9)
    ).fit(TRAIN)
    user = TRAIN.users[0]
    items, scores = model.recommend(user, 25)
    assert scores == pytest.approx(model.predict(user, items))
    found = model.explain(user, items[0], n=2)
    parts = sum(each["part"] for each in found["neighbours"]) + found["rest"]
    whole = found["mean"] + found["user_bias"] + found["item_bias"] + parts
    assert found["score"] == pytest.approx(whole)
    assert found["prediction"] == pytest.approx(scores[0], abs=1e-5)
    assert len(found["neighbours"]) == 2


def test_unknown_ids_are_predicted_by_the_biases():
    model = InterpolationWeights().fit(TRAIN)
    item = model.catalogue_.ids[2]
    assert model.predict([10**6], [10**6]) == model.mean_
    bias = model._near.baseline.items[2]
    assert model.predict([10**6], [item]) == pytest.approx(model.mean_ + bias)
    assert model.similar_items(10**6)[0].size == 0
    found = model.explain(10**6, item)
    assert found["neighbours"] == []
    assert found["score"] == pytest.approx(model.mean_ + bias)


def test_a_new_user_is_like_a_stored_one_with_the_same_ratings():
    model = InterpolationWeights(neighbours=6, regularization=1.0, bounds=(-9, 9)).fit(TRAIN)
    _, at, ratings = model._near.rated.take(np.array([5]))
    items, scores = model.recommend_fold_in(model.catalogue_.ids[at], ratings, n=5)
    assert scores == pytest.approx(model.predict(model.users_.ids[5], items), abs=1e-5)


def test_ctrl_c_keeps_the_items_that_are_learned(monkeypatch):
    from sfumato.recommend.neighbours import interpolation

    def stopped(first, *rest):
        if first >= 20:
            raise KeyboardInterrupt
        return whole(first, *rest)

    whole = kernels.learn
    monkeypatch.setattr(interpolation, "BLOCK", 10)
    complete = InterpolationWeights(neighbours=4).fit(TRAIN)
    monkeypatch.setattr(kernels, "learn", stopped)
    model = InterpolationWeights(neighbours=4)
    with pytest.raises(KeyboardInterrupt):
        model.fit(TRAIN)
    end = model._near.lists.ends[20]
    assert np.array_equal(model._weights[:, :end], complete._weights[:, :end])
    assert complete._weights[:, end:].any()
    assert not model._weights[:, end:].any()


def test_a_file_answers_as_the_model_and_a_damaged_one_is_refused():
    named = Interactions(TRAIN.users.astype(str), TRAIN.items.astype(str), TRAIN.ratings)
    model = InterpolationWeights(neighbours=6).fit(named)
    read = load(model.to_bytes())
    assert np.array_equal(
        read.predict(named.users, named.items), model.predict(named.users, named.items)
    )
    assert read.history_ == model.history_
    assert len(repr(model)) <= 290
    damaged = copy.copy(model)
    damaged._weights = model._weights[:, 1:]
    with pytest.raises(ModelFormatError, match="one or two for each neighbour"):
        load(damaged.to_bytes())
    infinite = {**model._learned_arrays(), "_weights": np.inf * model._weights}
    with pytest.raises(ValueError, match="weights must be finite"):
        read._restore_learned(infinite)
