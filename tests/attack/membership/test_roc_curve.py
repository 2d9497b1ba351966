"""How well a score separates two sides: areas, ties, few false positives, and their intervals."""

import math
import pickle

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from sfumato.attack.mechanism_audit.lower_bounds import pairs_lower_bound
from sfumato.attack.membership.inference import Rate, mean_rank_rate, roc_curve


@pytest.mark.parametrize("levels", [3, 50, None])
def test_the_area_is_that_of_scikit_learn(levels):
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    draws = np.random.default_rng(levels or 0)
    members, others = draws.normal(0.3, 1, 700), draws.normal(0, 1, 400)
    if levels:
        members, others = np.rint(members * levels / 6), np.rint(others * levels / 6)
    both, side = np.concatenate([members, others]), np.repeat([1, 0], [700, 400])
    found = roc_curve(members, others, 0.95)
    assert found.auc == pytest.approx(metrics.roc_auc_score(side, both), abs=1e-12)
    alarms, hits, _ = metrics.roc_curve(side, both)
    assert found.advantage == pytest.approx((hits - alarms).max(), abs=1e-12)


def test_members_found_at_few_false_alarms_are_counted():
    others = np.arange(1000.0)
    members = np.array([998.5, 999.5, 500.5, 5, 989.5, 2000])
    found = roc_curve(members, others, 0.95)
    assert found.tpr[0.001] == 3 / 6  # one alarm, 999, so all above 998
    assert found.tpr[0.01] == 4 / 6  # ten alarms, so all above 989


def test_ties_are_shared_by_a_coin():
    others = np.repeat([0.0, 1.0], [900, 100])
    members = np.repeat([0.0, 1.0], [500, 500])
    found = roc_curve(members, others, 0.95)
    assert found.tpr[0.01] == 0.05  # a tenth of the ties: 10 of 1000 alarms, 50 of 1000 members
    equal = roc_curve(np.ones(1000), np.ones(2000), 0.95)
    assert (equal.auc, equal.advantage, equal.tpr[0.01]) == (0.5, 0, 0.01)


def test_a_few_others_allow_no_false_alarm():
    found = roc_curve(np.arange(10.0), np.arange(5.0), 0.95)
    assert found.tpr[0.001] == found.tpr[0.01] == 0.5
    assert found.curve[-1] == (1, 1)


def test_the_curve_never_falls():
    draws = np.random.default_rng(0)
    fpr, tpr = np.array(roc_curve(draws.normal(1, 1, 3000), draws.normal(size=3000), 0.9).curve).T
    assert (np.diff(fpr) >= 0).all()
    assert (np.diff(tpr) >= 0).all()
    assert np.abs(tpr - norm.cdf(1 + norm.ppf(fpr.clip(1e-9, 1 - 1e-9)))).max() < 0.06


def test_intervals_of_rates_are_those_of_clopper_and_pearson():
    draws = np.random.default_rng(1)
    found = roc_curve(draws.normal(1, 1, 400), draws.normal(size=1000), 0.9)
    exact = binomtest(round(found.tpr[0.01] * 400), 400).proportion_ci(0.9, "exact")
    assert found.tpr[0.01].low == pytest.approx(exact.low)
    assert found.tpr[0.01].high == pytest.approx(exact.high)


@pytest.mark.parametrize(("hits", "pairs"), [(0, 30), (13, 30), (30, 30), (501, 1000)])
def test_the_interval_of_an_area_is_never_below_that_of_as_many_coins(hits, pairs):
    found = mean_rank_rate(hits / pairs, pairs, 0.95)
    exact = binomtest(hits, pairs).proportion_ci(0.95, "exact")
    assert found.low <= exact.low + 1e-12
    assert found.high >= exact.high - 1e-12
    assert exact.low - found.low < 0.05
    assert found.high - exact.high < 0.05


def test_intervals_hold_the_truth():
    # Areas: 95 of 100 is promised, more is expected; 400 cases, over 40 misses have p < 1e-4.
    truth = norm.cdf(1 / math.sqrt(2))
    gap = 2 * norm.cdf(0.5) - 1
    missed = np.zeros(2)
    for seed in range(400):
        draws = np.random.default_rng(seed)
        found = roc_curve(draws.normal(1, 1, 60), draws.normal(size=90), 0.95)
        for at, (rate, value) in enumerate(((found.auc, truth), (found.advantage, gap))):
            missed[at] += not rate.low <= value <= rate.high
    assert (missed <= 40).all()


def test_identical_sides_are_not_distinguished():
    # Each of 40 intervals misses 0.5 with p <= 1e-6.
    for seed in range(40):
        draws = np.random.default_rng(seed)
        found = roc_curve(draws.normal(size=2000), draws.normal(size=1000), 1 - 1e-6)
        assert found.auc.low <= 0.5 <= found.auc.high


def answers(epsilon, pairs, draws):
    """Scores of randomized response about each pair, correct as often as epsilon allows."""
    right = draws.random(pairs) < 1 / (1 + math.exp(-epsilon))
    return right.astype(float), 1.0 - right


def test_the_lower_bound_of_pairs_keeps_its_confidence_and_comes_near():
    # 300 bounds, each too high with p <= 0.1; more than 50 have p < 1e-4.
    exceeded, shown = 0, []
    for seed in range(300):
        draws = np.random.default_rng(seed)
        halves = answers(1, 400, draws), answers(1, 400, draws)
        bound = pairs_lower_bound(*halves, 0, 0.9)
        exceeded += bound.epsilon > 1
        shown.append(bound.epsilon)
    assert 0 < exceeded <= 50
    assert 0.6 < np.median(shown) < 1


def test_the_lower_bound_looks_at_the_clearest_pairs():
    # One pair in 50 is distinguished with certainty, of the others nothing.
    def half(seed):
        draws = np.random.default_rng(seed)
        sure = draws.random(20_000) < 0.02
        noise = draws.normal(size=(2, 20_000))
        return noise[0] + np.where(sure, 100, 0), noise[1]

    assert pairs_lower_bound(half(0), half(1), 0, 0.95).epsilon > 3


def test_pairs_with_equal_scores_are_not_guessed_about():
    equal = np.zeros(100), np.zeros(100)
    assert pairs_lower_bound(equal, equal, 0, 0.95).epsilon == 0


def test_a_rate_is_a_number_with_ends():
    rate = pickle.loads(pickle.dumps(Rate(0.25, 0.2, 0.3)))
    assert (rate, rate.low, rate.high) == (0.25, 0.2, 0.3)
    assert repr(rate) == "0.25 (0.2 to 0.3)"
