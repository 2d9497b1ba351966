"""Ratings from neighbours: the formulas, both directions, new users, explanations and files."""

import numpy as np
import pytest

from sfumato.data import Interactions, generate_world
from sfumato.recommend import DampedMeans, ModelFormatError, RatingNeighbours, load
from sfumato.recommend.metrics import evaluate

WORLD = generate_world(users=150, items=60, ratings=4_000, random_state=2).interactions
TRAIN, TEST = WORLD.split(0.9, 0.1, random_state=0)
BOTH = pytest.mark.parametrize("by", ["items", "users"])


def fitted(train=TRAIN, **parameters):
    return RatingNeighbours(**parameters).fit(train)


def tables(model):
    """Ratings and baselines of the model as dense tables, NaN where there is no rating."""
    rated = np.full((len(model.users_), len(model.catalogue_)), np.nan)
    rated[model._near.rated.user_rows, model._near.rated.positions] = model._near.rated.ratings
    rows, columns = np.arange(rated.shape[0])[:, None], np.arange(rated.shape[1])
    return rated, model._near.baseline.at(rows, columns)


def similarities(model):
    lists, size = model._near.lists, model._near.lists.ends.size - 1
    rows = np.repeat(np.arange(size), np.diff(lists.ends))
    out = np.zeros((size, size))
    out[rows, lists.columns] = lists.values
    return out


def brute(model, row, column):
    """The prediction of the class's formula, one pair at a time."""
    rated, base = tables(model)
    if model.by == "items":
        near, others = similarities(model)[column], rated[row]
        bases = base[row]
    else:
        near, others = similarities(model)[row], rated[:, column]
        bases = base[:, column]
    chosen = np.flatnonzero((near > 0) & ~np.isnan(others))
    chosen = chosen[np.argsort(-near[chosen], kind="stable")][: model.neighbours]
    weights, b = near[chosen] ** model.exponent, base[row, column]
    total = weights.sum() + model.damping
    before = b if model.prediction == "average" else bases[chosen]
    return b + model.slope_ * (weights @ (others[chosen] - before)) / total if total else b


@BOTH
@pytest.mark.parametrize("prediction", ["baseline", "average"])
@pytest.mark.parametrize(
    "options", [{}, {"exponent": 0.0, "damping": 0.0, "neighbours": 3, "slope": 1.0}]
)
def test_predictions_are_those_of_the_formula(by, prediction, options):
    model = fitted(by=by, prediction=prediction, **options)
    rng = np.random.default_rng(1)
    rows, columns = rng.integers(len(model.users_), size=60), rng.integers(60, size=60)
    want = [brute(model, row, column) for row, column in zip(rows, columns, strict=True)]
    users, items = model.users_.ids[rows], model.catalogue_.ids[columns]
    got = model.predict(users, items)
    np.testing.assert_allclose(got, np.clip(want, model.low_, model.high_), atol=1e-5)
    scores = dict(zip(*model.recommend(users[0], 60), strict=True))
    assert scores[items[0]] == pytest.approx(want[0], abs=1e-5)


def test_the_worked_example_of_local_and_global_effects():
    # Mean 3.7, the film 0.5 above it, Joe 0.2 below: 4.0. Joe rated the similar film 0.2 below
    # what is expected of him, so 3.8; two such films count by their similarity.
    model = fitted(damping=0.0, exponent=1.0, slope=1.0)
    joe, film, joker, other = 5, 7, 8, 9
    base, lists = model._near.baseline, model._near.lists
    object.__setattr__(base, "mean", 3.7)
    base.users[joe], base.items[[film, joker, other]] = -0.2, (0.5, 0.1, 0.3)
    mine = slice(model._near.rated.starts[joe], model._near.rated.starts[joe + 1])
    model._near.rated.positions[mine.start : mine.start + 2] = joker, other
    model._near.rated.ratings[mine.start : mine.start + 2] = 3.7 - 0.2 + 0.1 - 0.2, 3.8 + 0.4
    near = lists.ends[film]
    assert lists.ends[film + 1] - near > 2
    lists.columns[near : lists.ends[film + 1]] = film  # which Joe did not rate
    model._near.rated.positions[mine.start + 2 : mine.stop] = 20
    assert base.at(np.array([joe]), np.array([film])) == pytest.approx(4.0)
    user, item = model.users_.ids[joe], model.catalogue_.ids[film]
    assert model.predict(user, item) == pytest.approx(4.0)
    lists.columns[near], lists.values[near] = joker, 0.8
    for name in ("contexts", "_values"):
        model._near.__dict__.pop(name)
    assert model.predict(user, item) == pytest.approx(3.8)
    lists.columns[near + 1], lists.values[near + 1] = other, 0.2
    assert model.predict(user, item) == pytest.approx(4.0 + (0.8 * -0.2 + 0.2 * 0.4) / 1.0)


@BOTH
def test_neighbours_beat_damped_means(by):
    means = DampedMeans().fit(TRAIN).predict(TEST.users, TEST.items)
    errors = np.sqrt(np.mean((means - TEST.ratings) ** 2))
    model = fitted(by=by)
    assert evaluate(model, TEST)["rmse"] < errors
    assert 0.2 < model.slope_ <= 1


@BOTH
def test_neighbours_count_as_far_as_they_foretell_ratings(by):
    random = np.random.default_rng(0).permutation(TRAIN.ratings)
    model = fitted(Interactions(TRAIN.users, TRAIN.items, random), by=by)
    assert model.slope_ < 0.1
    rows, columns = model.users_.positions(TEST.users), model.catalogue_.positions(TEST.items)
    base = model._near.baseline.at(rows, columns)
    np.testing.assert_allclose(model.predict(TEST.users, TEST.items), base, atol=0.1)


def test_what_neighbours_add_by_chance_is_not_believed():
    # Ratings of pure noise, at fixed seeds: no slope of these 12 worlds is above 0; without the
    # standard error 4 would be. More than 3 have p < 0.12 at other seeds.
    random, slopes = np.random.default_rng(7), []
    for _ in range(12):
        noise = random.normal(3, 1, len(TRAIN))
        slopes.append(fitted(Interactions(TRAIN.users, TRAIN.items, noise)).slope_)
    assert np.count_nonzero(slopes) <= 3


@BOTH
def test_unknown_users_and_items_get_what_is_known_of_the_other(by):
    model = fitted(by=by)
    user, item = model.users_.ids[4], model.catalogue_.ids[6]
    base = model._near.baseline
    want = [base.mean + base.items[6], base.mean + base.users[4], base.mean]
    assert model.predict([-5, user, -5], [item, -9, -9]) == pytest.approx(want)
    items, scores = model.recommend([-5], 60)
    order = dict(zip(items[0], scores[0], strict=True))
    assert order[item] == pytest.approx(want[0])


def test_a_new_user_with_the_ratings_of_a_user_gets_the_same_by_items():
    model = fitted()
    _, positions, ratings = model._near.rated.take(np.array([11]))
    own = model.catalogue_.ids[positions]
    got = model.predict_fold_in(own[::-1], ratings[::-1], model.catalogue_.ids)
    np.testing.assert_allclose(got, model.predict(model.users_.ids[11], model.catalogue_.ids))
    listed = model.recommend_fold_in(own, ratings, n=5)
    known = model.recommend(model.users_.ids[11], 5, exclude=TRAIN)
    np.testing.assert_array_equal(listed[0], known[0])
    np.testing.assert_allclose(listed[1], known[1])
    assert model.predict_fold_in([], [], [model.catalogue_.ids[3], -1]) == pytest.approx(
        [model.mean_ + model._near.baseline.items[3], model.mean_]
    )


def test_a_new_user_by_users_is_compared_with_all_users():
    # A user whom the model knows, without the twin: leave it out, then fold it in.
    known = fitted(by="users", shrinkage=0.0)
    user = known.users_.ids[11]
    own = TRAIN.filter(np.flatnonzero(TRAIN.users == user))
    rest = TRAIN.filter(np.flatnonzero(TRAIN.users != user))
    model = fitted(rest, by="users", shrinkage=0.0)
    got = model.predict_fold_in(own.items, own.ratings, known.catalogue_.ids)
    want = known.predict(user, known.catalogue_.ids)
    # Biases, and thus residuals, differ a little between the two fits.
    assert np.abs(got - want).max() < 0.1
    assert np.std(got - model._near.baseline.items - model.mean_) > 0.01


@BOTH
@pytest.mark.parametrize("prediction", ["baseline", "average"])
def test_explanations_add_up_and_name_neighbours(by, prediction):
    model = fitted(by=by, prediction=prediction)
    user, item = TEST.users[0], TEST.items[0]
    for n in (2, 100):
        why = model.explain(user, item, n)
        parts = sum(part["part"] for part in why["neighbours"])
        terms = why["mean"] + why["user_bias"] + why["item_bias"] + parts + why["rest"]
        assert terms == pytest.approx(why["score"])
        assert why["prediction"] == pytest.approx(model.predict(user, item)[0], abs=1e-5)
        assert len(why["neighbours"]) == min(n, len(why["neighbours"])) > 1
    assert why["rest"] == 0
    named = {part[by[:-1]] for part in why["neighbours"]}
    if by == "items":
        assert named <= set(TRAIN.items[TRAIN.users == user].tolist()) - {item}
    else:
        assert named <= set(TRAIN.users[TRAIN.items == item].tolist()) - {user}
    assert model.explain(-1, item)["neighbours"] == []


def test_similar_items_and_users_are_those_of_the_lists():
    model = fitted(stored=8)
    _, near = model.similar_items(model.catalogue_.ids[[2, 5]], 4)
    every = similarities(model)[[2, 5]]
    np.testing.assert_allclose(near, -np.sort(-every, axis=1)[:, :4])
    assert model.similar_items(-3)[0].size == 0
    assert model.similar_items(model.catalogue_.ids[2], 60)[0].size == 8
    with pytest.raises(
        ValueError, match="similar_users needs a model by users; fit RatingNeighbours"
    ):
        model.similar_users(1)
    users = fitted(by="users")
    _, near = users.similar_users(users.users_.ids[3], 3)
    assert near.tolist() == pytest.approx(np.sort(similarities(users)[3])[:-4:-1].tolist())


@BOTH
@pytest.mark.parametrize("search", ["exact", "lsh"])
def test_files_answer_as_the_model_and_fits_repeat(by, search):
    model = fitted(by=by, search=search, random_state=3)
    again = load(model.to_bytes())
    model.set_params(neighbours=1, by="items", exponent=0.0)
    for other in (again, load(model.to_bytes()), fitted(by=by, search=search, random_state=3)):
        pairs = TEST.users, TEST.items
        np.testing.assert_array_equal(other.predict(*pairs), model.predict(*pairs))
        one, two = other.recommend([1, 2, -7], 9), model.recommend([1, 2, -7], 9)
        np.testing.assert_array_equal(one[0], two[0])
        own = TEST.items[:9], TEST.ratings[:9]
        folded = [each.recommend_fold_in(*own, n=4)[1] for each in (other, model)]
        np.testing.assert_array_equal(*folded)


def test_damaged_lists_are_refused():
    model = fitted()
    for name, change in (
        ("values", lambda array: -array),
        ("columns", lambda array: array + 60),
        ("ends", lambda array: array[:-1]),
    ):
        broken = load(model.to_bytes())
        object.__setattr__(broken._near.lists, name, change(getattr(broken._near.lists, name)))
        with pytest.raises(ModelFormatError):
            load(broken.to_bytes())
    broken = load(model.to_bytes())
    object.__setattr__(broken._near.baseline, "items", np.zeros(3))
    with pytest.raises(ModelFormatError):
        load(broken.to_bytes())


def test_sparse_and_equal_ratings_predict_the_baseline():
    lonely = Interactions([1, 2, 3], ["a", "b", "c"], [1.0, 5.0, 3.0])
    model = fitted(lonely)
    assert model.predict([1, 9], ["b", "c"]) == pytest.approx(
        model._near.baseline.at(np.array([0, -1]), np.array([1, 2]))
    )
    same = Interactions([1, 1, 2, 2], ["a", "b", "a", "b"], [4.0] * 4)
    for by in ("items", "users"):
        assert fitted(same, by=by, bounds=(1, 5)).predict(1, "b") == pytest.approx(4.0)
