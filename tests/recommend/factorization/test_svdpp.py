"""SVDpp: the steps of its kernel, separate penalties, new users, and interrupted fits."""

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.recommend import SVDpp, load
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.factorization.svdpp_training import PENALTIES, SvdppTraining
from sfumato.recommend.ratings.rated_rows import RatedRows
from support.recommender_contract import known_rank as world
from support.recommender_contract import rmse, small_world

OWN = dict(zip(PENALTIES, (0.1, 0.2, 0.3, 0.4, 0.5), strict=True))


def training(rate, factors=6, **parameters):
    """Tables with clear values for a few ratings, before any epoch."""
    rng = np.random.default_rng(3)
    pairs = rng.permutation(5 * 7)[:21]
    ratings = rng.integers(1, 6, pairs.size).astype(float)
    train = Interactions(pairs // 7, pairs % 7, ratings)
    model = SVDpp(factors=factors, learning_rate=rate, decay=0.0, **{**OWN, **parameters})
    rows = RatedRows.of(train, Catalogue(np.arange(8)))  # nobody has rated the last item
    made = SvdppTraining("SVDpp", model._check(), rows, 3.0, 1.0)
    for table in (made.p, made.q, made.y):
        table[:, : factors - 1] = rng.normal(0, 0.5, (len(table), factors - 1))
    for biases in made.biases:
        biases[:] = rng.normal(0, 0.5, biases.size)
    return made


def tables(made):
    return [np.array(each, np.float64) for each in (made.p, made.q, made.y, *made.biases)]


def visits(made, order):
    """Users in this order, each with the rows of its ratings in the order of the last epoch."""
    for user in order:
        yield user, made.rows[made.starts[user] : made.starts[user + 1]]


@pytest.mark.parametrize("factors", [1, 6, 17, 40])
def test_an_epoch_is_a_step_on_every_number_at_every_rating(factors):
    made = training(0.05, factors)
    p, q, y, user_bias, item_bias = tables(made)
    rate, (lp, lq, ly, lu, li) = 0.05, OWN.values()
    order = np.random.default_rng()
    order.bit_generator.state = made.random.bit_generator.state
    order = order.permutation(made.starts.size - 1)
    made.epoch(0)
    for u, rows in visits(made, order):
        own = made.items[rows]
        for i, target in zip(own, made.targets[rows], strict=True):
            s = y[own].sum(0) / np.sqrt(own.size)
            error = target - user_bias[u] - item_bias[i] - q[i] @ (p[u] + s)
            old_p, old_q = p[u].copy(), q[i].copy()
            p[u] += rate * (error * old_q - lp * old_p)
            q[i] += rate * (error * (old_p + s) - lq * old_q)
            y[own] += rate * error * old_q / np.sqrt(own.size)
            user_bias[u] += rate * (error - lu * user_bias[u])
            item_bias[i] += rate * (error - li * item_bias[i])
        y[own] *= 1 - rate * ly
    for got, want in zip(tables(made), (p, q, y, user_bias, item_bias), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def loss(made, numbers):
    """Half the sum of squared errors and penalties that an epoch descends on."""
    p, q, y, user_bias, item_bias = numbers
    total = 0.0
    for u, rows in visits(made, range(made.starts.size - 1)):
        own = made.items[rows]
        z = p[u] + y[own].sum(0) / np.sqrt(own.size)
        errors = made.targets[rows] - user_bias[u] - item_bias[own] - q[own] @ z
        squares = (p[u] @ p[u] * own.size, (q[own] ** 2).sum(), (y[own] ** 2).sum())
        squares += (user_bias[u] ** 2 * own.size, (item_bias[own] ** 2).sum())
        total += errors @ errors + sum(np.multiply(squares, tuple(OWN.values())))
    return total / 2


def test_small_steps_go_along_the_gradient():
    made, rate = training(1e-3), 1e-3
    before = tables(made)
    made.epoch(0)
    after = tables(made)
    for number, table in enumerate(before):
        for at in np.ndindex(*(min(each, 5) for each in table.shape)):
            ends = []
            for change in (1e-5, -1e-5):
                moved = [each.copy() for each in before]
                moved[number][at] += change
                ends.append(loss(made, moved))
            slope = (ends[0] - ends[1]) / 2e-5
            assert (table[at] - after[number][at]) / rate == pytest.approx(slope, rel=0.05, abs=0.1)


def test_penalties_are_the_common_one_unless_given():
    train = small_world()
    common = SVDpp(factors=8, epochs=3, regularization=0.2, implicit_regularization=None)
    want = common.fit(train).predict(train.users, train.items)
    same = dict.fromkeys(PENALTIES[:3], 0.2)
    twin = SVDpp(factors=8, epochs=3, regularization=0.2, **same).fit(train)
    assert (twin.predict(train.users, train.items) == want).all()
    for name in PENALTIES:
        other = SVDpp(factors=8, epochs=3, regularization=0.2, **{**same, name: 0.9}).fit(train)
        assert (other.predict(train.users, train.items) != want).any(), name


def test_a_heavy_penalty_shrinks_its_own_numbers():
    train, _ = world()
    bias = SVDpp(factors=8, epochs=20, user_bias_regularization=5.0).fit(train)
    free = SVDpp(factors=8, epochs=20).fit(train)
    shrunk, usual = (np.abs(model._user_rows[:, -1]).mean() for model in (bias, free))
    assert shrunk < 0.5 * usual
    items = SVDpp(factors=8, epochs=20, implicit_regularization=30.0).fit(train)
    assert np.abs(items._implicit_rows).max() < 0.1 * np.abs(free._implicit_rows).max()


@pytest.mark.parametrize("factors", [8, 33])
def test_it_learns_a_known_world(factors):
    train, test = world()
    model = SVDpp(factors=factors, learning_rate=0.05).fit(train, test)
    assert rmse(model, test) < 0.6 * test.ratings.std()
    assert [entry["epoch"] for entry in model.history_] == list(range(1, 61))
    assert model.history_[-1]["valid_rmse"] == pytest.approx(rmse(model, test), abs=1e-12)


def kinds(users=60, per_user=12, items=40, random_state=1):
    """Even users rate mostly even items, odd users odd ones, and prefer those."""
    rng = np.random.default_rng(random_state)
    who, what = [], []
    for user in range(users):
        weights = np.where(np.arange(items) % 2 == user % 2, 5.0, 1.0)
        chosen = rng.choice(items, per_user, replace=False, p=weights / weights.sum())
        who += [user] * per_user
        what += chosen.tolist()
    who, what = np.array(who), np.array(what)
    return Interactions(who, what, np.where((who + what) % 2, 2.0, 4.0))


def test_what_somebody_rates_says_what_they_like():
    model = SVDpp(factors=8, epochs=100).fit(kinds())
    for parity in (0, 1):
        items, _ = model.recommend_fold_in(np.arange(parity, 16, 2), n=10)
        assert (items % 2 == parity).all()
    vector = model._folded_in(np.array([0, 2, 99]), None, None)
    known = model._known_items.positions(np.array([0, 2]))
    np.testing.assert_allclose(vector[:-1], model._implicit_rows[known].sum(0) / 2**0.5, rtol=1e-5)
    assert vector[-1] == 0
    assert not model._folded_in(np.array([99]), None, None).any()


def test_ratings_of_a_new_user_add_to_the_items():
    model = SVDpp(factors=8, epochs=30).fit(kinds())
    items, ratings, ridge = np.array([1, 4, 6]), np.array([1.0, 4.0, 2.0]), 0.7
    got = model._folded_in(items, ratings, ridge)
    start = model._folded_in(items, None, None)
    q = model._item_vectors(items).astype(np.float64)
    inside = np.clip(ratings, model.low_, model.high_)

    def objective(vector):
        fit = inside - model.mean_ - q[:, -1] - q[:, :-1] @ vector[:-1] - vector[-1]
        return fit @ fit + ridge * ((vector - start) ** 2).sum()

    best = objective(got.astype(np.float64))
    for at in range(got.size):
        for change in (0.01, -0.01):
            assert objective(got + change * np.eye(got.size)[at]) > best


def test_an_interrupted_fit_holds_the_epochs_completed():
    train, test = world()

    def interrupt(epoch, epochs, error):
        if epoch == 3:
            raise KeyboardInterrupt

    model = SVDpp(factors=8)
    with pytest.raises(KeyboardInterrupt):
        model.fit(train, progress=interrupt)
    assert len(model.history_) == 3
    assert rmse(model, test) < test.ratings.std()
    assert rmse(load(model.to_bytes()), test) == rmse(model, test)


def test_divergence_is_an_error_and_leaves_the_model():
    train, test = world()
    model = SVDpp(factors=8, epochs=2).fit(train)
    want = model.predict(test.users, test.items)
    with pytest.raises(ValueError, match="SVDpp: the descent diverged at a learning rate of 50"):
        model.set_params(learning_rate=50.0).fit(train)
    assert (model.predict(test.users, test.items) == want).all()


def test_arrays_of_a_file_must_fit_each_other():
    model = SVDpp(factors=4, epochs=1).fit(small_world())
    good = model._arrays()
    for name, bad in (
        ("user_rows", good["user_rows"][1:]),
        ("item_rows", good["item_rows"][:, 1:]),
        ("implicit_rows", good["implicit_rows"][:, 1:]),
        ("implicit_rows", np.full_like(good["implicit_rows"], np.nan)),
        ("user_rows", np.full_like(good["user_rows"], np.inf)),
    ):
        with pytest.raises(ValueError, match="_rows must"):
            SVDpp.from_bytes(model.to_bytes())._restore_arrays({**good, name: bad})
