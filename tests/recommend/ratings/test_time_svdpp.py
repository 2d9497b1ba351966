"""TimeSVDpp: the steps of its kernel, and what it answers at a time."""

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.recommend import SVDpp, TimeSVDpp
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.factorization.svdpp_training import PENALTIES
from sfumato.recommend.ratings.rated_rows import RatedRows
from sfumato.recommend.ratings.time_training import DAY, TimeTraining, day_keys


def drifting(seed=0):
    """Items that are liked by half a star more in the second half of 400 days, or less."""
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(80 * 60)[:3000]
    users, items, times = pairs // 60, pairs % 60, rng.uniform(0, 400 * DAY, pairs.size)
    change = np.where(items % 2, 0.7, -0.7) * np.where(times > 200 * DAY, 1, -1)
    return Interactions(users, items, 3 + change + rng.normal(0, 0.2, pairs.size), times)


def test_an_epoch_is_a_step_on_every_number_at_every_rating():
    rng, rate = np.random.default_rng(3), 0.05
    pairs = rng.permutation(5 * 7)[:21]
    times = rng.uniform(0, 300 * DAY, pairs.size)
    train = Interactions(pairs // 7, pairs % 7, rng.integers(1, 6, pairs.size), times)
    plain = TimeSVDpp(factors=6, learning_rate=rate, decay=0.0, regularization=0.0)._check()
    rows = RatedRows.of(train, Catalogue(np.arange(7)))
    made = TimeTraining("TimeSVDpp", dict.fromkeys(PENALTIES, 0.1) | plain, rows, 3.0, 1.0)
    for table in (made.p, made.q, made.y, made.drift):
        table[:, :5] = rng.normal(0, 0.5, (len(table), 5))
    p, q, y, bu, bi, drift, slope, bins, days = (
        np.array(each, np.float64) for each in made.tables()
    )
    bins = bins.reshape(-1)
    shrinks = made.penalties()
    state = np.random.default_rng()
    state.bit_generator.state = made.random.bit_generator.state
    order = state.permutation(5)
    made.epoch(0)
    for u in order:
        own = made.rows[made.starts[u] : made.starts[u + 1]]
        mine = made.items[own]
        for row in own:
            i, d, b, t = made.items[row], made.deviations[row], made.bins[row], made.days[row]
            z = p[u] + y[mine].sum(0) / np.sqrt(mine.size) + d * drift[u]
            fixed = bu[u] + d * slope[u] + bi[i] + bins[b] + days[t]
            error = made.targets[row] - fixed - q[i] @ z
            old = q[i].copy()
            q[i] += rate * (error * z - shrinks[1] * q[i])
            p[u] += rate * (error * old - shrinks[0] * p[u])
            drift[u] += rate * (error * d * old - shrinks[5] * drift[u])
            y[mine] += rate * error * old / np.sqrt(mine.size)
            bu[u] += rate * (error - shrinks[3] * bu[u])
            bi[i] += rate * (error - shrinks[4] * bi[i])
            slope[u] += rate * (error * d - shrinks[5] * slope[u])
            bins[b] += rate * (error - shrinks[6] * bins[b])
            days[t] += rate * (error - shrinks[7] * days[t])
        y[mine] *= 1 - rate * shrinks[2]
    want = p, q, y, bu, bi, drift, slope, bins.reshape(7, -1), days
    for got, each in zip(made.tables(), want, strict=True):
        np.testing.assert_allclose(got, each, rtol=1e-4, atol=1e-5)


def test_items_that_change_are_learned_in_bins():
    train, test = drifting().split(0.8, 0.2, random_state=1)
    given = {"factors": 4, "epochs": 60, "learning_rate": 0.05}
    model = TimeSVDpp(**given, bin_regularization=0.1).fit(train)
    static = SVDpp(**given).fit(train).predict(test.users, test.items)
    dated = model.predict(test.users, test.items, test.times)
    errors = [np.sqrt(np.mean((each - test.ratings) ** 2)) for each in (dated, static)]
    assert errors[0] < 0.6 * errors[1]
    early, late = (model.recommend(7, 10, times=day * DAY)[0] for day in (30, 370))
    assert (early % 2 == 0).all()
    assert (late % 2 == 1).all()


def test_no_time_is_the_latest_and_lists_are_predictions_at_their_time():
    train = drifting()
    model = TimeSVDpp(factors=4, epochs=5).fit(train)
    now = model.predict(3, np.arange(60), model.latest_)
    assert (model.predict(3, np.arange(60)) == now).all()
    items, scores = model.recommend([3, 4], 60, times=[0.0, 50 * DAY])
    for row, (user, day) in enumerate(((3, 0.0), (4, 50 * DAY))):
        want = model.predict(user, items[row], day)
        got = np.clip(scores[row], model.low_, model.high_)
        np.testing.assert_allclose(got, want, atol=1e-9)
    one = model.recommend(4, 60, times=50 * DAY)
    assert (one[0] == items[1]).all()
    np.testing.assert_allclose(one[1], scores[1], atol=1e-12)
    with pytest.raises(ValueError, match="times must be finite numbers"):
        model.recommend([3, 4], times=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="times must be finite numbers"):
        model.predict([3, 4], [1, 2], [1.0, np.nan])


def test_days_of_users_are_counted_from_the_first_to_the_last():
    times = np.array([5.2, 6.0, 7.9, 4.9, 8.0]) * DAY
    keys = day_keys(np.array([0, 0, 1, 1, 1]), times, 5.2 * DAY, 7.9 * DAY)
    assert keys.tolist() == [0, 1, 5, -1, -1]
