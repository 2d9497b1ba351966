"""Temporal means: the ridge solution of all terms, the static special case, and times to come."""

import copy

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.recommend import ModelFormatError, TemporalMeans, load

DAY = 86400.0
OFF = dict.fromkeys(("trend_damping", "bin_damping", "drift_damping", "session_damping"))


def drifting(seed=0, users=60, items=30, rows=1500):
    """Ratings over 300 days: users change by the day and drift, and the mean falls."""
    random = np.random.default_rng(seed)
    pairs = random.permutation(users * items)[:rows]
    who, what = np.divmod(pairs, items)
    days = random.choice([0, 30, 200, 299], rows) + random.random(rows) * 0.9
    mood = random.normal(0, 0.7, (users, 300))[who, days.astype(int)]
    exact = 3 + random.normal(0, 0.3, items)[what] + mood - days / 300
    return Interactions(who, what, exact + random.normal(0, 0.2, rows), times=days * DAY)


TRAIN = drifting()


def dense_terms(model, train):
    """Design matrix of all terms, by loops over the definition."""
    users, items = sorted(set(train.users)), sorted(set(train.items))
    days = train.times / DAY
    bins = ((train.times - train.times.min()) // (70 * DAY)).astype(int)
    middle = {u: days[train.users == u].mean() for u in users}
    sessions = sorted({(u, int(d)) for u, d in zip(train.users, days, strict=True)})
    columns, dampings = [], []

    def add(values, damping):
        columns.append(np.asarray(values, float))
        dampings.append(damping)

    for u in users:
        mine = train.users == u
        add(mine, model.dampings_.users)
        away = days - middle[u]
        add(mine * np.sign(away) * np.abs(away) ** 0.4, 1000.0)
    for i in items:
        add(train.items == i, model.dampings_.items)
        for b in range(bins.max() + 1):
            add((train.items == i) & (bins == b), 300.0)
    for b in range(bins.max() + 1):
        add(bins == b, 10.0)
    for u, d in sessions:
        add((train.users == u) & (days.astype(int) == d), 20.0)
    return np.array(columns).T, np.array(dampings)


def test_all_terms_are_the_ridge_solution():
    model = TemporalMeans(bounds=(-9, 9)).fit(TRAIN)
    matrix, dampings = dense_terms(model, TRAIN)
    targets = TRAIN.ratings.astype(np.float32) - model.mean_
    solved = np.linalg.solve(matrix.T @ matrix + np.diag(dampings), matrix.T @ targets)
    found = model.predict(TRAIN.users, TRAIN.items, TRAIN.times)
    assert np.allclose(found, model.mean_ + matrix @ solved, atol=1e-4)


def test_without_its_terms_it_is_the_static_model():
    model = TemporalMeans(damping=(4.0, 2.0), bounds=(-9, 9), **OFF).fit(TRAIN)
    early, late = (model.predict(TRAIN.users, TRAIN.items, t) for t in (0, 300 * DAY))
    assert np.array_equal(early, late)
    y, users, items = TRAIN.ratings - TRAIN.ratings.mean(), np.zeros(60), np.zeros(30)
    for _ in range(200):
        items = np.bincount(TRAIN.items, y - users[TRAIN.users]) / (np.bincount(TRAIN.items) + 2)
        users = np.bincount(TRAIN.users, y - items[TRAIN.items]) / (np.bincount(TRAIN.users) + 4)
    wanted = TRAIN.ratings.mean() + users[TRAIN.users] + items[TRAIN.items]
    assert np.allclose(early, wanted, atol=1e-5)


def test_it_beats_static_biases_where_ratings_change_in_time():
    train, test = TRAIN.split(0.8, 0.2, random_state=0)[:2]

    def rmse(**terms):
        model = TemporalMeans(**terms).fit(train)
        found = model.predict(test.users, test.items, test.times)
        return np.sqrt(np.mean((found - test.ratings) ** 2))

    assert rmse() < 0.9 * rmse(**OFF)


def test_times_outside_of_the_data_are_those_at_its_ends():
    model = TemporalMeans(session_damping=None).fit(TRAIN)
    users, items = TRAIN.users[:50], TRAIN.items[:50]
    last = model.predict(users, items)
    assert np.array_equal(last, model.predict(users, items, model.last_time_))
    assert np.array_equal(last, model.predict(users, items, 9 * model.last_time_))
    first = model.predict(users, items, TRAIN.times.min())
    assert np.array_equal(first, model.predict(users, items, -1e9))


def test_a_session_fades_with_the_days_since():
    only = {**OFF, "session_damping": 1.0}
    rows = Interactions([1, 1, 2], [1, 2, 1], [5, 5, 1], times=[0, 0, 40 * DAY])
    model = TemporalMeans(damping=1.0, **only).fit(rows)
    effects = [model._terms(np.array([0]), np.array([0]), np.array([d * DAY]))["session"][0]
               for d in (0, 50, 100)]  # fmt: skip
    assert effects[0] > 0
    assert effects[1:] == pytest.approx([effects[0] * np.exp(-0.5), effects[0] * np.exp(-1)])


def test_unknown_ids_have_no_bias_lists_and_explanations_agree():
    model = TemporalMeans(bounds=(-9, 9)).fit(TRAIN)
    unknown = model.explain(999, 999)
    assert [unknown[each] for each in ("user", "drift", "session", "item", "item_bin")] == [0.0] * 5
    assert unknown["score"] == model.mean_ + unknown["trend"]
    items, scores = model.recommend([3, 999], 30)
    for user, row, found in zip((3, 999), items, scores, strict=True):
        assert found == pytest.approx(model.predict(user, row))
    terms = model.explain(3, 5)
    parts = {k: v for k, v in terms.items() if k not in ("score", "prediction")}
    assert sum(parts.values()) == pytest.approx(terms["score"])
    assert terms["prediction"] == pytest.approx(model.predict(3, 5)[0])
    assert model.recommend_fold_in([1, 2], [5.0, 5.0], n=3)[0].size == 3


def test_times_are_needed_and_their_unit_is_checked():
    untimed = Interactions(TRAIN.users, TRAIN.items, TRAIN.ratings)
    with pytest.raises(ValueError, match="train has no times to learn from; give them"):
        TemporalMeans().fit(untimed)
    with pytest.raises(ValueError, match="day must be the length of a day in the unit"):
        TemporalMeans(day=1.0).fit(TRAIN)
    days = Interactions(TRAIN.users, TRAIN.items, TRAIN.ratings, times=TRAIN.times / DAY)
    seconds, by_day = TemporalMeans().fit(TRAIN), TemporalMeans(day=1.0).fit(days)
    pairs = TRAIN.users, TRAIN.items
    wanted = seconds.predict(*pairs, TRAIN.times)
    assert np.allclose(by_day.predict(*pairs, days.times), wanted, atol=1e-6)


def test_a_file_answers_as_the_model_and_a_damaged_one_is_refused():
    model = TemporalMeans().fit(TRAIN)
    read = load(model.to_bytes())
    pairs = TRAIN.users, TRAIN.items, TRAIN.times
    assert np.array_equal(read.predict(*pairs), model.predict(*pairs))
    for name in ("_trend", "_users", "_sessions", "_item_bins"):
        damaged = copy.copy(model)
        setattr(damaged, name, getattr(model, name)[1:])
        with pytest.raises(ModelFormatError, match="one per user, item, bin and session"):
            load(damaged.to_bytes())


def test_the_last_bin_is_one_of_its_own():
    # Item 0 falls and item 1 rises in the second of two bins, each by four stars.
    users, late = np.repeat(np.arange(20), 2), np.arange(40) >= 20
    items = np.tile([0, 1], 20)
    train = Interactions(users, items, np.where(items == late, 5.0, 1.0), late * 100.0 + users)
    model = TemporalMeans(**{**OFF, "bin_damping": 1.0, "bin_days": 100.0}, day=1.0).fit(train)
    got = model.predict([0, 0, 0, 0], [0, 0, 1, 1], [0.0, 119.0, 0.0, 119.0])
    np.testing.assert_allclose(got, [5, 1, 1, 5], atol=0.5)
