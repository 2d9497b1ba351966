"""Errors of ratings, correlations and AUC equal scikit-learn's and SciPy's, ties and all."""

import math

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import mean_absolute_error, mean_squared_error, roc_auc_score

from sfumato.data import Interactions
from sfumato.recommend import Popular, UserNeighbours
from sfumato.recommend.bias import DampedMeans
from sfumato.recommend.metrics.rating import auc, evaluate, mae, rmse, roc_curve, spearman

RNG = np.random.default_rng(7)
TRUTH = RNG.integers(1, 6, 500).astype(float)
PREDICTED = np.round(TRUTH + RNG.normal(size=500), 1)  # rounded, so that many are equal
USERS = RNG.integers(0, 40, 500) * 10**15


class Fixed:
    """A model of known answers: it predicts 3 and lists the items 1 to n, or less for user 9."""

    nbytes = 128
    catalogue_ = np.arange(1, 11)

    def predict(self, users, items):
        return np.full(len(users), 3.0)

    def recommend(self, users, n=10, *, exclude=None):
        self.excluded = exclude
        scores = np.tile(np.arange(n, 0, -1.0), (len(users), 1))
        scores[np.asarray(users) == 9, 1:] = -np.inf
        return np.tile(np.arange(1, n + 1), (len(users), 1)), scores


def test_errors_are_those_of_scikit_learn():
    assert rmse(TRUTH, PREDICTED) == pytest.approx(math.sqrt(mean_squared_error(TRUTH, PREDICTED)))
    assert mae(TRUTH, PREDICTED) == pytest.approx(mean_absolute_error(TRUTH, PREDICTED))
    assert rmse([1], [3]) == mae([1], [3]) == 2


def test_spearman_is_that_of_scipy_with_ties():
    assert spearman(TRUTH, PREDICTED) == pytest.approx(spearmanr(TRUTH, PREDICTED).statistic)
    own = [spearmanr(TRUTH[u == USERS], PREDICTED[u == USERS]).statistic for u in np.unique(USERS)]
    assert spearman(TRUTH, PREDICTED, users=USERS) == pytest.approx(np.mean(own))


def test_auc_is_that_of_scikit_learn_with_ties():
    right = TRUTH >= 4
    assert auc(right, PREDICTED) == pytest.approx(roc_auc_score(right, PREDICTED))
    rows = [u == USERS for u in np.unique(USERS)]
    own = [roc_auc_score(right[row], PREDICTED[row]) for row in rows if 0 < right[row].mean() < 1]
    assert auc(right, PREDICTED, users=USERS) == pytest.approx(np.mean(own))


def test_users_of_whom_nothing_can_be_said_are_left_out():
    truth, result = [1, 2, 3, 5, 5], [1, 2, 3, 1, 2]
    assert spearman(truth, result, users=[0, 0, 0, 1, 1]) == 1
    assert auc([True, False, True, True], [2, 1, 1, 2], users=["a", "a", "b", "b"]) == 1
    assert math.isnan(spearman([1, 1], [1, 2]))
    assert math.isnan(auc([True, True], [1, 2]))


@pytest.mark.parametrize("metric", [rmse, mae, spearman])
def test_bad_columns_are_refused_by_name(metric):
    name = metric.__name__
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=f"{name}: predicted must be finite, and row 1"):
            metric([1, 2], [1, bad])
        with pytest.raises(ValueError, match=f"{name}: truth must be finite, and row 0"):
            metric([bad, 2], [1, 2])
    for truth, result in (([1, 2], [1]), ([], [])):
        with pytest.raises(ValueError, match="one length above 0"):
            metric(np.array(truth, float), np.array(result, float))
    with pytest.raises(TypeError, match="column of numbers"):
        metric(["a"], [1])


def test_bad_auc_columns_are_refused_by_name():
    with pytest.raises(TypeError, match="booleans"):
        auc([1, 0], [1, 2])
    with pytest.raises(ValueError, match="scores must be finite"):
        auc([True, False], [1, np.nan])
    with pytest.raises(ValueError, match="users must be one"):
        auc([True, False], [1, 2], users=[1])


def test_evaluate_tells_errors_size_and_lists():
    test = Interactions([7, 7, 9, 9], [1, 3, 2, 1], [5, 1, 4, 2])
    model = Fixed()
    result = evaluate(model, test)
    assert result == {"rmse": rmse(test.ratings, [3] * 4), "mae": 1.5, "n": 4, "nbytes": 128}
    lists = evaluate(model, test, n=3, exclude=test)
    assert model.excluded is test
    assert {name: lists[name] for name in result} == result
    assert lists["recall"] == pytest.approx((1 + 1 / 2) / 2)
    assert lists["precision"] == pytest.approx((2 / 3 + 1) / 2)
    assert lists["coverage"] == pytest.approx(3 / 10)
    assert (lists["users"], lists["places"]) == (2, 3)
    liked = evaluate(model, test, n=3, relevant_from=4)
    assert liked["recall"] == pytest.approx((1 + 0) / 2)


def test_evaluate_asks_a_model_that_only_lists():
    class Lister:
        nbytes, catalogue_, recommend = 8, Fixed.catalogue_, Fixed.recommend

    result = evaluate(Lister(), Interactions([7], [1], [5]), n=2)
    assert "rmse" not in result
    assert result["hit_rate"] == 1


def test_evaluate_asks_once_for_all_lists():
    class Counted(Fixed):
        queries = 0

        def recommend(self, users, n=10, *, exclude=None):
            self.queries += 1
            return super().recommend(users, n, exclude=exclude)

    users = np.arange(20_000)
    model = Counted()
    assert evaluate(model, Interactions(users, users % 5, users % 3), n=2)["users"] == users.size
    assert model.queries == 1
    moved = []
    test = Interactions(users, users % 5, users % 3)
    watched = evaluate(model, test, n=2, progress=lambda *done: moved.append(done))
    assert watched == evaluate(model, test, n=2)
    assert moved[0] == (1024, 20_000)
    assert moved[-1] == (20_000, 20_000)
    assert len(moved) == 20


def test_evaluate_tells_the_size_of_means_and_of_what_has_none():
    test = Interactions([7, 7, 9, 9], [1, 3, 2, 1], [5, 1, 4, 2])
    assert evaluate(DampedMeans().fit(test), test)["nbytes"] == 2 * 16 + 3 * 8
    for size in ({}, {"nbytes": None}):
        model = type("Plain", (), {"predict": Fixed.predict, **size})()
        assert set(evaluate(model, test)) == {"rmse", "mae", "n"}


def test_evaluate_refuses_nothing_and_nonsense():
    with pytest.raises(ValueError, match="at least one row"):
        evaluate(Fixed(), Interactions([], [], []))
    for bad in (0, 1.5, "ten", True):
        with pytest.raises(ValueError, match="evaluate: n must be"):
            evaluate(Fixed(), Interactions([7], [1], [5]), n=bad)


def test_a_model_of_lists_is_not_measured_as_one_of_ratings():
    ratings = Interactions([1, 1, 2, 2], [10, 20, 10, 30], [5, 1, 4, 2])
    for model in (Popular(), UserNeighbours()):
        assert not {"rmse", "mae"} & set(evaluate(model.fit(ratings), ratings, n=2))
    rated = UserNeighbours(predicts="ratings").fit(ratings)
    assert {"rmse", "mae"} <= set(evaluate(rated, ratings, n=2))


def test_the_roc_curve_encloses_the_area_of_auc_and_counts_every_threshold():
    random = np.random.default_rng(4)
    scores = random.integers(0, 12, 300) / 4  # many ties
    relevant = random.random(300) < 0.2 + scores / 6
    false, true, thresholds = roc_curve(relevant, scores)
    area = np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2)
    assert area == pytest.approx(auc(relevant, scores), abs=1e-12)
    for one, other, least in zip(false, true, thresholds, strict=True):
        assert one == pytest.approx((scores[~relevant] >= least).mean())
        assert other == pytest.approx((scores[relevant] >= least).mean())
    with pytest.raises(ValueError, match="both True and False"):
        roc_curve([True, True], [1, 2])
    with pytest.raises(TypeError, match="roc_curve: relevant must be booleans"):
        roc_curve([1, 0], [1, 2])
