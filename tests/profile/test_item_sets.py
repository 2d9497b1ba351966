"""Profiles are sets of items: no order, repetition, batch or type of an id changes them."""

import numpy as np
import pytest

from sfumato.core.hashing import hash_column
from sfumato.data import Interactions
from sfumato.profile.item_sets import ProfileSets, hashed_items, public_users


def rows(users, items):
    return Interactions(users, items, np.ones(len(users)))


def sets_of(users, items, seed=3):
    return ProfileSets(seed).update(rows(users, items))


def same(left, right):
    """Whether the same users have the same sets, in whatever order."""
    if sorted(map(str, left.users)) != sorted(map(str, right.users)):
        return False
    right = right.of_users(left.users)
    pairs = [(left.starts, right.starts), (left.hashes, right.hashes)]
    return all(np.array_equal(a, b) for a, b in pairs)


def drawn(seed, size=3000):
    random = np.random.default_rng(seed)
    return random.integers(0, 40, size), random.integers(0, 300, size)


def test_a_profile_holds_the_hash_of_each_items_text_once_and_rising():
    users, items = drawn(1)
    sets = sets_of(users, items)
    for user, start, end in zip(sets.users, sets.starts, sets.starts[1:], strict=False):
        texts = [str(item) for item in set(items[users == user].tolist())]
        assert sets.hashes[start:end].tolist() == sorted(hashed_items(np.array(texts, object), 3))
    assert sets.starts[-1] == sets.hashes.size


def test_order_repetition_and_batches_do_not_matter():
    users, items = drawn(2)
    once = sets_of(users, items)
    order = np.random.default_rng(3).permutation(users.size)
    assert same(once, sets_of(users[order], items[order]))
    assert same(once, sets_of(np.tile(users, 3), np.tile(items, 3)))
    pieces, halves = ProfileSets(3), (ProfileSets(3), ProfileSets(3))
    for at, piece in enumerate(np.array_split(order, 50)):
        pieces.update(rows(users[piece], items[piece]))
        halves[at % 2].update(rows(users[piece], items[piece]))
    assert same(once, pieces)
    assert same(once, halves[0].merge(halves[1]))


def test_the_type_of_an_id_does_not_matter_within_or_between_updates():
    numbers, words = sets_of([1, 1], [7, 8]), sets_of([1, 1], ["7", "8"])
    assert same(numbers, words)
    assert same(numbers, sets_of(["1", "1"], [7, 8]))
    mixed = sets_of(["ann"], [7]).update(rows([1], [7])).update(rows(["1"], ["8"]))
    assert same(mixed, sets_of(["ann", "1", "1"], [7, 7, 8]))
    assert mixed.of_users(np.array([1])).sizes.tolist() == [2]


@pytest.mark.parametrize("size", [0, 1, 2, 15, 100, 4095, 4096, 4097, 20_000])
def test_profiles_of_any_size_are_sorted(size):
    sets = sets_of(np.zeros(size, np.int64), np.arange(size))
    expected = np.sort(hash_column([str(item) for item in range(size)] or [""], 3 ^ 0x5DEECE66D))
    np.testing.assert_array_equal(sets.hashes, expected[:size])


def test_hashes_that_crowd_are_sorted_too():
    from sfumato.kernels.profile_sets import settle

    near = np.arange(50, 0, -1, dtype=np.uint64)  # all equal in their first bits
    values, starts = np.concatenate([near, near[:3], near[:3]]), np.array([0, 53, 56])
    settle(starts, values, np.empty(257, np.int32), np.empty(128, np.uint64))
    np.testing.assert_array_equal(starts, [0, 50, 53])
    np.testing.assert_array_equal(values[:53], [*range(1, 51), 48, 49, 50])


def test_given_users_are_taken_in_their_order_with_empty_profiles():
    sets = sets_of([8, 7, 8], ["tea", "tea", "milk"])
    queries = sets.of_users(np.array([5, 8, 6, 7]))
    assert queries.users.tolist() == [5, 8, 6, 7]
    assert queries.sizes.tolist() == [0, 2, 0, 1]
    assert set(queries.hashes[:2]) == set(hashed_items(np.array(["tea", "milk"], object), 3))
    words = sets.of_users(np.array(["8", "7"], object))
    assert words.sizes.tolist() == [2, 1]
    alone = sets.of_users(np.array([7]))
    assert (alone.users.tolist(), alone.sizes.tolist()) == ([7], [1])  # others are left out
    with pytest.raises(ValueError, match="users must name each user once"):
        public_users([7, 8, 7], "Blip")


@pytest.mark.parametrize("most", [1, 3, 10**6])
def test_trimming_keeps_the_items_of_the_least_hashes(most):
    users, items = drawn(4)
    sets = sets_of(users, items)
    cut = sets.trimmed(most)
    for row in range(len(sets)):
        whole = sets.hashes[sets.starts[row] : sets.starts[row + 1]]
        assert cut.hashes[cut.starts[row] : cut.starts[row + 1]].tolist() == whole[:most].tolist()


def test_rows_that_come_again_and_again_take_no_more_memory():
    users, items = np.repeat(np.arange(100), 100), np.tile(np.arange(100), 100)
    sets = ProfileSets(0)
    for _ in range(30):
        sets.update(rows(users, items))
        assert sum(part.hashes.size for part in sets._parts) <= 10_000 + (1 << 16) + 10_000
    assert same(sets, sets_of(users, items, seed=0))


def test_nothing_is_a_set_of_nobody():
    empty = ProfileSets(0).update(rows(np.empty(0, np.int64), np.empty(0, np.int64)))
    assert len(empty) == 0
    assert len(empty.trimmed(3)) == 0
    assert empty.of_users(np.array([4])).sizes.tolist() == [0]
