"""True profiles and priors from known users: counted by hand, for ids of all types."""

import math

import numpy as np
import pytest

from sfumato.attack import bounds, item_prior, size_prior, truth_matrix
from sfumato.data import Interactions

RAW = Interactions(
    users=["ann", "ann", "bob", "ann", "cid", "bob"],
    items=["tea", "rum", "tea", "tea", "ale", "gin"],
    ratings=[1] * 6,
)


def test_profiles_are_a_table_of_candidates_and_a_count_of_the_rest():
    truth = truth_matrix(RAW, ["dan", "bob", "ann"], ["ale", "tea", "milk"])
    assert truth.present.tolist() == [
        [False, False, False], [False, True, False], [False, True, False],
    ]  # fmt: skip
    assert truth.outside.tolist() == [0, 1, 1]  # gin, rum; ann's tea occurs twice and counts once
    assert truth.sizes.tolist() == [0, 2, 2]


def test_integers_and_their_texts_are_one_id():
    rows = Interactions([1, 1, 2], [7, 8, 7], [1, 1, 1])
    plain = truth_matrix(rows, [2, 1], [8, 7])
    texts = truth_matrix(rows, ["2", "1"], ["8", "7"])
    assert plain.present.tolist() == texts.present.tolist() == [[False, True], [True, True]]
    assert (item_prior(rows, [7, 9]) == item_prior(rows, ["7", "9"])).all()


def test_the_prior_of_an_item_is_its_proportion_after_one_average_user():
    # Three known users; tea has 2 of them, ale 1, milk none: m = (3 + 1) / (9 + 2).
    m = 4 / 11
    found = item_prior(RAW, ["tea", "ale", "milk"])
    np.testing.assert_allclose(found, [(2 + m) / 4, (1 + m) / 4, m / 4])
    # Known users may have no rows at all, and rows of others are not used.
    m = 2 / 8
    found = item_prior(RAW, ["tea", "ale", "milk"], users=["bob", "eve"])
    np.testing.assert_allclose(found, [(1 + m) / 3, m / 3, m / 3])


def test_the_prior_is_never_certain():
    everyone = Interactions([1, 2, 3], [7, 7, 7], [1, 1, 1])
    for candidates in ([7], [7, 8], [9]):
        found = item_prior(everyone, candidates)
        assert ((found > 0) & (found < 1)).all()
    assert (item_prior(everyone, [7], users=[]) > 0).all()


def test_the_prior_of_sizes_is_their_empirical_distribution():
    found = size_prior(RAW, users=["ann", "bob", "cid", "dan"])
    assert found.sizes.tolist() == [0, 1, 2]
    assert found.chances.tolist() == [0.25, 0.25, 0.5]
    assert found.mean == 1.25
    assert found.to_dict() == {"mean": 1.25, "sizes": [0, 1, 2], "chances": [0.25, 0.25, 0.5]}
    # (3.8): the mean occupancy is below that of the mean size, as occupancy is concave.
    fraction = found.chances @ bounds.occupancy(10, 3, found.sizes)
    assert fraction == pytest.approx(0.25 * (1 - 0.9**3) + 0.5 * (1 - 0.9**6))
    assert fraction < bounds.occupancy(10, 3, found.mean)


def test_empty_columns_give_empty_tables():
    nothing = Interactions(np.array([], np.int64), np.array([], np.int64), [])
    truth = truth_matrix(nothing, [1, 2], [7])
    assert truth.present.shape == (2, 1)
    assert truth.sizes.tolist() == [0, 0]
    assert size_prior(nothing, users=[1]).mean == 0
    assert math.isclose(item_prior(nothing, [7], users=[1])[0], (1 / 3) / 2)


def test_ids_that_occur_twice_are_refused():
    with pytest.raises(ValueError, match="truth_matrix: users must be distinct ids"):
        truth_matrix(RAW, ["ann", "ann"], ["tea"])
    with pytest.raises(ValueError, match="item_prior: candidates must be distinct ids"):
        item_prior(RAW, ["tea", "tea"])
    with pytest.raises(ValueError, match="size_prior: users must be at least one"):
        size_prior(RAW, users=[])
