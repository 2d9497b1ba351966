"""The dense kernels do (2.8) and (2.9), number for number, for any number of factors."""

import numpy as np
import pytest

from sfumato.kernels.recommend import sgd_dense as factor_dense

ROOM = 16


def world(factors, seed=0, rows=400):
    random = np.random.default_rng(seed)
    tables = [random.normal(0, 0.3, n * factors + ROOM).astype(np.float32) for n in (30, 20)]
    users, items = (random.integers(n, size=rows).astype(np.int32) for n in (30, 20))
    return users, items, random.normal(0, 1, rows).astype(np.float32), tables


def weights(factors):
    """Penalties of users and items, other ones of the biases."""
    out = np.full((2, factors), [[0.1], [0.3]], np.float32)
    out[:, -1] = 0.2, 0.4
    return out


def by_hand(users, items, ratings, clip, rate, weight, factors, tables):
    """The two update rules in float64, one rating after another; the number that were used."""
    p, q = (t[:-ROOM].astype(np.float64).reshape(-1, factors) for t in tables)
    used = 0
    for u, i, r in zip(users, items, ratings, strict=True):
        error = r - p[u, :-1] @ q[i, :-1] - p[u, -1] - q[i, -1]
        if error**2 / 2 <= clip:
            used += 1
            other_p, other_q = np.append(p[u, :-1], 1), np.append(q[i, :-1], 1)
            p[u] += rate * (error * other_q - weight[0] * p[u])
            q[i] += rate * (error * other_p - weight[1] * q[i])
    return p, q, used


def run(kernel, factors, clip, rate, weight, columns, tables):
    step = np.zeros(factors + ROOM, np.float32)
    step[:factors] = rate
    shrinks = [np.zeros_like(step) for _ in weight]
    for shrink, each in zip(shrinks, weight, strict=True):
        shrink[:factors] = -step[:factors] * each
    no_log = np.empty(0, np.float32)
    kernel(*columns, np.float32(2 * clip), step, *shrinks, no_log, *tables)
    return [t[:-ROOM].reshape(-1, factors) for t in tables]


@pytest.mark.parametrize("factors", [1, 2, 3, 8, 11, 15, 16, 17, 23, 32, 48, 65])
def test_the_kernel_is_the_update_rule(factors):
    *columns, tables = world(factors)
    *expected, _ = by_hand(*columns, np.inf, 0.05, weights(factors), factors, tables)
    found = run(factor_dense.descend, factors, np.inf, 0.05, weights(factors), columns, tables)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_the_kernel_of_32_factors_is_the_update_rule():
    *columns, tables = world(32)
    *expected, used = by_hand(*columns, 0.5, 0.05, weights(32), 32, tables)
    found = run(factor_dense.descend_two, 32, 0.5, 0.05, weights(32), columns, tables)
    assert 50 < used < 350
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_ratings_with_a_loss_above_clip_change_nothing():
    *columns, tables = world(11)
    *expected, used = by_hand(*columns, 0.5, 0.05, weights(11), 11, tables)
    found = run(factor_dense.descend, 11, 0.5, 0.05, weights(11), columns, tables)
    assert 50 < used < 350
    np.testing.assert_allclose(found[0], expected[0], atol=2e-5)


def test_rows_of_others_and_the_room_after_them_stay_as_they_are():
    *_, tables = world(11)
    before = [t.copy() for t in tables]
    one = np.array([29], np.int32), np.array([19], np.int32), np.array([3], np.float32)
    run(factor_dense.descend, 11, np.inf, 0.05, weights(11), one, tables)
    for table, old in zip(tables, before, strict=True):
        changed = np.flatnonzero(table != old)
        assert changed.min() >= old.size - ROOM - 11
        assert changed.max() < old.size - ROOM
