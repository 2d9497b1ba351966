"""Contribution bounds: limits hold, one event moves two rows at most, one user only their own."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from sfumato.privacy.bounding import ContributionBound, bound_contributions

LIMITS = [(1, 1), (2, 1), (2, 2), (3, 2), (3, 1)]


def sampled(users, items, per_user, per_item, seed=5):
    return bound_contributions(users, items, per_user=per_user, per_item=per_item, seed=seed)


def streamed(users, items, per_user, per_item, seed=5):
    return ContributionBound(per_user, per_item).keep(users, items)


def kept_rows(way, events, limits, seed=5):
    """The rows that are kept, each told apart by a name of its own."""
    if not events:
        return set()
    users, items, names = (list(column) for column in zip(*events, strict=True))
    keep = way(users, items, *limits, seed)
    return {name for name, stays in zip(names, keep, strict=True) if stays}


@pytest.mark.parametrize("way", [sampled, streamed])
@pytest.mark.parametrize("limits", LIMITS)
def test_one_event_more_brings_in_one_row_and_puts_out_one_at_most(way, limits):
    # Every stream of up to 4 events of one user with 3 items, and every event at every place.
    seen = set()
    for size in range(5):
        for stream in itertools.product(range(3), repeat=size):
            events = [(1, item, name) for name, item in enumerate(stream)]
            before = kept_rows(way, events, limits)
            for at, item in itertools.product(range(size + 1), range(3)):
                after = kept_rows(way, [*events[:at], (1, item, "new"), *events[at:]], limits)
                seen.add((len(after - before), len(before - after)))
    assert seen <= {(0, 0), (1, 0), (1, 1)}
    assert (1, 1) in seen  # so the distance of an event is 2, not 1


@pytest.mark.parametrize("way", [sampled, streamed])
def test_one_event_more_among_several_users_and_many_events(way):
    rng = np.random.default_rng(3)
    for seed in range(150):
        size = int(rng.integers(1, 200))
        pairs = rng.integers(0, [3, 12], (size, 2))
        events = [(int(u), int(i), name) for name, (u, i) in enumerate(pairs)]
        limits = int(rng.integers(1, 60)), int(rng.integers(1, 20))
        before = kept_rows(way, events, limits, seed)
        at, new = int(rng.integers(0, size + 1)), (int(rng.integers(0, 3)), 4, "new")
        after = kept_rows(way, [*events[:at], new, *events[at:]], limits, seed)
        assert len(after - before) <= 1
        assert len(before - after) <= 1


def test_priorities_by_occurrence_alone_would_move_many_rows():
    # What a careless rule does: hash the number of the event within its user, keep the lowest.
    def careless(size, limit):
        rank = np.argsort(np.random.default_rng(0).random(100)[:size])
        return set(rank[:limit].tolist())

    before = careless(40, 10)
    after = {row - 1 for row in careless(41, 10)}  # one event more in front
    assert len(before - after) > 1


@pytest.mark.parametrize("way", [sampled, streamed])
@pytest.mark.parametrize("limits", LIMITS)
def test_limits_hold_and_no_room_is_left_unused(way, limits):
    rng = np.random.default_rng(1)
    users, items = rng.zipf(1.5, 3000) % 50, rng.integers(0, 8, 3000)
    keep = way(users, items, *limits)
    per_user, per_item = limits
    pairs = np.zeros((50, 8), int)
    np.add.at(pairs, (users, items), 1)
    kept = np.zeros((50, 8), int)
    np.add.at(kept, (users[keep], items[keep]), 1)
    assert kept.max() <= per_item
    assert (kept.sum(axis=1) == np.minimum(np.minimum(pairs, per_item).sum(axis=1), per_user)).all()


@pytest.mark.parametrize("way", [sampled, streamed])
def test_one_user_less_changes_no_row_of_others(way):
    rng = np.random.default_rng(2)
    users, items = rng.integers(0, 20, 2000), rng.integers(0, 30, 2000)
    keep = way(users, items, 7, 2)
    for user in range(20):
        others = users != user
        assert (way(users[others], items[others], 7, 2) == keep[others]).all()


def test_the_kept_pairs_do_not_depend_on_the_order_of_events():
    rng = np.random.default_rng(4)
    users, items = rng.integers(0, 20, 2000), rng.integers(0, 30, 2000)
    keep = sampled(users, items, 9, 2)
    kept = sorted(zip(users[keep], items[keep], strict=True))
    for _ in range(5):
        order = rng.permutation(2000)
        again = sampled(users[order], items[order], 9, 2)
        assert sorted(zip(users[order][again], items[order][again], strict=True)) == kept


def test_every_item_is_as_likely_to_be_kept():
    # 5 of 20 items under 1000 seeds: each is kept 250 times, deviation 14; 6 of them: p < 1e-7.
    times = np.zeros(20, int)
    for seed in range(1000):
        times += bound_contributions([9] * 20, range(20), per_user=5, seed=seed)
    assert times.sum() == 5000
    assert np.abs(times - 250).max() < 84


@pytest.mark.parametrize("size", [5, 64, 65, 400])
def test_a_user_of_any_size_follows_the_stated_rule(size):
    from sfumato.hashing import hash_column

    mask, golden = 2**64 - 1, 0x9E3779B97F4A7C15

    def mix(z):
        z = ((z ^ z >> 27) * 0x3C79AC492BA7B653) & mask
        z = ((z ^ z >> 33) * 0x1C69B3F74AC4AE35) & mask
        return z ^ z >> 27

    items = np.random.default_rng(size).integers(0, 9, size)
    of_user, of_item = int(hash_column([3], 5)[0]), hash_column(items, 5).tolist()
    names = [(h * golden + of_user) & mask for h in of_item]
    slots = [(name, k) for name in set(names) for k in range(names.count(name))]
    quota = dict.fromkeys(names, 0)
    for _, name in sorted((mix((name + k * golden) & mask), name) for name, k in slots):
        if sum(quota.values()) < 6 and quota[name] < 2:
            quota[name] += 1
    expected = [names[:at].count(name) < quota[name] for at, name in enumerate(names)]
    assert sampled([3] * size, items, 6, 2).tolist() == expected


def test_without_items_the_first_events_of_a_user_are_kept():
    keep = bound_contributions(["a", "b", "a", "a", "b"], per_user=2, seed=1)
    assert keep.tolist() == [True, True, True, False, True]


def test_batches_may_be_cut_anywhere():
    rng = np.random.default_rng(5)
    users, items = rng.integers(-50, 5000, 200_000), rng.integers(0, 3, 200_000)
    whole = ContributionBound(6, 3).keep(users, items)
    bound = ContributionBound(6, 3)
    cuts = np.split(np.arange(200_000), [1, 1, 70_000, 199_999])
    parts = [bound.keep(users[cut], items[cut]) for cut in cuts]
    assert (np.concatenate(parts) == whole).all()
    assert np.bincount(users[whole] + 50).max() == 6


def test_columns_of_any_type_give_the_same_sample():
    users, items = [3, 1, 3, 3, 1, 3], [1, 1, 2, 3, 1, 4]
    keep = sampled(users, items, 2, 1)
    for kind in (np.int32, np.uint64, np.uint8):
        assert (sampled(np.array(users, kind), items, 2, 1) == keep).all()
    words = [f"user {user}" for user in users]
    keep = sampled(words, items, 2, 1)
    for column in (
        pa.array(words, pa.large_string()),
        pa.array(words, pa.string_view()),
        pa.array(words).dictionary_encode(),
        pa.array([word.encode() for word in words], pa.binary(6)),
        pa.chunked_array([words[:2], words[2:]]),
    ):
        assert (sampled(column, items, 2, 1) == keep).all()


def test_empty_columns_keep_nothing():
    assert bound_contributions([], [], per_user=1, seed=0).size == 0
    assert bound_contributions([], per_user=1, seed=0).size == 0
    assert ContributionBound(1).keep([], []).size == 0


def test_distances_are_those_of_the_guarantee():
    bound = ContributionBound(per_user=7)
    assert (bound.distance("event"), bound.distance("user")) == (2, 7)
    with pytest.raises(ValueError, match="ContributionBound: unit"):
        bound.distance("basket")


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, None, "many", 2**31])
def test_bad_limits_are_named(wrong):
    with pytest.raises(ValueError, match="bound_contributions: per_user"):
        bound_contributions([1], per_user=wrong, seed=0)
    with pytest.raises(ValueError, match="ContributionBound: per_user"):
        ContributionBound(wrong)
    if wrong is not None:
        with pytest.raises(ValueError, match="per_item"):
            bound_contributions([1], per_user=1, per_item=wrong, seed=0)
        with pytest.raises(ValueError, match="ContributionBound: per_item"):
            ContributionBound(1, wrong)


def test_bad_columns_are_refused_and_leave_the_bound_as_it_was():
    bound = ContributionBound(1)
    for users, items, error in [
        ([1, 2], [1], ValueError),
        (["a"], [1], TypeError),
        ([1.5], [1], TypeError),
        (np.array([2**63], np.uint64), None, ValueError),
    ]:
        with pytest.raises(error, match="ContributionBound"):
            bound.keep(users, items)
    assert bound.keep([1, 2]).all()
    with pytest.raises(ValueError, match="2 users have 1 items"):
        bound_contributions([1, 2], [1], per_user=1, seed=0)
    with pytest.raises(ValueError, match="seed"):
        bound_contributions([1, 2], per_user=1, seed=-1)
