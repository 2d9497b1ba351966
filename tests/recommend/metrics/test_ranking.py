"""Ranked metrics equal scikit-learn's and hand-worked ones, whatever is empty, repeated or text."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import average_precision_score, ndcg_score

from sfumato.data import Interactions
from sfumato.recommend.metrics.beyond_accuracy import coverage, diversity, novelty
from sfumato.recommend.metrics.ranking import (
    average_precision,
    hit_rate,
    map_at_k,
    mrr,
    ndcg,
    precision,
    ranked,
    recall,
)

METRICS = [precision, recall, map_at_k, average_precision, ndcg, mrr, hit_rate]
# Three users: hits at positions 1 and 3 of 3, at position 2, and none.
LISTS = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
RIGHT = ([0, 0, 0, 1, 2], [1, 3, 99, 5, 1])


def world(users=300, items=40, length=7, seed=3):
    """Lists of the best by score, the truth as pairs, and both as dense tables."""
    rng = np.random.default_rng(seed)
    scores = rng.permuted(np.tile(np.arange(items, dtype=float), (users, 1)), axis=1)
    truth = rng.random((users, items)) < rng.choice([0.0, 0.02, 0.2], (users, 1))
    best = np.argsort(-scores, axis=1)[:, :length]
    return best, np.nonzero(truth), truth, scores


def by_loop(best, truth, of_user):
    """The mean of a metric written for one user, over users who have a relevant item."""
    result = [
        of_user([truth[u, i] for i in best[u]], truth[u].sum())
        for u in np.flatnonzero(truth.any(1))
    ]
    return np.mean(result)


ONE_USER = {
    precision: lambda hit, total: sum(hit) / len(hit),
    recall: lambda hit, total: sum(hit) / total,
    map_at_k: lambda hit, total: np.mean([sum(hit[:k]) / k for k in range(1, len(hit) + 1)]),
    average_precision: lambda hit, total: (
        sum(sum(hit[: k + 1]) / (k + 1) for k in range(len(hit)) if hit[k]) / min(total, len(hit))
    ),
    mrr: lambda hit, total: 1 / (hit.index(True) + 1) if any(hit) else 0.0,
    hit_rate: lambda hit, total: float(any(hit)),
    ndcg: lambda hit, total: (
        sum(h / math.log2(k + 2) for k, h in enumerate(hit))
        / sum(1 / math.log2(k + 2) for k in range(min(total, len(hit))))
    ),
}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.__name__)
def test_metric_is_its_definition_user_by_user(metric):
    best, pairs, truth, _ = world()
    assert 0 < truth.any(1).sum() < len(truth)
    assert metric(best, pairs) == pytest.approx(by_loop(best, truth, ONE_USER[metric]), abs=1e-12)


def test_hand_worked_lists():
    assert precision(LISTS, RIGHT) == pytest.approx((2 / 3 + 1 / 3 + 0) / 3)
    assert recall(LISTS, RIGHT) == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert map_at_k(LISTS, RIGHT) == pytest.approx(
        ((1 + 1 / 2 + 2 / 3) / 3 + (0 + 1 / 2 + 1 / 3) / 3) / 3
    )
    assert average_precision(LISTS, RIGHT) == pytest.approx(((1 + 2 / 3) / 3 + 1 / 2 + 0) / 3)
    assert mrr(LISTS, RIGHT) == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert hit_rate(LISTS, RIGHT) == pytest.approx(2 / 3)
    log = math.log2
    assert ndcg(LISTS, RIGHT) == pytest.approx(
        ((1 + 1 / log(4)) / (1 + 1 / log(3) + 1 / log(4)) + 1 / log(3)) / 3
    )


def test_thesis_mean_of_precisions_is_not_the_usual_average_precision():
    first = [[5, 1, 2, 3]], ([0], [5])
    assert average_precision(*first) == 1
    assert map_at_k(*first) == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)


def test_average_precision_and_ndcg_are_those_of_scikit_learn():
    best, _, truth, scores = world()
    some = truth.any(1)
    full = np.argsort(-scores, axis=1)
    pairs = np.nonzero(truth)
    theirs = [average_precision_score(t, s) for t, s in zip(truth[some], scores[some], strict=True)]
    assert average_precision(full, pairs) == pytest.approx(np.mean(theirs))
    assert ndcg(best, pairs) == pytest.approx(
        ndcg_score(truth[some], scores[some], k=best.shape[1])
    )


def test_ndcg_takes_graded_gains_as_scikit_learn_does():
    best, pairs, truth, scores = world(seed=5)
    gains = np.random.default_rng(1).integers(1, 6, pairs[0].size).astype(float)
    graded = np.zeros(truth.shape)
    graded[pairs] = gains
    some = truth.any(1)
    theirs = ndcg_score(graded[some], scores[some], k=best.shape[1])
    assert ndcg(best, pairs, gains=gains) == pytest.approx(theirs)
    assert ndcg(best, pairs, gains=gains) != pytest.approx(ndcg(best, pairs))


def test_ranked_tells_all_of_them_and_how_many_users_counted():
    best, pairs, truth, _ = world()
    result = ranked(best, pairs)
    assert result.pop("users") == truth.any(1).sum()
    assert result == {metric.__name__: metric(best, pairs) for metric in METRICS}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.__name__)
def test_a_user_without_relevant_items_is_left_out(metric):
    more = np.vstack([LISTS, [[10, 11, 12]]])
    assert metric(more, RIGHT) == metric(LISTS, RIGHT)
    assert math.isnan(metric(LISTS, ([], [])))


@pytest.mark.parametrize("empty", [-np.inf, False], ids=["scores", "mask"])
def test_empty_places_hold_no_item_and_an_empty_list_counts_nothing(empty):
    full = np.ones(LISTS.shape) if empty else np.ones(LISTS.shape, bool)
    full[0, 1:] = empty
    full[1] = empty
    result = ranked(np.where(full > 0, LISTS, 3), RIGHT, scores=full)
    assert result["precision"] == pytest.approx(1 / 3)  # one of one, none of none, none of three
    assert result["recall"] == pytest.approx(1 / 9)
    assert result["map_at_k"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 9)
    assert result["hit_rate"] == pytest.approx(1 / 3)


def test_interactions_and_texts_are_matched_by_user():
    names = np.array([f"item {i}" for i in range(100)], object)
    rows, items = np.array(RIGHT[0]), np.array(RIGHT[1])
    users = np.array(["c", "a", "b"], object)
    observed = Interactions(
        [*users[rows], "nobody", "c"], [*names[items], names[4], names[1]], np.ones(rows.size + 2)
    )
    result = ranked(names[LISTS], observed, users=users)
    assert result == ranked(LISTS, RIGHT)  # nobody has no list, and a duplicate pair counts once


def test_large_ids_are_not_confused():
    lists = np.array([[2**62, 2**62 + 1]])
    assert recall(lists, ([0, 0], [2**62 + 1, 2**62 + 2])) == 0.5


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([1, 2], ([0], [1])), "users x items"),
        ((np.zeros((0, 3), int), ([], [])), "users x items"),
        (([[1, 1]], ([0], [1])), "repeat an item in a list, as row 0"),
        (([[1, 2]], ([1], [1])), "from 0 to 0"),
        (([[1, 2]], ([0, 0], [1])), "one row for each"),
        (([[1, 2]], ([0], ["a"])), "integers in both"),
    ],
)
def test_bad_lists_are_refused_by_name(arguments, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        precision(*arguments)


def test_bad_options_are_refused_by_name():
    with pytest.raises(ValueError, match="must not be NaN"):
        recall([[1, 2]], ([0], [1]), scores=[[1, np.nan]])
    with pytest.raises(ValueError, match="shape of recommended"):
        recall([[1, 2]], ([0], [1]), scores=[1.0, 2.0])
    with pytest.raises(ValueError, match="gains must be"):
        ndcg([[1, 2]], ([0], [1]), gains=[np.nan])
    observed = Interactions([1], [1], [1])
    with pytest.raises(ValueError, match="users must be given"):
        recall([[1, 2]], observed)
    with pytest.raises(ValueError, match="2 different ids"):
        recall([[1, 2], [1, 2]], observed, users=[1, 1])


def test_coverage_counts_the_catalogue_that_is_listed_somewhere():
    result = [[1, 2], [2, 9]]
    assert coverage(result, [1, 2, 3, 4, 9]) == pytest.approx(3 / 5)
    assert coverage(result, [1, 2, 3, 4], scores=[[1, 1], [1, -np.inf]]) == pytest.approx(1 / 2)
    with pytest.raises(ValueError, match="every recommended item"):
        coverage(result, [1, 2])


def test_novelty_is_the_mean_self_information():
    result = novelty([["a", "b"], ["b", "c"]], ["a", "b", "c"], [16, 4, 0], users=16)
    assert result == pytest.approx((0 + 2 + 2 + 4) / 4)
    with pytest.raises(ValueError, match="counts must be"):
        novelty([[1]], [1], [9], users=8)


def test_diversity_is_the_mean_distance_of_pairs():
    rng = np.random.default_rng(2)
    vectors, lists = (
        rng.normal(size=(30, 4)),
        rng.permuted(np.tile(np.arange(30), (50, 1)), axis=1)[:, :6],
    )
    result = rng.random(lists.shape) < 0.7
    result[0, 1:] = False
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    far = []
    for row, mask in zip(lists, result, strict=True):
        similarity = unit[row[mask]] @ unit[row[mask]].T
        if mask.sum() > 1:
            far.append(np.mean(1 - similarity[np.triu_indices(mask.sum(), 1)]))
    for given in (vectors, csr_array(vectors)):
        found = diversity(lists, np.arange(30), given, scores=result)
        assert found == pytest.approx(np.mean(far))
    assert math.isnan(diversity(lists[:1], np.arange(30), vectors, scores=result[:1]))
