"""Ratings from actions: the course's utility matrix from what people did."""

import numpy as np
import pytest

from sfumato.data import ratings_from_actions

VALUES = {"view": 2.0, "cart": 3.0, "purchase": 5.0}
ROWS = {
    "users": ["bob", "ann", "bob", "bob", "ann"],
    "items": ["tea", "rum", "tea", "rum", "rum"],
    "actions": ["view", "purchase", "cart", "view", "view"],
}


@pytest.mark.parametrize(
    ("combine", "expected"),
    [("max", [3.0, 5.0, 2.0]), ("sum", [5.0, 7.0, 2.0]), ("last", [3.0, 2.0, 2.0])],
)
def test_each_pair_has_one_rating_in_order_of_appearance(combine, expected):
    made = ratings_from_actions(**ROWS, values=VALUES, combine=combine)
    assert list(zip(made.users, made.items, strict=True)) == [
        ("bob", "tea"),
        ("ann", "rum"),
        ("bob", "rum"),
    ]
    assert made.ratings.tolist() == expected
    assert made.has_ratings
    assert made.times is None


def test_the_latest_action_decides_by_time_and_its_time_stays():
    made = ratings_from_actions(**ROWS, values=VALUES, times=[9, 8, 3, 1, 2], combine="last")
    assert made.ratings.tolist() == [2.0, 5.0, 2.0]
    assert made.times.tolist() == [9.0, 8.0, 1.0]


def test_bad_input_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"1 kinds of actions have no value; .* view, cart: add"):
        ratings_from_actions(**ROWS, values={"view": 1, "cart": 2})
    with pytest.raises(ValueError, match="combine must be"):
        ratings_from_actions(**ROWS, values=VALUES, combine="mean")
    with pytest.raises(ValueError, match=r"values\['view'\]"):
        ratings_from_actions(**ROWS, values={**VALUES, "view": np.inf})
    with pytest.raises(ValueError, match="length"):
        ratings_from_actions([1], [2], ["view", "cart"], VALUES)


def test_no_actions_are_no_rows():
    assert len(ratings_from_actions([], [], [], VALUES)) == 0
