"""Sums of residuals: the kernels against plain NumPy, and rows that ignore their neighbours."""

import numpy as np

from sfumato.kernels.recommend import noisy_als as least_squares

RNG = np.random.default_rng(3)
USERS = RNG.integers(0, 9, 200).astype(np.int32)
ITEMS = RNG.integers(0, 7, 200).astype(np.int32)
RATINGS = RNG.integers(-4096, 4097, 200)
P, Q = RNG.integers(-5000, 5000, (9, 4)), RNG.integers(-5000, 5000, (7, 4))


def residuals():
    out = np.empty(200, np.int64)
    least_squares.residuals(USERS, ITEMS, RATINGS, P, Q, 12, out)
    return out


def test_residuals_are_those_of_exact_whole_numbers():
    product = (P[USERS, 1:] * Q[ITEMS, 1:]).sum(axis=1) // 4096
    np.testing.assert_array_equal(residuals(), RATINGS - P[USERS, 0] - Q[ITEMS, 0] - product)


def test_collected_sums_cut_residuals_by_the_reach_of_each_vector():
    left, reach = residuals(), RNG.integers(0, 6000, 7)
    out, want = np.zeros((9, 5), np.int64), np.zeros((9, 5), np.int64)
    least_squares.collect(USERS, ITEMS, left, 3000, 10, Q, reach, out)
    np.add.at(want[:, 0], USERS, np.clip(left, -3000, 3000) * 10)
    cut = np.clip(left, -reach[ITEMS], reach[ITEMS])
    np.add.at(want[:, 1:], USERS, cut[:, None] * Q[ITEMS])
    np.testing.assert_array_equal(out, want)


def regressions(users, items, left):
    x = Q / 4096
    gram, out = np.zeros((9, 4, 4)), np.zeros((9, 4))
    least_squares.grams(users, items, left, x, gram, out)
    least_squares.solve(gram, np.array([0.5, 1.0, 1.0, 2.0]), out)
    return out


def test_solve_gives_ridge_regressions():
    left, x = residuals() / 4096, Q / 4096
    got = regressions(USERS, ITEMS, left)
    for user in range(9):
        mine = x[ITEMS[user == USERS]]
        gram = mine.T @ mine + np.diag([0.5, 1.0, 1.0, 2.0])
        np.testing.assert_allclose(
            got[user], np.linalg.solve(gram, mine.T @ left[user == USERS]), rtol=1e-9
        )


def test_a_row_is_the_same_to_the_last_bit_whoever_stands_beside_it():
    left = residuals() / 4096
    whole = regressions(USERS, ITEMS, left)
    for gone in range(9):
        retained = gone != USERS
        part = regressions(USERS[retained], ITEMS[retained], left[retained])
        others = np.arange(9) != gone
        np.testing.assert_array_equal(part[others], whole[others])
