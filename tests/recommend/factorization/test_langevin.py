"""Langevin dynamics: samples follow the posterior, and their mean predicts."""

import numpy as np
import pytest

from sfumato.recommend import DampedMeans, LangevinFactorization
from sfumato.recommend.factorization.langevin import LangevinChain
from support.recommender_contract import known_rank, rmse

STEPS = {"factors": 1, "epochs": 1, "batches": 4, "learning_rate": 0.05, "decay": 0.0}


def test_biases_follow_the_exact_posterior(monkeypatch):
    # Components are 0 and stay so under a prior of huge precision; biases are then jointly normal:
    # precision L = prior + a X'X, mean inv(L) a X'r. At steps of 0.05 in 4 batches variances are
    # too large by at most 5 %; means of 20,000 dependent epochs have errors of a few percent of
    # the deviation.
    random = np.random.default_rng(3)
    who, what = np.divmod(np.arange(24), 4)
    targets = random.normal(size=24)
    chain = LangevinChain(who.astype(np.int32), what.astype(np.int32), targets, STEPS, random)
    monkeypatch.setattr(chain, "_draw_precisions", lambda: None)
    chain.priors = [np.array([1e12, 2.0]), np.array([1e12, 2.0])]
    chain.precision = 3.0
    for table in chain.tables:
        table[:, 0] = 0
    design = np.hstack([np.eye(6)[who], np.eye(4)[what]])
    covariance = np.linalg.inv(2 * np.eye(10) + 3 * design.T @ design)
    want = covariance @ (3 * design.T @ targets)
    drawn = np.empty((20_000, 10))
    for row in drawn:
        chain.sweep()
        sample = chain.sample()
        row[:] = np.concatenate([sample.user_biases, sample.item_biases])
    deviations = np.sqrt(np.diag(covariance))
    assert np.abs((drawn.mean(0) - want) / deviations).max() < 0.15
    ratios = drawn.std(0) / deviations
    assert ratios.min() > 0.9
    assert ratios.max() < 1.1


def test_known_ratings_are_predicted():
    train, test = known_rank()  # noise 0.3
    model = LangevinFactorization(factors=8, epochs=80, burn_in=40).fit(train)
    assert rmse(model, test) < 0.36
    assert rmse(DampedMeans().fit(train), test) > 0.6
    assert model.noise_ == pytest.approx(0.3, abs=0.05)
    assert model.samples_ == 40
