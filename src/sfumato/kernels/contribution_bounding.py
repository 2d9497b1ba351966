"""Which events of a user are kept: at most `limit` per user, and per (user, item)."""

import numpy as np

from sfumato.kernels.hash import mix
from sfumato.kernels.jit import inline, kernel

__all__ = ["admit", "first", "group", "rehash", "sample"]

STEP = np.uint64(0x9E3779B97F4A7C15)


@inline
def _find(first_keys, second_keys, counts, a, b):
    """The slot of the key (a, b): its own, or the empty one where it belongs."""
    mask = np.uint64(counts.size - 1)
    slot = mix(mix(a) + b) & mask
    while counts[slot] != 0 and (first_keys[slot] != a or second_keys[slot] != b):
        slot = (slot + np.uint64(1)) & mask
    return slot


@kernel
def admit(users, items, per_user, per_item, user_table, pair_table, used, keep):
    """Keep events in order while their user and their pair have room; tables count what was kept.

    A table is (first keys, second keys, counts), with count 0 where it is empty; used[0] and
    used[1] grow by the slots taken in each.
    """
    user_a, user_b, user_count = user_table
    pair_a, pair_b, pair_count = pair_table
    zero = np.uint64(0)
    for i in range(users.size):
        mine = _find(user_a, user_b, user_count, users[i], zero)
        pair = _find(pair_a, pair_b, pair_count, users[i], items[i])
        keep[i] = user_count[mine] < per_user and pair_count[pair] < per_item
        if keep[i]:
            used[0] += user_count[mine] == 0
            used[1] += pair_count[pair] == 0
            user_a[mine] = pair_a[pair] = users[i]
            user_b[mine] = zero
            pair_b[pair] = items[i]
            user_count[mine] += 1
            pair_count[pair] += 1


@kernel
def rehash(old, new):
    """Move every entry of one table to a larger, empty one."""
    old_a, old_b, old_count = old
    new_a, new_b, new_count = new
    for i in range(old_count.size):
        if old_count[i] != 0:
            slot = _find(new_a, new_b, new_count, old_a[i], old_b[i])
            new_a[slot] = old_a[i]
            new_b[slot] = old_b[i]
            new_count[slot] = old_count[i]


@kernel
def first(codes, limit, counts, keep):
    """Keep the first events of each code, at most `limit`; counts holds what was kept so far."""
    for i in range(codes.size):
        keep[i] = counts[codes[i]] < limit
        counts[codes[i]] += keep[i]


@kernel
def group(codes, starts, order):
    """order lists the events of code 0, then those of code 1, and so on, each in their order.

    starts[c + 1] holds where the events of code c begin, and is moved to where they end.
    """
    for i in range(codes.size):
        position = starts[codes[i] + 1]
        order[position] = i
        starts[codes[i] + 1] = position + 1


@kernel
def sample(order, starts, names, per_user, per_item, keep):
    """Keep a keyed sample of the events order[starts[u]] to order[starts[u + 1] - 1] of each user.

    names[i] is the hash of an event's user and item, the same for events of one class. Event k of a
    class is in round k; a user's events are kept round by round while there is room, up to round
    per_item - 1, and those of the round that does not fit whole by the lowest mix(name + k STEP).
    """
    for u in range(starts.size - 1):
        rows = order[starts[u] : starts[u + 1]]
        if rows.size <= min(per_user, per_item):
            for i in rows:
                keep[i] = True
        else:
            own = names[rows]
            rows = rows[_order(own)]
            _choose(rows, names, per_user, per_item, keep)


@inline
def _choose(rows, names, per_user, per_item, keep):
    """rows: the events of one user, by name and then by time."""
    size = rows.size
    rounds, sizes = np.zeros(size, np.int64), np.zeros(size + 1, np.int64)
    for at in range(size):
        if at > 0 and names[rows[at]] == names[rows[at - 1]]:
            rounds[at] = rounds[at - 1] + 1
        sizes[rounds[at]] += 1
    last, room = 0, per_user  # the round that does not fit whole, and how many of it do
    while last < min(per_item, size) and sizes[last] <= room:
        room -= sizes[last]
        last += 1
    for at in range(size):
        keep[rows[at]] = rounds[at] < last
    if last < per_item:
        rows = rows[rounds == last]
        priorities = mix(names[rows] + np.uint64(last) * STEP)
        for at in _order(priorities)[:room]:
            keep[rows[at]] = True


@kernel
def _order(keys):
    """The positions of the keys from the least up, equal ones as they stand."""
    order = np.arange(keys.size)
    if keys.size > 64:
        return _by_bytes(keys.copy(), order)
    for i in range(1, keys.size):
        j = i
        while j > 0 and keys[order[j - 1]] > keys[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
    return order


@kernel
def _by_bytes(keys, order):
    """The same, for many keys: by the lowest byte, then the next; the keys are used up."""
    other_keys, other = np.empty_like(keys), np.empty_like(order)
    for shift in range(0, 64, 8):
        ends = np.zeros(257, np.int64)
        for i in range(keys.size):
            ends[np.int64(keys[i] >> np.uint64(shift) & np.uint64(255)) + 1] += 1
        ends = np.cumsum(ends)
        for i in range(keys.size):
            byte = np.int64(keys[i] >> np.uint64(shift) & np.uint64(255))
            other_keys[ends[byte]], other[ends[byte]] = keys[i], order[i]
            ends[byte] += 1
        keys, other_keys, order, other = other_keys, keys, other, order
    return order
