"""Learned weights are the least squares they state, by both solvers, and beat unlearned ones."""

import copy

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.recommend import InterpolationWeights, ModelFormatError, load
from support.recommender_contract import known_rank

TRAIN = known_rank(users=60, items=25, rows=700)[0]
CASES = [("relative", True), ("relative", False), ("plain", True), ("plain", False)]


def by_hand(model, item):
    """Features and targets of one item, by loops over the definition."""
    rows = model._rows
    rated = [
        dict(zip(rows.positions[a:b].tolist(), rows.ratings[a:b].tolist(), strict=True))
        for a, b in zip(rows.starts, rows.starts[1:], strict=False)
    ]
    near = [j for j in model._neighbours[item].tolist() if j >= 0]
    s = dict(zip(near, model._similarities[item].astype(float) ** 2, strict=False))
    features, targets = [], []
    for mine in rated:
        if item in mine:
            total = 0.1 + sum(s[j] for j in near if j in mine)
            scale = {j: s[j] / total if model.weights == "relative" else 1.0 for j in near}
            row = [scale[j] * mine[j] if j in mine else 0.0 for j in near]
            if model.implicit:
                row += [scale[j] if j in mine else 0.0 for j in near]
            features.append(row)
            targets.append(mine[item])
    drawn_to = [float(model.weights == "relative")] * len(near) + [0.0] * len(near)
    width = len(features[0])
    return np.array(features), np.array(targets), np.array(drawn_to[:width]), len(near)


def own_weights(model, item, count):
    width = model._neighbours.shape[1]
    row = model._weights[item]
    return np.concatenate([row[:count], row[width : width + count]])


@pytest.mark.parametrize(("weights", "implicit"), CASES)
def test_weights_solve_the_normal_equations(weights, implicit):
    model = InterpolationWeights(
        neighbours=6, weights=weights, implicit=implicit, shrinkage=5.0, regularization=0.7
    ).fit(TRAIN)
    for item in (0, 7, 20):
        f, y, start, count = by_hand(model, item)
        square = f.T @ f + 0.7 * np.eye(start.size)
        wanted = start + np.linalg.solve(square, f.T @ (y - f @ start))
        assert own_weights(model, item, count) == pytest.approx(wanted, abs=2e-4)


@pytest.mark.parametrize(("weights", "implicit"), CASES)
def test_gradient_descent_converges_to_the_exact_weights_and_every_step_lowers_the_error(
    weights, implicit
):
    given = dict(neighbours=4, weights=weights, implicit=implicit, regularization=2.0)
    exact = InterpolationWeights(**given).fit(TRAIN)
    slow = InterpolationWeights(solver="gradient", epochs=400, **given).fit(TRAIN)
    assert slow._weights == pytest.approx(exact._weights, abs=1e-3)
    # Weights are rounded to float32, errors near the minimum with them.
    assert (np.diff(slow.history_) <= 1e-6 * slow.history_[0]).all()
    assert slow.history_[-1] < slow.history_[0]
    assert exact.history_ == []


def test_a_step_follows_the_gradient_by_differences():
    rate, ridge, item = 1e-3, 2.0, 3
    one = InterpolationWeights(
        neighbours=4, weights="plain", implicit=True, regularization=ridge, solver="gradient",
        epochs=1, learning_rate=rate,
    ).fit(TRAIN)  # fmt: skip
    f, y, start, count = by_hand(one, item)

    def loss(w):
        return np.sum((f @ w - y) ** 2) + ridge * np.sum((w - start) ** 2)

    small = 1e-5 * np.eye(start.size)
    gradient = [(loss(start + d) - loss(start - d)) / 2e-5 for d in small]
    assert own_weights(one, item, count) == pytest.approx(
        start - rate * np.array(gradient), abs=1e-5
    )


def test_neighbours_are_those_of_largest_shrunk_correlation():
    model = InterpolationWeights(neighbours=5, shrinkage=3.0).fit(TRAIN)
    dense = np.full((len(model.users_), len(model.catalogue_)), np.nan)
    dense[model._rows.user_rows, model._rows.positions] = model._rows.ratings
    item, similar = 4, {}
    for other in range(dense.shape[1]):
        both = ~np.isnan(dense[:, item]) & ~np.isnan(dense[:, other])
        a, b = dense[both, item], dense[both, other]
        if other != item and both.any():
            similar[other] = a @ b / np.sqrt((a @ a) * (b @ b)) * a.size / (a.size + 3.0)
    wanted = sorted(similar, key=similar.get, reverse=True)[:5]
    found, values = model.similar_items(model.catalogue_.ids[item], n=5)
    assert found.tolist() == model.catalogue_.ids[wanted].tolist()
    assert values == pytest.approx([similar[each] for each in wanted], abs=1e-5)


def test_learned_weights_beat_unlearned_ones_and_biases():
    train, test = known_rank()

    def rmse(**given):
        model = InterpolationWeights(neighbours=50, shrinkage=20.0, **given).fit(train)
        return np.sqrt(np.mean((model.predict(test.users, test.items) - test.ratings) ** 2))

    unlearned = rmse(regularization=1e9, implicit=False)
    assert rmse() < 0.97 * unlearned


@pytest.mark.parametrize(("weights", "implicit"), CASES)
def test_explanations_lists_and_predictions_agree(weights, implicit):
    model = InterpolationWeights(
        neighbours=6, weights=weights, implicit=implicit, bounds=(-9, 9)
    ).fit(TRAIN)
    user = TRAIN.users[0]
    items, scores = model.recommend(user, 25)
    assert scores == pytest.approx(model.predict(user, items))
    found = model.explain(user, items[0], n=2)
    parts = sum(each["part"] for each in found["neighbours"]) + found["rest"]
    whole = found["mean"] + found["user"] + found["item"] + parts
    assert found["score"] == pytest.approx(whole)
    assert found["prediction"] == pytest.approx(scores[0], abs=1e-5)
    assert len(found["neighbours"]) == 2


def test_unknown_ids_are_predicted_by_the_biases():
    model = InterpolationWeights().fit(TRAIN)
    item = model.catalogue_.ids[2]
    assert model.predict([10**6], [10**6]) == model.mean_
    assert model.predict([10**6], [item]) == pytest.approx(model.mean_ + model._items[2])
    assert model.similar_items(10**6)[0].size == 0


def test_a_new_user_is_like_a_stored_one_with_the_same_bias():
    model = InterpolationWeights(neighbours=6, bounds=(-9, 9)).fit(TRAIN)
    row = 5
    _, at, residuals = model._rows.take(np.array([row]))
    ratings = residuals + model.mean_ + model._users[row] + model._items[at]
    items, scores = model.recommend_fold_in(model.catalogue_.ids[at], ratings, n=5)
    assert scores == pytest.approx(model.predict(model.users_.ids[row], items), abs=1e-3)


def test_ctrl_c_keeps_the_last_complete_step(monkeypatch):
    from sfumato.recommend.neighbours import interpolation

    whole, steps = interpolation._Problem._step, []

    def stopped(self, start, rates):
        steps.append(1)
        if len(steps) == 4:
            raise KeyboardInterrupt
        return whole(self, start, rates)

    given = dict(neighbours=4, solver="gradient", learning_rate=1e-3)
    three = InterpolationWeights(epochs=3, **given).fit(TRAIN)
    monkeypatch.setattr(interpolation._Problem, "_step", stopped)
    model = InterpolationWeights(epochs=50, **given)
    with pytest.raises(KeyboardInterrupt):
        model.fit(TRAIN)
    assert np.array_equal(model._weights, three._weights)


def test_a_file_answers_as_the_model_and_a_damaged_one_is_refused():
    named = Interactions(TRAIN.users.astype(str), TRAIN.items.astype(str), TRAIN.ratings)
    model = InterpolationWeights(neighbours=6).fit(named)
    read = load(model.to_bytes())
    assert np.array_equal(
        read.predict(named.users, named.items), model.predict(named.users, named.items)
    )
    assert len(repr(model)) <= 290
    far = np.where(model._neighbours == 0, 10**6, model._neighbours)
    for name, wrong in (("_weights", model._weights[1:]), ("_neighbours", far)):
        damaged = copy.copy(model)
        setattr(damaged, name, wrong)
        with pytest.raises(ModelFormatError, match="one row of neighbours per item"):
            load(damaged.to_bytes())
