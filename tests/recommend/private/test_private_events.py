"""Events of a private model: each row by itself, whatever the ids and ratings of others are."""

import numpy as np
import pytest

from sfumato.data import Interactions, generate_world
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.private.inputs import GRID, Accounts, accounts_of, bounded, events_of
from support.hard_rows import silent

WORLD = generate_world(users=50, items=30, ratings=600, random_state=3).interactions
TEXTS = [WORLD.users.astype(str).tolist(), WORLD.items.astype(str).tolist()]
CATALOGUE = Catalogue(np.arange(30))
BOUNDS = (1.0, 5.0)
LISTS = {
    "list": Accounts(np.arange(50)),
    "texts": Accounts(np.array([str(each) for each in range(50)], object)),
    "rows": Accounts(np.empty(0, np.int64), 200, 5),
}


def columns(events):
    return np.array([events.users, events.items, events.ratings])


@pytest.mark.parametrize("accounts", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize("catalogue", [CATALOGUE, Catalogue([str(each) for each in range(30)])])
def test_ids_as_integers_and_as_texts_are_the_same_events(accounts, catalogue):
    want = columns(
        events_of(WORLD, CATALOGUE, LISTS["rows" if accounts.shared else "list"], BOUNDS)
    )
    assert want.shape == (3, len(WORLD))
    for users in (WORLD.users, TEXTS[0]):
        for items in (WORLD.items, TEXTS[1]):
            train = Interactions(users, items, WORLD.ratings)
            np.testing.assert_array_equal(
                columns(events_of(train, catalogue, accounts, BOUNDS)), want
            )


def test_texts_that_write_no_integer_are_in_no_list_of_integers():
    unknown = ["007", "+7", " 7", "7.00", "guest", ""]
    train = Interactions([*unknown, "7", "7.0"], ["3"] * 8, [5.0] * 8)
    found = columns(events_of(train, CATALOGUE, LISTS["list"], BOUNDS))
    assert found.tolist() == [[7, 7], [3, 3], [2**GRID] * 2]


def retained(train):
    accounts = accounts_of({"unit": "user"}, train, None)
    events = bounded(events_of(train, CATALOGUE, accounts, BOUNDS), accounts, 4, 0)
    return {
        (str(accounts.ids[user]), int(item), int(rating))
        for user, item, rating in columns(events).T
    }


def test_the_sample_of_a_user_does_not_change_when_a_text_joins_the_ids():
    want = retained(WORLD)
    assert len(want) < len(WORLD)
    assert retained(Interactions(TEXTS[0], TEXTS[1], WORLD.ratings)) == want
    more = Interactions([*TEXTS[0], "guest"], [*WORLD.items, 3], [*WORLD.ratings, 5.0])
    assert retained(more) == want | {("guest", 3, 2**GRID)}


def test_a_user_who_repeats_an_item_moves_its_sums_once():
    # NoisySums counts on different items: n events then move a vector by the root of n.
    users, items = [1] * 9 + [2] * 9, [3] * 6 + [4, 5, 6] + [3] * 9
    accounts = Accounts(np.array([1, 2]))
    train = Interactions(users, items, np.linspace(1, 5, 18))
    events = bounded(events_of(train, CATALOGUE, accounts, BOUNDS), accounts, 4, 0)
    for user, squared in [(0, 4), (1, 1)]:
        moved = np.bincount(events.items[events.users == user], minlength=30)
        assert (moved**2).sum() == squared


@pytest.mark.parametrize(
    "bounds", [(1.0, 5.0), (1e308, 1.7e308), (0.0, 1e-323), (1.0, 1.0 + 2.3e-16), (-5.0, -1.0)]
)
def test_the_bounds_are_the_ends_of_the_grid(bounds):
    train = Interactions([1, 1], [1, 2], bounds)
    ends = events_of(train, CATALOGUE, LISTS["list"], bounds).ratings
    assert ends.tolist() == [-(2**GRID), 2**GRID]


@pytest.mark.parametrize("bounds", [(0.0, 1e-300), (-1e308, 0.0), (1.0, 5.0)])
def test_ratings_far_beyond_the_bounds_are_their_ends_without_a_warning(bounds):
    train = Interactions([1, 1], [1, 2], [-1.7e308, 1.7e308])
    ends = silent(lambda: events_of(train, CATALOGUE, LISTS["list"], bounds)).ratings
    assert ends.tolist() == [-(2**GRID), 2**GRID]


def test_a_rating_beyond_the_bounds_counts_as_the_nearest_bound():
    train = Interactions([1, 1, 1, 2], [1, 2, 3, 1], [-1e300, 0.99, 5.01, 1e9])
    ratings = events_of(train, CATALOGUE, LISTS["list"], BOUNDS).ratings
    assert ratings.tolist() == [-(2**GRID), -(2**GRID), 2**GRID, 2**GRID]
