"""Scores of attacks: by hand, and against the mean over every way to break ties."""

import itertools
import json
import math

import numpy as np
import pytest

from sfumato.attack import GroundTruth, reconstruction


def test_a_small_case_is_scored_as_by_hand():
    scores = np.array([[0.9, 0.8, 0.7, 0.1, 0.0], [0.1, 0.2, 0.3, 0.4, 0.5]])
    right = np.array([[1, 0, 1, 0, 0], [1, 1, 0, 0, 1]], bool)
    found = reconstruction(scores, GroundTruth(right, np.array([1, 0])), [3, 1.6], ranks=3)
    # First: 2 of 3 taken are right, of 3 items. Second: 2 are taken, 1 is right, of 3 items.
    cosines = [2 / 3, 1 / math.sqrt(6)]
    np.testing.assert_allclose(found.cosines, cosines)
    assert found.cosine == pytest.approx(np.mean(cosines))
    assert found.cosine_error == pytest.approx(abs(cosines[0] - cosines[1]) / 2)
    assert found.cosine_low == pytest.approx(np.quantile(cosines, 0.1))
    assert found.cosine_high == pytest.approx(np.quantile(cosines, 0.9))
    assert found.precision == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert found.recall == pytest.approx((2 / 3 + 1 / 3) / 2)
    # (3.37): precisions 1, 1/2, 2/3 and 1, 1/2, 1/3.
    assert found.average_precision == pytest.approx(((13 / 6) / 3 + (11 / 6) / 3) / 2)
    assert found.average_precision_error == pytest.approx((2 / 6) / 3 / 2)
    assert found.privacy == 1 - found.cosine
    assert (found.users, found.ranks) == (2, 3)


def over_all_ties(scores, right, size, ranks):
    """Cosine and average precision over all orders that the scores allow."""
    cosines, precisions = [], []
    for order in itertools.permutations(range(len(scores))):
        ranked = [scores[i] for i in order]
        if any(a < b for a, b in itertools.pairwise(ranked)):
            continue
        hits = np.cumsum([right[i] for i in order])
        cosines.append(hits[size - 1] / math.sqrt(sum(right) * size))
        precisions.append(np.mean([hits[min(r, len(scores)) - 1] / r for r in range(1, ranks + 1)]))
    return np.mean(cosines), np.mean(precisions)


def test_ties_favour_nobody():
    draws = np.random.default_rng(0)
    for _ in range(60):
        scores = draws.integers(0, 3, 6).astype(float)
        right = draws.random(6) < 0.5
        right[draws.integers(6)] = True
        size, ranks = draws.integers(1, 7), draws.integers(1, 9)
        found = reconstruction(scores[None], right[None], size, ranks=ranks)
        cosine, precision = over_all_ties(scores, right, size, ranks)
        assert found.cosine == pytest.approx(cosine)
        assert found.average_precision == pytest.approx(precision)


def test_the_order_of_candidates_does_not_matter():
    draws = np.random.default_rng(1)
    scores = draws.integers(0, 5, (50, 40)).astype(float)
    right = draws.random((50, 40)) < 0.3
    sizes = draws.integers(0, 45, 50)
    shuffled = draws.permutation(40)
    one = reconstruction(scores, right, sizes)
    other = reconstruction(scores[:, shuffled], right[:, shuffled], sizes)
    assert one.to_dict() == pytest.approx(other.to_dict())


def test_scores_that_say_nothing_find_what_chance_finds():
    right = np.zeros((3, 100), bool)
    right[:, :20] = True
    found = reconstruction(np.zeros((3, 100)), right, 20)
    assert found.cosine == found.precision == found.recall == pytest.approx(0.2)
    assert found.average_precision == pytest.approx(0.2)
    right_first = reconstruction(right.astype(float), right, 20)
    assert right_first.cosine == right_first.average_precision == 1


def test_large_tables_are_scored_as_small_ones():
    # More cells than are looked at in one go, with sizes from none to all.
    draws = np.random.default_rng(2)
    scores = draws.integers(0, 200, (600, 9000)) / 200.0
    right = draws.random(scores.shape) < 0.02
    sizes = draws.integers(0, 300, 600)
    sizes[5] = 9000
    found = reconstruction(scores, right, sizes)
    for row in (0, 5, 299, 599):
        alone = reconstruction(scores[row : row + 1], right[row : row + 1], sizes[row])
        assert alone.cosine == pytest.approx(found.cosines[row])


def test_sizes_are_rounded_and_cut_and_empty_profiles_have_an_answer():
    scores = np.array([[3.0, 2.0, 1.0]] * 4)
    right = np.array([[1, 0, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]], bool)
    found = reconstruction(scores, right, [-7.0, 99.0, 0.2, 2.0])
    np.testing.assert_allclose(found.cosines, [0, 1 / math.sqrt(3), 1, 0])
    assert found.recall == 0.5  # of those who have an item
    assert found.precision == pytest.approx(
        (1 / 3 + 0) / 2
    )  # of users with a nonempty reconstruction
    assert reconstruction(scores, right, math.inf).precision == pytest.approx(1 / 6)


def test_items_that_are_no_candidates_count_as_missed():
    right = np.array([[True, True]])
    scores = np.ones((1, 2))
    assert reconstruction(scores, right, 2).cosine == pytest.approx(1)
    outside = reconstruction(scores, GroundTruth(right, np.array([6])), 2)
    assert outside.cosine == pytest.approx(2 / math.sqrt(8 * 2))
    assert outside.recall == 0.25


def test_infinite_scores_are_scores():
    found = reconstruction([[-math.inf, math.inf, 0, -math.inf]], np.array([[0, 1, 1, 0]]) > 0, 2)
    assert found.cosine == pytest.approx(1)


def test_figures_are_plain_json_and_absent_ones_are_null():
    found = reconstruction([[1.0, 0.0]], np.zeros((1, 2), bool), 0)
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["cosine"] == 1
    assert document["recall"] is document["precision"] is document["cosine_error"] is None
    assert "cosines" not in document


@pytest.mark.parametrize(
    ("scores", "truth", "sizes", "sentence"),
    [
        ([[1.0, math.nan]], [[True, False]], 1, "scores must be numbers, but one of row 0 is NaN"),
        ([1.0, 2.0], [True, False], 1, "scores must be a table"),
        (np.empty((0, 3)), np.empty((0, 3), bool), 1, "scores must be a table"),
        ([[1.0, 2.0]], [[1, 0]], 1, "truth must be booleans in the shape of scores"),
        ([[1.0, 2.0]], [[True]], 1, "truth must be booleans in the shape of scores"),
        ([[1.0, 2.0]], [[True, False]], [1, 2], "sizes must be a number, or one for each of 1"),
        ([[1.0, 2.0]], [[True, False]], math.nan, "give the mean size of known profiles"),
    ],
)
def test_what_cannot_be_scored_is_refused(scores, truth, sizes, sentence):
    with pytest.raises(ValueError, match=f"^reconstruction: .*{sentence}"):
        reconstruction(scores, np.asarray(truth), sizes)
