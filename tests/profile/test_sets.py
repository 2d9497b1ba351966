"""Profiles are sets of items: no order, repetition, batch or type of an id changes them."""

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.hashing import hash_column
from sfumato.profile._sets import ProfileSets, hashed_items, public_users


def rows(users, items):
    return Interactions(users, items, np.ones(len(users)))


def sets_of(users, items, seed=3):
    return ProfileSets(seed).update(rows(users, items))


def same(left, right):
    left, right = left.in_order(), right.in_order()
    pairs = [(left.users, right.users), (left.starts, right.starts), (left.hashes, right.hashes)]
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


def test_an_items_type_does_not_matter_but_a_users_does():
    numbers, words = sets_of([1, 1], [7, 8]), sets_of([1, 1], ["7", "8"])
    assert same(numbers, words)
    before = sets_of(["ann"], [7])
    with pytest.raises(TypeError, match="users: the ids are integers here and text before"):
        before.update(rows([1], [7]))
    assert same(before, sets_of(["ann"], [7]))


@pytest.mark.parametrize("size", [0, 1, 2, 15, 100, 4095, 4096, 4097, 20_000])
def test_profiles_of_any_size_are_sorted(size):
    sets = sets_of(np.zeros(size, np.int64), np.arange(size))
    expected = np.sort(hash_column([str(item) for item in range(size)] or [""], 3 ^ 0x5DEECE66D))
    np.testing.assert_array_equal(sets.hashes, expected[:size])


def test_hashes_that_crowd_are_sorted_too():
    from sfumato.kernels.profiles import settle

    near = np.arange(50, 0, -1, dtype=np.uint64)  # all alike in their first bits
    values, starts = np.concatenate([near, near[:3], near[:3]]), np.array([0, 53, 56])
    settle(starts, values)
    np.testing.assert_array_equal(starts, [0, 50, 53])
    np.testing.assert_array_equal(values[:53], [*range(1, 51), 48, 49, 50])


def test_given_users_are_taken_in_their_order_with_empty_profiles():
    sets = sets_of([8, 7, 8], ["tea", "tea", "milk"])
    asked = sets.of_users(np.array([5, 8, 6, 7]), "Blip")
    assert asked.users.tolist() == [5, 8, 6, 7]
    assert asked.sizes.tolist() == [0, 2, 0, 1]
    assert set(asked.hashes[:2]) == set(hashed_items(np.array(["tea", "milk"], object), 3))
    words = sets.of_users(np.array(["8", "7"], object), "Blip")
    assert words.sizes.tolist() == [2, 1]
    with pytest.raises(ValueError, match="Blip: users must name everyone") as refused:
        sets.of_users(np.array([7]), "Blip")
    assert "8" not in str(refused.value)
    with pytest.raises(ValueError, match="users must name each user once"):
        public_users([7, 8, 7], "Blip")


@pytest.mark.parametrize("users", [[30, 10, -20, 10], ["bo", "Ann", "ann", "Ann"]])
def test_rows_come_by_rising_ids_so_that_they_do_not_tell_who_was_first(users):
    sets = sets_of(users, [1, 2, 3, 4]).in_order()
    assert sets.users.tolist() == sorted(set(users))
    backwards = sets_of(users[::-1], [4, 3, 2, 1]).in_order()
    assert same(sets, backwards)
    assert sets.users.tolist() == backwards.users.tolist()


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
    assert len(empty.in_order().trimmed(3)) == 0
    assert empty.of_users(np.array([4]), "Blip").sizes.tolist() == [0]
