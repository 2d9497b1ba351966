"""Bayesian factorization: draws follow the posterior, and predictions are the mean of samples."""

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.recommend import BayesianFactorization, DampedMeans
from sfumato.recommend.factorization import gibbs, sampled
from sfumato.recommend.factorization.gibbs import GibbsChain
from sfumato.recommend.factorization.posterior_mean import MeanVectors, Sample
from support.recommender_contract import checkerboard, known_rank, rmse

PRIOR = 2.0  # precision of all values in the toy


def toy_ratings(users=6, items=5, seed=3):
    """Codes and targets of a few ratings in which every user and item occurs."""
    random = np.random.default_rng(seed)
    who, what = np.divmod(np.flatnonzero(random.random(users * items) < 0.7), items)
    assert set(who) == set(range(users))
    assert set(what) == set(range(items))
    return who, what, random.normal(size=who.size)


def residuals_of(chain, who, what, targets):
    """The targets less the predictions of the chain's vectors, by user and item."""
    users, items, user_biases, item_biases, mean = chain.sample()
    products = (users[who] * items[what]).sum(1)
    misses = targets - (mean + user_biases[who] + item_biases[what] + products)
    return misses[np.lexsort((what, who))]


@pytest.mark.parametrize("side", ["users", "items"])
def test_draws_of_one_side_follow_the_exact_posterior(monkeypatch, side):
    # With the other side, precisions and priors fixed, own and implicit values of a component are
    # jointly normal: precision L = prior + X'WX, mean inv(L) X'W e. Means of 30,000 dependent
    # draws are within 5 of their standard errors (twice, as they are dependent).
    monkeypatch.setattr(gibbs, "prior_precision", lambda values, mean, random: PRIOR)
    who, what, targets = toy_ratings()
    chain = GibbsChain(who, what, targets, 1, "both", np.random.default_rng(0))
    chain.precision = 3.0
    chain.users.precisions = np.linspace(0.5, 2, 6).astype(np.float32)
    chain.items.precisions = np.linspace(2, 0.5, 5).astype(np.float32)
    mine, other = (chain.users, chain.items) if side == "users" else (chain.items, chain.users)
    own, others = (who, what) if side == "users" else (what, who)
    other.total[1] = np.random.default_rng(1).normal(0, 1, other.size)
    chain.residuals = np.float32(residuals_of(chain, who, what, targets))
    linked = np.zeros((mine.size, other.size))
    linked[own, others] = 1
    linked /= np.sqrt(linked.sum(1, keepdims=True))
    design = np.hstack([np.eye(mine.size), linked])[own] * other.total[1][others, None]
    weights = 3.0 * chain.users.precisions[who] * chain.items.precisions[what]
    square = design.T @ (weights[:, None] * design) + PRIOR * np.eye(design.shape[1])
    covariance = np.linalg.inv(square)
    want = covariance @ (design.T @ (weights * targets))
    drawn = np.empty((30_000, design.shape[1]))
    step = chain._draw_users if side == "users" else chain._draw_items
    for row in drawn:
        step(1)
        row[:] = np.concatenate([mine.own[1], mine.implicit[1]])
    deviations = np.sqrt(np.diag(covariance))
    errors = (drawn.mean(0) - want) / (2 * deviations / len(drawn) ** 0.5)
    assert np.abs(errors).max() < 5
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.08 * covariance.max())


def test_precisions_follow_their_posterior():
    # Given residuals, degrees v and all other numbers, a precision is Gamma((v + n) / 2) divided
    # by (v + sum of squares) / 2; 4,000 users are alike, so that their mean is within 5 errors.
    side = gibbs.GibbsSide(
        np.arange(0, 12_001, 3),
        (np.zeros(2, int), np.zeros(0, int)),
        False,
        1,
        np.random.default_rng(0),
    )
    side.degrees = 4.0
    side.draw_precisions(np.full(4000, 2.0), np.random.default_rng(1))
    mean, variance = (7 / 2) / (6 / 2), (7 / 2) / (6 / 2) ** 2
    assert side.precisions.mean() == pytest.approx(mean, abs=5 * (variance / 4000) ** 0.5)
    assert 6 < side.degrees < 9  # those of Gamma(3.5) of mean near 1


@pytest.mark.parametrize("implicit", ["both", "users", "items", None])
def test_residuals_are_targets_less_predictions(implicit):
    who, what, targets = toy_ratings()
    chain = GibbsChain(who, what, targets, 3, implicit, np.random.default_rng(0))
    for _ in range(20):
        chain.sweep()
    np.testing.assert_allclose(chain.residuals, residuals_of(chain, who, what, targets), atol=1e-5)
    assert chain.users.implicit.any() == (implicit in ("both", "users"))
    assert chain.items.implicit.any() == (implicit in ("both", "items"))
    assert chain.noise() == pytest.approx(np.sqrt(np.mean(chain.residuals.astype(float) ** 2)))


def samples(count, rank, seed=0, users=30, items=20):
    random = np.random.default_rng(seed)
    shapes = (users, rank), (items, rank), users, items
    drawn = [
        [random.normal(size=shape).astype(np.float32) for shape in shapes] for _ in range(count)
    ]
    return [Sample(*each, float(at)) for at, each in enumerate(drawn)]


def mean_products(given):
    return np.mean([each.users.astype(float) @ each.items.T for each in given], axis=0)


def test_mean_of_samples_is_exact_where_there_is_room():
    given = samples(9, 2)
    mean = MeanVectors(18)
    for each in given:
        mean.add(each)
    users, items, constant = mean.vectors()
    np.testing.assert_allclose(users[:, :-1] @ items[:, :-1].T, mean_products(given), atol=1e-4)
    np.testing.assert_allclose(users[:, -1], np.mean([s.user_biases for s in given], 0), atol=1e-6)
    np.testing.assert_allclose(items[:, -1], np.mean([s.item_biases for s in given], 0), atol=1e-6)
    assert constant == 4.0


def test_mean_of_samples_is_reduced_to_the_nearest_products():
    given = samples(4, 3)
    mean = MeanVectors(6)
    for each in given:
        mean.add(each)
    users, items, _ = mean.vectors()
    assert users.shape == (30, 7)
    u, s, v = np.linalg.svd(mean_products(given))
    np.testing.assert_allclose(
        users[:, :-1] @ items[:, :-1].T, (u[:, :6] * s[:6]) @ v[:6], atol=1e-4
    )


def test_predictions_are_the_mean_over_the_chain(monkeypatch):
    monkeypatch.setattr(sampled, "COMPONENTS", 100)
    train, _ = known_rank(users=60, items=40, rows=1500)
    model = BayesianFactorization(factors=2, epochs=8, burn_in=3, random_state=7).fit(train)
    coded, scale = train.coded(), train.ratings.std()
    targets = (train.ratings - train.ratings.mean()) / scale
    random = np.random.default_rng(7)
    chain = GibbsChain(coded.user_codes, coded.item_codes, targets, 2, "both", random)
    want = []
    for epoch in range(8):
        chain.sweep()
        users, items, user_biases, item_biases, mean = chain.sample()
        table = mean + user_biases[:, None] + item_biases + users @ items.T
        want += [train.ratings.mean() + scale * table] if epoch >= 3 else []
    got = [model.predict(user, coded.item_ids) for user in coded.user_ids]
    assert model.samples_ == 5
    np.testing.assert_allclose(got, np.clip(np.mean(want, 0), model.low_, model.high_), atol=1e-4)


def test_known_ratings_are_predicted_up_to_their_noise():
    train, test = known_rank()  # noise 0.3, 16,000 ratings of 300 users and 200 items, rank 3
    model = BayesianFactorization(factors=8, epochs=60, burn_in=20).fit(train, test)
    assert rmse(model, test) < 0.33
    assert rmse(DampedMeans().fit(train), test) > 0.6
    assert model.noise_ == pytest.approx(0.3, abs=0.03)
    assert model.history_[-1]["valid_rmse"] == pytest.approx(rmse(model, test), abs=1e-9)
    assert len(model.history_) == 60
    assert model.samples_ == 40


def test_who_rated_what_informs_users_with_few_ratings():
    # Two groups of users choose among their group's items (9 of 10 times), which the group likes
    # as a matter of taste only for half of them.
    random = np.random.default_rng(0)
    users = np.repeat(np.arange(600), 6)
    group = users % 2
    own = random.random(users.size) < 0.9
    items = random.integers(40, size=users.size) * 2 + np.where(own, group, 1 - group)
    liked = np.where((items // 2) % 2 == 0, np.where(items % 2 == group, 1.0, -1.0), 0.0)
    data = Interactions(users, items, 3 + liked + random.normal(0, 0.5, users.size))
    train, test = data.split(0.7, 0.3, random_state=0)
    model = BayesianFactorization(factors=4, epochs=60)
    errors = {
        implicit: rmse(model.set_params(implicit=implicit).fit(train), test)
        for implicit in ("both", "users", "items", None)
    }
    assert errors["both"] < errors[None] - 0.02
    assert errors["users"] < errors[None] - 0.02


def test_users_who_rate_erratically_count_less():
    train, _ = known_rank(users=100, items=80, rows=8000)
    random, erratic = np.random.default_rng(1), train.users % 4 == 0
    ratings = np.where(erratic, random.uniform(1, 5, len(train)), train.ratings)
    coded = train.coded()
    targets = (ratings - ratings.mean()) / ratings.std()
    chain = GibbsChain(coded.user_codes, coded.item_codes, targets, 4, None, random)
    for _ in range(30):
        chain.sweep()
    bad = coded.user_ids % 4 == 0
    assert chain.users.precisions[bad].max() < chain.users.precisions[~bad].min()


def test_ctrl_c_keeps_the_samples_so_far():
    train, _ = known_rank(users=60, items=40, rows=1500)

    def stop(epoch, epochs, error):
        if epoch == 12:
            raise KeyboardInterrupt

    model = BayesianFactorization(factors=2, epochs=40, burn_in=5)
    with pytest.raises(KeyboardInterrupt):
        model.fit(train, progress=stop)
    twin = BayesianFactorization(factors=2, epochs=12, burn_in=5).fit(train)
    assert len(model.history_) == 12
    assert model.samples_ == 7
    np.testing.assert_array_equal(
        model.predict(train.users, train.items), twin.predict(train.users, train.items)
    )


def test_a_new_user_gets_the_posterior_mean():
    train = checkerboard()
    model = BayesianFactorization(factors=2, epochs=30, burn_in=10).fit(train)
    given, stars = np.array([500, 501, 502]), np.array([5.0, 1.0, 5.0])
    p, q = model._user_rows.astype(float), model._item_vectors(given).astype(float)
    design = np.column_stack([q[:, :-1], np.ones(3)])
    prior = p.T @ p / len(p)
    covariance = design @ prior @ design.T + model.noise_**2 * np.eye(3)
    want = prior @ design.T @ np.linalg.solve(covariance, stars - model.mean_ - q[:, -1])
    np.testing.assert_allclose(model._folded_in(given, stars, None), want, atol=1e-3)
    items, _ = model.recommend_fold_in(given, stars, n=6)
    assert (items % 2 == 0).all()  # the items that such a user likes
    items, _ = model.recommend_fold_in(given[::2], n=6)
    assert (items % 2 == 0).all()
    unknown, nobody = model.recommend_fold_in([], n=5)[1], model.recommend(10**9, 5)[1]
    np.testing.assert_allclose(unknown, nobody, atol=1e-6)


def test_equal_ratings_are_predicted_as_they_are():
    train = Interactions([1, 1, 2, 3], [1, 2, 1, 3], [4, 4, 4, 4])
    model = BayesianFactorization(factors=2, epochs=5).fit(train)
    np.testing.assert_allclose(model.predict([1, 3, 9], [3, 1, 9]), 4)
