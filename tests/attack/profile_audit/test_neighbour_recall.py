"""Recall of neighbours: by hand, with ties counted fairly, and its expectation for random users."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

from sfumato.attack import neighbour_recall
from sfumato.attack.profile_audit import evaluation
from sfumato.data import Interactions
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.profile import Blip
from support.hard_rows import released_to_all


def answering(users, found):
    """A release that answers with these rows."""

    def nearest_rows(rows, n, *, metric):
        return np.asarray(found)[rows][:, :n], None

    return SimpleNamespace(users_=np.asarray(users), nearest_rows=nearest_rows)


def sets(*profiles):
    pairs = [(user, item) for user, items in enumerate(profiles) for item in items]
    users, items = zip(*pairs, strict=True)
    return Interactions(users, items, np.ones(len(users)))


def test_a_small_case_is_counted_as_by_hand():
    before = sets("abc", "ab", "abcd", "xy", "x")
    # Nearest two: of 0 are 2 and 1; of 1 are 0 and 2; of 2 are 0 and 1; of 3 is 4 and anyone.
    found = [[2, 1], [0, 3], [3, 4], [4, 0], [0, 1]]
    result = neighbour_recall(answering(range(5), found), before, n=2)
    # 4: its second rank may go to anyone, but only one of two can take it.
    assert result.recalls.tolist() == [1, 0.5, 0, 1, 0.5]
    assert result.recall == pytest.approx(0.6)
    assert result.error == pytest.approx(np.std([1, 0.5, 0, 1, 0.5], ddof=1) / 5**0.5)
    assert (result.n, result.users) == (2, 5)
    assert set(json.loads(json.dumps(result.to_dict()))) == {
        "recall",
        "error",
        "chance",
        "k",
        "users",
    }


@pytest.mark.parametrize("metric", ["cosine", "jaccard", "inner"])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_chance_is_the_mean_over_all_answers(metric, k):
    before = sets("abc", "ab", "ab", "xy", "x", "abz")
    by_user = []
    for user in range(6):
        others = [other for other in range(6) if other != user]
        recalls = []
        for picked in itertools.combinations(others, k):
            found = np.zeros((6, k), int)
            found[:] = [(np.arange(k) + 1 + row) % 6 for row in range(6)]
            found[user] = picked
            result = neighbour_recall(answering(range(6), found), before, n=k, metric=metric)
            recalls.append(result.recalls[user])
        by_user.append(np.mean(recalls))
    assert result.chance == pytest.approx(np.mean(by_user))


def test_measures_rank_as_their_formulas_say():
    # To "ab": "abcdef" has cosine 2 / sqrt(12) and 2 in common, "a" has cosine 1 / sqrt(2).
    before = sets("ab", "abcdef", "a")
    for metric, nearest in (("cosine", 2), ("jaccard", 2), ("inner", 1)):
        for answer in (1, 2):
            result = neighbour_recall(answering(range(3), [[answer], [0], [0]]), before, 1, metric)
            assert result.recalls[0] == (answer == nearest)


def test_equal_fractions_are_ties_though_roots_would_round_apart():
    # 1 / sqrt(6) and 3 / sqrt(6 * 9) are the same, but as floats they are not.
    assert 1 / np.sqrt(6) != 3 / np.sqrt(6 * 9)
    before = sets("abcdef", "a", "abcxyzuvw")
    for answer in (1, 2):
        result = neighbour_recall(answering(range(3), [[answer], [0], [0]]), before, 1)
        assert result.recalls[0] == 1


def test_users_without_rows_and_unnamed_neighbours_have_an_answer():
    before = sets("abc", "ab")
    result = neighbour_recall(answering([0, 1, 9], [[1], [-1], [0]]), before, n=1)
    assert result.recalls.tolist() == [1, 0, 1]  # anyone is as near to an empty profile


def test_a_release_with_little_noise_finds_neighbours_and_one_with_much_finds_chance():
    draws = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 10)
    before = Interactions(
        np.repeat(np.arange(120), 40),
        (groups[:, None] * 60 + draws.integers(0, 90, (120, 40))).ravel() % 720,
        np.ones(4800),
    )
    clear, dim = (
        neighbour_recall(
            released_to_all(Blip(epsilon=e), before, source=InsecureSeededSource(1)), before
        )
        for e in (200, 0.01)
    )
    assert clear.chance == dim.chance
    assert 0.08 < clear.chance < 0.12
    assert clear.recall > 0.7
    # Random answers have a deviation of 0.09 per user, so 0.009 in all: beyond 0.06 has p < 1e-9.
    assert abs(dim.recall - dim.chance) < 0.06


@pytest.mark.parametrize("metric", ["cosine", "jaccard", "inner"])
def test_users_in_blocks_count_the_same_and_the_table_is_prepared_once(monkeypatch, metric):
    draws = np.random.default_rng(1)
    before = Interactions(draws.integers(0, 30, 400), draws.integers(0, 40, 400), np.ones(400))
    found = np.argsort(draws.random((30, 30)), axis=1)
    together = neighbour_recall(answering(range(30), found), before, 5, metric)
    prepared, sums = [], csr_array.sum
    monkeypatch.setattr(csr_array, "sum", lambda *a, **b: prepared.append(a) or sums(*a, **b))
    monkeypatch.setattr(evaluation, "CELLS", 4 * 30)
    parts = neighbour_recall(answering(range(30), found), before, 5, metric)
    np.testing.assert_array_equal(parts.recalls, together.recalls)
    assert len(prepared) == 1


@pytest.mark.parametrize("k", [0, 2, "many"])
def test_impossible_questions_are_refused(k):
    with pytest.raises(ValueError, match="neighbour_recall: n must be an integer from 1 to 1"):
        neighbour_recall(answering([0, 1], [[1], [0]]), sets("ab", "a"), k)
    with pytest.raises(ValueError, match="neighbour_recall: metric must be one of"):
        neighbour_recall(answering([0, 1], [[1], [0]]), sets("ab", "a"), 1, "length")
    with pytest.raises(ValueError, match="neighbour_recall: released must have at least 2 users"):
        neighbour_recall(answering([0], [[1]]), sets("ab", "a"), 1)
