"""The divergence of errors: known distributions give known values, and the check of normality."""

import json
import math
import pickle

import numpy as np
import pytest

from sfumato.attack import kl_divergence


def exactly(mean, deviation, rows=1000, seed=0):
    """Errors whose mean and deviation are these, not only nearly."""
    draws = np.random.default_rng(seed).normal(size=rows)
    return mean + deviation * (draws - draws.mean()) / draws.std()


@pytest.mark.parametrize(("m", "s", "n", "t"), [(0, 1, 0, 1), (0.1, 0.7, -0.2, 0.9), (0, 2, 1, 1)])
def test_two_normal_distributions_have_their_divergence(m, s, n, t):
    # From the definition: the mean under the first distribution of the logarithm of the ratio.
    x = np.linspace(m - 12 * s, m + 12 * s, 200_001)
    log_p, log_q = (-(((x - a) / b) ** 2) / 2 - np.log(b) for a, b in ((m, s), (n, t)))
    p = np.exp(log_p)
    truth = float((p * (log_p - log_q)).sum() / p.sum())
    assert kl_divergence(exactly(m, s), exactly(n, t, seed=1)) == pytest.approx(truth, abs=1e-9)


def test_the_free_estimate_finds_the_divergence_of_normal_distributions():
    # 20 estimates; one beyond 4.5 errors has p < 1e-5 each.
    for seed in range(20):
        draws = np.random.default_rng(seed)
        found = kl_divergence(draws.normal(0, 0.8, 40_000), draws.normal(0.1, 1, 20_000))
        truth = math.log(1 / 0.8) + (0.8**2 + 0.1**2) / 2 - 0.5
        assert abs(found.free - truth) < 4.5 * found.free_error + 0.01 * truth
        assert found.trusted


def test_the_standard_error_is_the_deviation_of_the_estimates():
    # The deviation of 200 is known to a twentieth: beyond a quarter has p < 1e-5.
    draws = np.random.default_rng(0)
    sides = [(draws.normal(0, 0.7, 2000), draws.normal(0, 1, 8000)) for _ in range(200)]
    found = [kl_divergence(*pair) for pair in sides]
    deviation = np.std([each.free for each in found])
    assert deviation == pytest.approx(np.mean([each.free_error for each in found]), rel=0.25)


def test_the_free_estimate_is_right_where_the_formula_is_wrong():
    draws = np.random.default_rng(0)
    found = kl_divergence(draws.laplace(0, 0.5, 100_000), draws.laplace(0, 1, 100_000))
    truth = math.log(2) + 0.5 - 1
    assert found.free == pytest.approx(truth, rel=0.03)
    assert abs(found - truth) > 0.1
    assert not found.trusted
    assert "NOT normal" in repr(found)


def test_distributions_that_look_normal_but_differ_in_the_tails_are_not_trusted():
    draws = np.random.default_rng(0)
    heavy = np.where(draws.random(100_000) < 0.04, 2, 1) * draws.normal(size=100_000)
    found = kl_divergence(draws.normal(size=100_000), heavy)
    assert found.train.normal
    assert found.test.normal
    assert not found.agrees
    assert not found.trusted


def test_chance_alone_adds_nothing_on_average():
    # Without the correction the mean is 0.0125, with it about 0.0017 (what is below 0 counts 0);
    # the deviation of the mean of 100 is 0.0003.
    draws = np.random.default_rng(0)
    free = [kl_divergence(*draws.normal(size=(2, 2000))).free for _ in range(100)]
    assert np.mean(free) < 0.004


@pytest.mark.parametrize("distribution", ["uniform", "exponential", "standard_cauchy"])
def test_other_distributions_are_not_called_normal(distribution):
    draws = np.random.default_rng(0)
    errors = getattr(draws, distribution)(size=(2, 50_000))
    assert not kl_divergence(*errors).trusted


def test_the_shape_of_a_distribution_is_measured():
    distribution = kl_divergence(
        np.random.default_rng(0).exponential(size=200_000), exactly(0, 1)
    ).train
    assert distribution.skewness == pytest.approx(2, rel=0.05)
    assert distribution.kurtosis == pytest.approx(6, rel=0.15)
    # exp(-x - 1) against the normal distribution: the largest distance is at the left end.
    assert distribution.distance == pytest.approx(0.1587, abs=0.005)
    assert distribution.rows == 200_000


def test_a_side_without_variance_diverges_without_bound():
    found = kl_divergence(np.zeros(50), exactly(0, 1))
    assert found == math.inf
    assert not found.trusted
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["gaussian"] is None
    assert kl_divergence(np.zeros(50), np.zeros(60)) == 0


def test_a_few_distinct_errors_are_compared_by_their_shares():
    train, test = np.repeat([-1, 0, 1], [10_000, 80_000, 10_000]), np.repeat([-1, 0, 1], 30_000)
    truth = 0.2 * math.log(0.3) + 0.8 * math.log(2.4)
    assert kl_divergence(train, test).free == pytest.approx(truth, rel=0.01)


def test_it_is_a_number_that_can_be_stored():
    found = kl_divergence(exactly(0, 1), exactly(0, 2, seed=1))
    assert found > 0
    assert found.kld == found
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert again.to_dict() == found.to_dict()


@pytest.mark.parametrize(
    ("errors", "sentence"),
    [
        ([], "train_errors must have at least 20 rows, not 0"),
        ([1.0] * 19, "train_errors must have at least 20 rows, not 19"),
        ([0.5, math.nan] * 20, "train_errors must be finite, but row 1 is not"),
        ([0.5, math.inf] * 20, "train_errors must be finite, but row 1 is not"),
        (np.ones((30, 2)), "train_errors must be one column of numbers"),
        (["a"] * 30, "train_errors must be one column of numbers"),
    ],
)
def test_what_cannot_be_compared_is_refused(errors, sentence):
    with pytest.raises(ValueError, match=sentence):
        kl_divergence(errors, exactly(0, 1))
    with pytest.raises(ValueError, match=sentence.replace("train", "test")):
        kl_divergence(exactly(0, 1), errors)
