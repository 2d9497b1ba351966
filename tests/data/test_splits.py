"""Splits share no row, lose none, and divide at random, by user or by time."""

import numpy as np
import pytest

from sfumato.data import (
    Interactions,
    folds,
    generate_world,
    leave_last_out,
    split_by_time,
    split_by_user,
    without_rare,
)

INTERACTIONS = generate_world(users=80, items=60, ratings=1500, random_state=2).interactions
UNTIMED = Interactions(INTERACTIONS.users, INTERACTIONS.items, INTERACTIONS.ratings)


def rows(part):
    """Times are all different here, so they name the rows."""
    return part.times.tolist()


def test_random_parts_have_the_given_sizes_and_share_no_row():
    parts = INTERACTIONS.split(0.8, 0.1, 0.1, random_state=3)
    assert [len(part) for part in parts] == [1200, 150, 150]
    assert sorted(row for part in parts for row in rows(part)) == rows(INTERACTIONS)
    assert all(rows(part) == sorted(rows(part)) for part in parts)
    assert [len(part) for part in INTERACTIONS.split(0.5, 0.25)] == [750, 375]


def test_random_parts_depend_on_the_seed_alone():
    assert (
        INTERACTIONS.split(0.8, 0.2, random_state=3)[0]
        == INTERACTIONS.split(0.8, 0.2, random_state=3)[0]
    )
    assert (
        INTERACTIONS.split(0.8, 0.2, random_state=3)[0]
        != INTERACTIONS.split(0.8, 0.2, random_state=4)[0]
    )


def test_random_parts_favour_no_row():
    # A row is in the test of 1000 seeds Binomial(1000, 0.2) times; of 1500 rows one is outside of
    # 120 to 290 with p < 1e-7.
    hits = np.zeros(len(INTERACTIONS))
    for seed in range(1000):
        hits[
            np.searchsorted(
                INTERACTIONS.times, INTERACTIONS.split(0.8, 0.2, random_state=seed)[1].times
            )
        ] += 1
    assert 120 < hits.min() < hits.max() < 290


@pytest.mark.parametrize(
    "sizes", [(), (0.8, 0.3), (0.0, 0.5), (-0.1, 0.5), (1.5,), (np.nan,), ("a",), (True,), (80, 20)]
)
def test_sizes_that_are_no_shares_are_refused(sizes):
    with pytest.raises(ValueError, match="split: "):
        INTERACTIONS.split(*sizes)


@pytest.mark.parametrize("latest", [True, False])
def test_each_user_leaves_so_many_rows(latest):
    train, test = split_by_user(INTERACTIONS, 3, latest=latest, random_state=1)
    counts = np.bincount(INTERACTIONS.users)
    left = np.bincount(test.users, minlength=counts.size)
    assert np.array_equal(left, np.where(counts > 3, 3, 0))
    assert sorted(rows(train) + rows(test)) == rows(INTERACTIONS)


def test_each_user_leaves_a_share_and_keeps_the_rest():
    train, test = split_by_user(INTERACTIONS, 0.3, random_state=1)
    counts = np.bincount(INTERACTIONS.users)
    assert np.array_equal(np.bincount(test.users, minlength=80), np.floor(0.3 * counts + 1e-9))
    assert sorted(rows(train) + rows(test)) == rows(INTERACTIONS)
    assert rows(test) != rows(split_by_user(INTERACTIONS, 0.3, random_state=2)[1])
    for same in (np.float64(0.25), np.float32(0.25), np.float16(0.25)):
        assert rows(split_by_user(INTERACTIONS, same)[1]) == rows(
            split_by_user(INTERACTIONS, 0.25)[1]
        )


def test_who_has_too_few_rows_stays_in_train():
    few = Interactions([1, 2, 2, 3, 3, 3], [1, 1, 2, 1, 2, 3], [1] * 6)
    train, test = split_by_user(few, 2)
    assert set(test.users) == {3}
    assert set(train.users) == {1, 2, 3}


def test_the_latest_rows_of_a_user_are_left():
    shuffled = INTERACTIONS.filter(np.random.default_rng(1).permutation(len(INTERACTIONS)))
    train, test = split_by_user(shuffled, 2, latest=True)
    for user in np.unique(test.users):
        assert train.times[train.users == user].max() < test.times[test.users == user].min()


def test_the_last_row_of_a_user_is_left_by_time_or_else_by_order():
    shuffled = INTERACTIONS.filter(np.random.default_rng(1).permutation(len(INTERACTIONS)))
    for leave in (1, 4):
        assert leave_last_out(shuffled, leave) == split_by_user(shuffled, leave, latest=True)
    few = Interactions([1, 2, 1, 2, 3, 1], ["a", "b", "c", "d", "e", "f"])
    train, test = leave_last_out(few)
    assert (test.items.tolist(), train.items.tolist()) == (["d", "f"], ["a", "b", "c", "e"])
    assert not test.has_ratings
    assert leave_last_out(few, 2)[1].items.tolist() == ["c", "f"]
    with pytest.raises(ValueError, match="leave_last_out: leave must be"):
        leave_last_out(few, 0.5)


def test_a_share_by_time_is_the_latest_rows():
    shuffled = INTERACTIONS.filter(np.random.default_rng(1).permutation(len(INTERACTIONS)))
    train, test = split_by_time(shuffled, 0.1)
    assert (len(train), len(test)) == (1350, 150)
    assert train.times.max() < test.times.min()
    equal = Interactions([1] * 4, range(4), [1] * 4, times=[5] * 4)
    assert split_by_time(equal, 0.5)[1].items.tolist() == [2, 3]


def test_a_moment_parts_before_from_after():
    train, test = split_by_time(INTERACTIONS, at=INTERACTIONS.times[700])
    assert (len(train), test.times[0]) == (700, INTERACTIONS.times[700])


@pytest.mark.parametrize("options", [{}, {"share": 0.1, "at": 3}, {"share": 1.0}, {"share": 0}])
def test_time_splits_need_one_good_size(options):
    with pytest.raises(ValueError, match="split_by_time: "):
        split_by_time(INTERACTIONS, **options)


def test_splits_by_time_need_times():
    with pytest.raises(ValueError, match="no times"):
        split_by_time(UNTIMED, 0.1)
    with pytest.raises(ValueError, match="no times"):
        split_by_user(UNTIMED, latest=True)


@pytest.mark.parametrize("leave", [0, -1, 1.0, 0.0, "one", None, True])
def test_what_a_user_leaves_is_a_number_of_rows_or_a_share(leave):
    with pytest.raises(ValueError, match="split_by_user: leave"):
        split_by_user(INTERACTIONS, leave)


def test_every_row_is_in_one_test_of_the_folds():
    pairs = list(folds(INTERACTIONS, 7, random_state=1))
    assert sorted(row for _, test in pairs for row in rows(test)) == rows(INTERACTIONS)
    assert all(sorted(rows(train) + rows(test)) == rows(INTERACTIONS) for train, test in pairs)
    sizes = [len(test) for _, test in pairs]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("count", [1, 0, 1501, 2.5, None])
def test_folds_are_at_least_two_and_at_most_the_rows(count):
    with pytest.raises(ValueError, match="folds: n must"):
        folds(INTERACTIONS, count)


@pytest.mark.parametrize("texts", [False, True])
def test_rows_of_rare_users_and_items_are_removed_by_their_counts_in_train(texts):
    train, test = INTERACTIONS.split(0.8, 0.2)
    users, items = np.bincount(train.users, minlength=80), np.bincount(train.items, minlength=60)
    keep = (users[test.users] >= 18) & (items[test.items] >= 18)
    assert 0 < keep.sum() < len(test)
    if texts:
        train, test = (
            Interactions(each.users, each.items.astype(str), each.ratings, each.times)
            for each in (train, test)
        )
    assert without_rare(test, train, least=18) == test.filter(keep)
    assert without_rare(test, train, least=0) == test
    assert len(without_rare(test, train.filter([]))) == 0
