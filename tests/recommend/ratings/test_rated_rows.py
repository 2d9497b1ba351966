"""Ratings grouped by user: order, duplicates, items outside of a catalogue, damaged arrays."""

import numpy as np
import pytest

from sfumato.data import Interactions, generate_world
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.ratings.rated_rows import RatedRows


def test_rows_hold_every_rating_once_by_user_and_ascending_position():
    world = generate_world(users=40, items=25, ratings=400, random_state=3).interactions
    items = Catalogue(np.unique(world.items)[::-1])
    rows = RatedRows.of(world, items)
    expected = {
        (user, item): rating
        for user, item, rating in zip(world.users, world.items, world.ratings, strict=True)
    }
    found = {
        (rows.users.ids[user], items.ids[at]): rating
        for user, at, rating in zip(rows.user_rows, rows.positions, rows.ratings, strict=True)
    }
    assert found == pytest.approx(expected)
    for first, last in zip(rows.starts, rows.starts[1:], strict=False):
        assert (np.diff(rows.positions[first:last]) > 0).all()
    assert len(rows) == len(expected)


def test_duplicates_count_by_their_mean_at_the_latest_time_and_other_items_drop():
    train = Interactions([1, 1, 1, 2], [10, 10, 20, 30], [5, 2, 3, 4], times=[7, 9, 8, 1])
    rows = RatedRows.of(train, Catalogue([20, 10]))
    assert rows.starts.tolist() == [0, 2, 2]
    assert rows.positions.tolist() == [0, 1]
    assert rows.ratings.tolist() == [3.0, 3.5]
    assert rows.times.tolist() == [8.0, 9.0]
    assert [each.tolist() for each in rows.user_times()] == [[8.0, 0.0], [8.5, 0.0], [9.0, 0.0]]
    starts, positions, ratings = rows.take(np.array([-1, 0]))
    assert starts.tolist() == [0, 0, 2]
    assert positions.tolist() == [0, 1]
    assert ratings.tolist() == [3.0, 3.5]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("starts", lambda a: a[:-1]),
        ("starts", lambda a: a[::-1]),
        ("positions", lambda a: a - 1),
        ("positions", lambda a: a + 1),
        ("ratings", lambda a: a[1:]),
        ("ratings", lambda a: a * np.nan),
    ],
)
def test_arrays_that_contradict_each_other_are_refused(name, change):
    rows = RatedRows.of(Interactions([1, 1, 2], [10, 20, 10], [5, 2, 3]), Catalogue([10, 20]))
    arrays = rows.arrays()
    assert RatedRows.from_arrays(rows.users, dict(arrays), 2).positions.tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="rows of positions within the catalogue"):
        RatedRows.from_arrays(rows.users, {**arrays, name: change(arrays[name])}, 2)
