"""Rows of a generated world, each from its number alone: who, what and how it was rated.

Row k takes the slot s(k), s a permutation of all rows; the slots of a user lie side by side. Slot j
of the n of a user draws from the popularity ranks B(j) to B(j+1) - 1, where the I items lie behind
B(j) = floor(I j / (n + g (n - j))). The density of ranks falls from 1 + g to 1 / (1 + g) times the
average; g is cut for busy users so that B grows by 1 or more, so nobody rates an item twice.
"""

import math

import numpy as np

from sfumato.kernels.hash import GOLDEN, mix
from sfumato.kernels.jit import inline, kernel

__all__ = ["expected", "rows"]

UNIT = 2.0**-53
TOP = np.uint64(11)
SLACK = 0.999  # B must grow by more than 1, so that rounding cannot take the growth away


@inline
def _uniform(bits):
    """A number above 0 and below 1."""
    return (np.float64(bits >> TOP) + 0.5) * UNIT


@inline
def _slot(row, total, bits, key):
    """The position of a row in a permutation of 0..total-1: a cycle-walking bijection of bits."""
    mask = (np.uint64(1) << bits) - np.uint64(1)
    half = (bits >> np.uint64(1)) + np.uint64(1)
    x = np.uint64(row)
    while True:
        for turn in range(3):
            x = ((x ^ (key >> np.uint64(7 * turn))) * (key | np.uint64(1))) & mask
            x ^= x >> half
        if x < np.uint64(total):
            return np.int64(x)


@inline
def _owner(slot, offsets, guide, shift):
    """The user whose slots offsets[u] to offsets[u + 1] - 1 hold this one."""
    user = guide[slot >> shift]
    while offsets[user + 1] <= slot:
        user += 1
    return user


@inline
def _bound(j, count, growth, items):
    return np.int64(items * j / (count + growth * (count - j)))


@inline
def _score(users, user, items, item, mean):
    """mean + p.q + both biases; the bias is the last number of an entity."""
    last = users.shape[1] - 1
    total = users[user, last] + items[item, last]
    for each in range(last):
        total += users[user, each] * items[item, each]
    return mean + np.float64(total)


@inline
def _normal(h):
    radius = math.sqrt(-2.0 * math.log(_uniform(h)))
    return radius * math.cos(2.0 * math.pi * _uniform(mix(h + GOLDEN)))


@inline
def _on_grid(x, low, high, step):
    if step > 0.0:
        x = low + step * math.floor((x - low) / step + 0.5)
    return min(max(x, low), high)


@kernel
def _slots(first, key, offsets, guide, shift, who, slots):
    """The slots of rows first, first + 1, ... and whose they are."""
    total = offsets[-1]
    bits = np.uint64(1)
    while (np.int64(1) << np.int64(bits)) < total:
        bits += np.uint64(1)
    for i in range(slots.size):
        slots[i] = _slot(first + i, total, bits, key)
    for i in range(slots.size):
        who[i] = _owner(slots[i], offsets, guide, shift)


@kernel
def _choose(key, offsets, ranked, users, items, mean, skew, choices, who, what, liked):
    """Turn slots into items, each the best liked of several draws; liked = how well."""
    many = np.float64(ranked.size)
    for i in range(who.size):
        slot, user = what[i], who[i]
        count, j = np.float64(offsets[user + 1] - offsets[user]), np.float64(slot - offsets[user])
        growth = min(skew - 1.0, SLACK * many / count - 1.0)
        begin, end = _bound(j, count, growth, many), _bound(j + 1.0, count, growth, many)
        h, best, most = np.uint64(slot) ^ key, 0, -np.inf
        for _ in range(choices):
            h = mix(h + GOLDEN)
            item = ranked[begin + np.int64(_uniform(h) * (end - begin))]
            score = _score(users, user, items, item, mean)
            best, most = (item, score) if score > most else (best, most)
        what[i], liked[i] = best, most


@kernel
def rows(
    first, key, offsets, guide, shift, ranked, users, items, rating_model, choices, who, what, rated
):
    """Draw rows first, first + 1, ...; rating_model is (mean, noise, low, high, step, skew)."""
    mean, noise, low, high, step, skew = rating_model
    # Loops of their own, each short: then the processor looks up many rows at a time.
    _slots(first, key, offsets, guide, shift, who, what)
    _choose(key, offsets, ranked, users, items, mean, skew, choices, who, what, rated)
    salt = mix(key + GOLDEN)
    for i in range(rated.size):
        drawn = _normal(mix(np.uint64(first + i) ^ salt))
        rated[i] = _on_grid(rated[i] + noise * drawn, low, high, step)


@inline
def _below(z):
    """The normal distribution's share below z."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


@inline
def _ramp(z):
    """The integral of `_below` up to z."""
    return z * _below(z) + math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)


@kernel
def expected(who, what, users, items, rating_model, out):
    """out[i]: the mean of the ratings that the pair could get, cut and on the grid as they are."""
    mean, noise, low, high, step, _ = rating_model
    for i in range(out.size):
        score = _score(users, who[i], items, what[i], mean)
        if noise <= 0.0:
            out[i] = _on_grid(score, low, high, step)
        elif step > 0.0:
            # A rating is low and one step more for each boundary that the noisy score passes.
            out[i] = low
            for k in range(round((high - low) / step)):
                out[i] += step * _below((score - low - (k + 0.5) * step) / noise)
        else:
            out[i] = low + noise * (_ramp((score - low) / noise) - _ramp((score - high) / noise))
