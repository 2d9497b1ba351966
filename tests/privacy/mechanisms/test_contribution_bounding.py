"""Contribution bounds: limits hold, one event moves two rows at most, one user only their own."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from sfumato.privacy.mechanisms import contribution_bounding as bounding
from sfumato.privacy.mechanisms.contribution_bounding import (
    ContributionBound,
    ContributionSample,
    bound_contributions,
)

LIMITS = [(1, 1), (2, 1), (2, 2), (3, 2), (3, 1)]


def sampled(users, items, per_user, per_item, seed=5):
    return bound_contributions(users, items, per_user=per_user, per_item=per_item, seed=seed)


def streamed(users, items, per_user, per_item, seed=5):
    return ContributionBound(per_user, per_item).keep(users, items)


def gathered(users, items, per_user, per_item, seed=5):
    """The one-pass sample of small and uneven batches, sampled anew after each."""
    sample = ContributionSample(per_user, per_item, seed=seed)
    start = 0
    while start < len(users):
        stop = start + 1 + (start * 7 + seed) % 5 + len(users) // 8
        sample.update(users[start:stop], items[start:stop]).retained()
        start = stop
    keep = np.zeros(len(users), bool)
    keep[sample.retained()] = True
    return keep


WAYS = [sampled, streamed, gathered]


def retained_rows(way, events, limits, seed=5):
    """The retained rows, each with a name of its own."""
    if not events:
        return set()
    users, items, names = (list(column) for column in zip(*events, strict=True))
    keep = way(users, items, *limits, seed)
    return {name for name, stays in zip(names, keep, strict=True) if stays}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("limits", LIMITS)
def test_one_event_more_brings_in_one_row_and_puts_out_one_at_most(way, limits):
    # Every stream of up to 4 events of one user with 3 items, and every event at every position.
    observed = set()
    for size in range(5):
        for stream in itertools.product(range(3), repeat=size):
            events = [(1, item, name) for name, item in enumerate(stream)]
            before = retained_rows(way, events, limits)
            for at, item in itertools.product(range(size + 1), range(3)):
                after = retained_rows(way, [*events[:at], (1, item, "new"), *events[at:]], limits)
                observed.add((len(after - before), len(before - after)))
    assert observed <= {(0, 0), (1, 0), (1, 1)}
    assert (1, 1) in observed  # so the distance of an event is 2, not 1


@pytest.mark.parametrize("way", WAYS)
def test_one_event_more_among_several_users_and_many_events(way):
    rng = np.random.default_rng(3)
    for seed in range(150):
        size = int(rng.integers(1, 200))
        pairs = rng.integers(0, [3, 12], (size, 2))
        events = [(int(u), int(i), name) for name, (u, i) in enumerate(pairs)]
        limits = int(rng.integers(1, 60)), int(rng.integers(1, 20))
        before = retained_rows(way, events, limits, seed)
        at, new = int(rng.integers(0, size + 1)), (int(rng.integers(0, 3)), 4, "new")
        after = retained_rows(way, [*events[:at], new, *events[at:]], limits, seed)
        assert len(after - before) <= 1
        assert len(before - after) <= 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("limits", LIMITS)
def test_limits_hold_and_no_room_is_left_unused(way, limits):
    rng = np.random.default_rng(1)
    users, items = rng.zipf(1.5, 3000) % 50, rng.integers(0, 8, 3000)
    keep = way(users, items, *limits)
    per_user, per_item = limits
    pairs = np.zeros((50, 8), int)
    np.add.at(pairs, (users, items), 1)
    retained = np.zeros((50, 8), int)
    np.add.at(retained, (users[keep], items[keep]), 1)
    assert retained.max() <= per_item
    assert (
        retained.sum(axis=1) == np.minimum(np.minimum(pairs, per_item).sum(axis=1), per_user)
    ).all()


@pytest.mark.parametrize("way", WAYS)
def test_one_user_less_changes_no_row_of_others(way):
    rng = np.random.default_rng(2)
    users, items = rng.integers(0, 20, 2000), rng.integers(0, 30, 2000)
    keep = way(users, items, 7, 2)
    for user in range(20):
        others = users != user
        assert (way(users[others], items[others], 7, 2) == keep[others]).all()


def test_the_retained_pairs_do_not_depend_on_the_order_of_events():
    rng = np.random.default_rng(4)
    users, items = rng.integers(0, 20, 2000), rng.integers(0, 30, 2000)
    keep = sampled(users, items, 9, 2)
    retained = sorted(zip(users[keep], items[keep], strict=True))
    for _ in range(5):
        order = rng.permutation(2000)
        again = sampled(users[order], items[order], 9, 2)
        assert sorted(zip(users[order][again], items[order][again], strict=True)) == retained


def test_every_item_is_equally_likely_to_be_retained():
    # 5 of 20 items under 1000 seeds: each is retained 250 times, deviation 14; 6 of them: p < 1e-7.
    times = np.zeros(20, int)
    for seed in range(1000):
        times += bound_contributions([9] * 20, range(20), per_user=5, seed=seed)
    assert times.sum() == 5000
    assert np.abs(times - 250).max() < 84


@pytest.mark.parametrize("size", [5, 64, 65, 400])
@pytest.mark.parametrize(("per_user", "per_item"), [(6, 2), (12, 4), (25, 3), (1, 1), (300, 300)])
def test_a_user_of_any_size_follows_the_stated_rule(size, per_user, per_item):
    from sfumato.core.hashing import hash_column

    mask, golden = 2**64 - 1, 0x9E3779B97F4A7C15

    def mix(z):
        z = ((z ^ z >> 27) * 0x3C79AC492BA7B653) & mask
        z = ((z ^ z >> 33) * 0x1C69B3F74AC4AE35) & mask
        return z ^ z >> 27

    items = np.random.default_rng(size).integers(0, 9, size)
    of_user, of_item = int(hash_column([3], 5)[0]), hash_column(items, 5).tolist()
    names = [(h * golden + of_user) & mask for h in of_item]
    number = [names[:at].count(name) for at, name in enumerate(names)]
    slots = sorted(
        (k, mix((name + k * golden) & mask), at)
        for at, (name, k) in enumerate(zip(names, number, strict=True))
        if k < per_item
    )
    chosen = {at for _, _, at in slots[:per_user]}
    expected = [at in chosen for at in range(size)]
    assert sampled([3] * size, items, per_user, per_item).tolist() == expected
    assert gathered([3] * size, items, per_user, per_item).tolist() == expected


def test_without_items_the_first_events_of_a_user_are_retained():
    keep = bound_contributions(["a", "b", "a", "a", "b"], per_user=2, seed=1)
    assert keep.tolist() == [True, True, True, False, True]


def test_without_items_the_tighter_limit_holds():
    for limits in (dict(per_user=4, per_item=2), dict(per_user=2, per_item=4)):
        assert bound_contributions(["a"] * 5 + ["b"], **limits, seed=1).tolist() == [
            *[True, True, False, False, False],
            True,
        ]


def test_batches_may_be_cut_anywhere():
    rng = np.random.default_rng(5)
    users, items = rng.integers(-50, 5000, 200_000), rng.integers(0, 3, 200_000)
    whole = ContributionBound(6, 3).keep(users, items)
    bound = ContributionBound(6, 3)
    cuts = np.split(np.arange(200_000), [1, 1, 70_000, 199_999])
    parts = [bound.keep(users[cut], items[cut]) for cut in cuts]
    assert (np.concatenate(parts) == whole).all()
    assert np.bincount(users[whole] + 50).max() == 6


@pytest.mark.parametrize("block", [1, 50, 2**16])
def test_one_pass_keeps_what_the_whole_column_keeps_however_it_is_cut(block, monkeypatch):
    monkeypatch.setattr(bounding, "BLOCK", block)
    rng = np.random.default_rng(block)
    for seed in range(40):
        size = int(rng.integers(0, 3000))
        users, items = rng.zipf(1.3, size) % 40 - 20, rng.zipf(1.4, size) % 30
        limits = int(rng.integers(1, 40)), int(rng.integers(1, 9))
        sample = ContributionSample(*limits, seed=seed)
        for cut in np.split(np.arange(size), np.sort(rng.integers(0, size + 1, 9))):
            sample.update(users[cut], items[cut])
            if rng.random() < 0.3:  # to ask in between changes nothing
                observed = slice(0, sample.rows)
                keep = sampled(users[observed], items[observed], *limits, seed)
                assert sample.retained().tolist() == np.flatnonzero(keep).tolist()
        assert sample.rows == size
        keep = sampled(users, items, *limits, seed)
        assert sample.retained().tolist() == np.flatnonzero(keep).tolist()


def test_one_pass_takes_text_items_and_columns_without_items():
    users, items = [3, 1, 3, 3, 1, 3], ["a", "b", "c", "a", "b", "d"]
    sample = ContributionSample(2, 1, seed=4).update(users[:3], items[:3])
    sample.update(users[3:], items[3:])
    keep = sampled(users, items, 2, 1, 4)
    assert sample.retained().tolist() == np.flatnonzero(keep).tolist()
    without_items = ContributionSample(2, seed=4).update(users[:3]).update(users[3:])
    keep = bound_contributions(users, per_user=2, seed=4)
    assert without_items.retained().tolist() == np.flatnonzero(keep).tolist()


def test_one_pass_holds_what_users_may_keep_and_little_more(monkeypatch):
    monkeypatch.setattr(bounding, "BLOCK", 100)
    rng, sample, most = np.random.default_rng(6), ContributionSample(5, 2, seed=1), 0
    for _ in range(200):  # 100,000 rows of 20 users with 90,000 pairs
        sample.update(rng.integers(0, 20, 500), rng.integers(0, 10**6, 500))
        most = max(most, sum(rows.size for _, _, rows in sample._batches))
    assert most <= 2 * 20 * 5 + 500
    assert sample.retained().size == 20 * 5


def test_different_items_come_before_repeated_ones():
    items = [1] * 50 + [2, 3, 4]
    for seed in range(20):
        keep = sampled([7] * 53, items, 4, 3, seed)
        assert sorted(np.array(items)[keep]) == [1, 2, 3, 4]


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
    assert ContributionSample(1, seed=0).retained().size == 0
    assert ContributionSample(1, seed=0).update([], []).retained().size == 0


def test_distances_are_those_of_the_guarantee():
    for bound in (ContributionBound(per_user=7), ContributionSample(per_user=7, seed=1)):
        assert (bound.distance("event"), bound.distance("user")) == (2, 7)
        with pytest.raises(ValueError, match=f"{type(bound).__name__}: unit"):
            bound.distance("basket")


@pytest.mark.parametrize("invalid", [0, -1, 1.5, True, None, "many", 2**31])
def test_bad_limits_are_named(invalid):
    with pytest.raises(ValueError, match="bound_contributions: per_user"):
        bound_contributions([1], per_user=invalid, seed=0)
    with pytest.raises(ValueError, match="ContributionBound: per_user"):
        ContributionBound(invalid)
    with pytest.raises(ValueError, match="ContributionSample: per_user"):
        ContributionSample(invalid, seed=1)
    with pytest.raises(ValueError, match="ContributionSample: seed"):
        ContributionSample(1, seed=-1 if invalid in (0, 2**31) else invalid)
    if invalid is not None:
        with pytest.raises(ValueError, match="per_item"):
            bound_contributions([1], per_user=1, per_item=invalid, seed=0)
        with pytest.raises(ValueError, match="ContributionBound: per_item"):
            ContributionBound(1, invalid)


ODD = ["guest", None, 0.5, "7", True, 2**64, -(2**63), [1]]


@pytest.mark.parametrize("malformed", ODD, ids=repr)
def test_an_event_of_another_type_changes_two_retained_events_at_most(malformed):
    # Integers and their texts are one user, so user 7 of type text shares the limit of user 7.
    draws = np.random.default_rng(0)
    users, items = draws.integers(0, 40, 400).tolist(), draws.integers(0, 9, 400).tolist()

    def retained(users, items):
        sample, bound = ContributionSample(5, seed=1), ContributionBound(5)
        for at in range(0, len(users), 90):
            sample.update(users[at : at + 90], items[at : at + 90])
        first = [bound.keep(users[at:][:90], items[at:][:90]) for at in range(0, len(users), 90)]
        mask = bound_contributions(users, items, per_user=5, seed=1)
        assert np.flatnonzero(mask).tolist() == sample.retained().tolist()
        return [mask[:400], np.concatenate(first)[:400]]

    for more in ([malformed], [3]), ([3], [malformed]), ([malformed], [malformed]):
        before, after = retained(users, items), retained(users + more[0], items + more[1])
        for one, two in zip(before, after, strict=True):
            assert (one != two).sum() <= 1  # and the new event itself is the second


def test_text_users_have_limits_of_their_own_in_all_batches():
    bound = ContributionBound(per_user=1)
    assert bound.keep(["ann", "bob", "ann", "7"]).tolist() == [True, True, False, True]
    assert bound.keep([7, 8]).tolist() == [False, True]
    assert bound.keep(["bob", None, 8.0, None]).tolist() == [False, True, False, False]
    assert bound.keep([2**62, -(2**62), 2**62 + 1, 2**62]).tolist() == [True, True, True, False]
    assert bound.keep([str(2**62), "cid"]).tolist() == [False, True]


def test_columns_of_different_lengths_leave_the_bound_as_it_was():
    bound, sample = ContributionBound(1), ContributionSample(1, seed=1)
    with pytest.raises(ValueError, match="ContributionBound"):
        bound.keep([1, 2], [1])
    with pytest.raises(ValueError, match="ContributionSample"):
        sample.update([1, 2], [1])
    assert bound.keep([1, 2]).all()
    assert sample.update([1, 2]).retained().tolist() == [0, 1]
    with pytest.raises(ValueError, match="items must be one for each of 2 users, not 1"):
        bound_contributions([1, 2], [1], per_user=1, seed=0)
    with pytest.raises(ValueError, match="seed"):
        bound_contributions([1, 2], per_user=1, seed=-1)


def test_integers_in_a_dictionary_are_like_plain_ones():
    plain = np.array([-123456789, 5, 5, -123456789, 5])
    coded = pa.array(plain).dictionary_encode()
    want = bound_contributions(plain, plain, per_user=2, seed=1)
    np.testing.assert_array_equal(bound_contributions(coded, coded, per_user=2, seed=1), want)
    retained = ContributionBound(per_user=2).keep(coded)
    np.testing.assert_array_equal(retained, ContributionBound(per_user=2).keep(plain))
