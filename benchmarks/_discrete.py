"""Discrete collaborative filtering: codes of users and items that fit ratings, bit after bit.

    sum over rated pairs of (s - b.d)^2 + unseen * sum over all pairs of (low - b.d)^2
        - 2 balance (<B, X> + <D, Y>) + ridge (sum of the squares of real components)

Components of users B and of items D are +1 or -1, or real, side by side: real users beside bits of
items make codes that a real query is held against. X and Y are the nearest matrices to the bits
whose columns have mean 0 and are orthogonal: they pull bits to be balanced and unlike each other.
No step can raise the sum, and `learn` asserts that none does.

Zhang, Shen, Liu, He, Luan and Chua 2016, "Discrete Collaborative Filtering"; the second sum, which
makes lists out of what was liked, is that of Hu, Koren and Volinsky 2008.
"""

from dataclasses import dataclass

import numba
import numpy as np

SIGN, REAL = "sign", "real"  # what the components of a side are


@dataclass(frozen=True)
class Side:
    """Told pairs by row, those of row r at starts[r] : starts[r + 1], and the other row of each."""

    starts: np.ndarray
    others: np.ndarray
    targets: np.ndarray

    @classmethod
    def of(cls, rows, others, targets, count):
        order = np.argsort(rows, kind="stable")
        starts = np.searchsorted(rows[order], np.arange(count + 1))
        return cls(starts, others[order].astype(np.int32), targets[order].astype(np.float32))


@dataclass(frozen=True)
class Task:
    """What is to be fitted: rated pairs by user and by item, and the weight of all pairs at low."""

    users: Side
    items: Side
    unseen: float = 0.0
    low: float = 0.0

    @classmethod
    def of(cls, users, items, targets, shape, unseen=0.0, low=0.0):
        sides = (users, items, targets, shape[0]), (items, users, targets, shape[1])
        return cls(*(Side.of(*side) for side in sides), unseen, low)


@numba.njit(nogil=True, fastmath=True)
def _descend(starts, others, targets, factors, gram, pulls, real, rows):
    """Each component of each row in turn to what fits best while all else stays."""
    width, longest = rows.shape[1], np.diff(starts).max()
    room, rest = np.empty(width * longest, np.float32), np.empty(longest, np.float32)
    for r in range(rows.shape[0]):
        a, count, row = starts[r], starts[r + 1] - starts[r], rows[r]
        for i in range(count):
            rest[i], other = targets[a + i], factors[others[a + i]]
            for k in range(width):
                room[k * count + i] = other[k]  # component by component, so that sums run fast
        for k in range(width):
            own = room[k * count : (k + 1) * count]
            for i in range(count):
                rest[i] -= row[k] * own[i]
        slopes = pulls[r] - gram @ row
        for k in range(width):
            own = room[k * count : (k + 1) * count]
            slope, square = np.float32(0), np.float32(0)
            for i in range(count):
                slope += rest[i] * own[i]
                square += own[i] * own[i]
            square += gram[k, k]
            slope += slopes[k] + square * row[k]
            if slope == 0 or square == 0:
                continue
            step = (slope / square if real else np.sign(slope)) - row[k]
            if step != 0:
                row[k] += step
                for i in range(count):
                    rest[i] -= step * own[i]
                for j in range(width):
                    slopes[j] -= step * gram[k, j]


@numba.njit(nogil=True, fastmath=True)
def _misfit(starts, others, targets, rows, factors):
    total = 0.0
    for r in range(rows.shape[0]):
        for at in range(starts[r], starts[r + 1]):
            result, other = np.float32(0), factors[others[at]]
            for k in range(rows.shape[1]):
                result += rows[r, k] * other[k]
            total += (targets[at] - result) ** 2
    return total


def learn(task, users, items, kinds, *, rounds, ridge=0.0, balance=0.0):
    """Factors of users and items after so many rounds, and the objective before and after each.

    Parameters: users and items, where to begin; kinds, SIGN or REAL for the one and the other.
    """
    rows = [np.array(each, np.float32) for each in (users, items)]
    values = [_objective(task, rows, kinds, ridge, balance)]
    for _ in range(rounds):
        for side, result in enumerate((task.users, task.items)):
            own, other, real = rows[side], rows[1 - side], kinds[side] == REAL
            gram = task.unseen * (other.T @ other) + real * ridge * np.eye(own.shape[1])
            pulls = np.zeros_like(own) + task.unseen * task.low * other.sum(axis=0)
            pulls += balance * _spread(own) if balance and not real else 0
            given = result.starts, result.others, result.targets, other
            _descend(*given, gram.astype(np.float32), pulls.astype(np.float32), real, own)
        values.append(_objective(task, rows, kinds, ridge, balance))
        # Sums are of float32, so that their rounding may look like a rise.
        assert values[-1] <= values[-2] + 1e-6 * abs(values[0]), f"the objective rose: {values}"
    return *rows, values


def _spread(codes):
    """The nearest matrix to the bits with balanced, orthogonal columns of the same length."""
    centred = codes - codes.mean(axis=0)
    squares, along = np.linalg.eigh(centred.T @ centred)
    inverse = along * np.maximum(squares, 1e-3) ** -0.5  # of the polar factor, without an SVD
    return len(codes) ** 0.5 * (centred @ (inverse @ along.T))


def _objective(task, rows, kinds, ridge, balance):
    """The sum above, with X and Y at their best for these bits."""
    result = task.users
    value = _misfit(result.starts, result.others, result.targets, *rows)
    users, items = (each.astype(np.float64) for each in rows)
    every = ((users.T @ users) * (items.T @ items)).sum()
    every += len(users) * len(items) * task.low**2
    every -= 2 * task.low * users.sum(axis=0) @ items.sum(axis=0)
    value += task.unseen * every
    for each, kind in zip(rows, kinds, strict=True):
        if kind == REAL:
            value += ridge * (each**2).sum(dtype=np.float64)
        elif balance:
            value -= 2 * balance * (each * _spread(each)).sum(dtype=np.float64)
    return float(value)


def rotated(vectors, bits, rounds=20, seed=0):
    """Orthonormal directions along which unit vectors are nearest to their own signs (ITQ).

    Parameters: bits, at most as many as the vectors have components.

    Gong and Lazebnik 2011.
    """
    units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    made = np.random.default_rng(seed).standard_normal((vectors.shape[1], bits))
    turn = np.linalg.qr(made)[0].astype(np.float32)
    for _ in range(rounds):
        left, _, right = np.linalg.svd(units.T @ signs(units @ turn), full_matrices=False)
        turn = left @ right
    return turn


def signs(values):
    """+1 where a value is above 0, else -1."""
    return np.where(values > 0, np.float32(1), np.float32(-1))
