"""A search for the least value of a noisy loss, which asks for nothing but values of it."""

from collections.abc import Callable

import numpy as np

__all__ = ["BUDGET", "least"]

BATCH, ROUNDS = 100, 20
BUDGET = BATCH * ROUNDS
KEPT = BATCH // 5  # of the best points so far, around which the next are drawn
SHRINK = 0.93  # of a step, from round to round
FITTED = BUDGET // 4  # numbers of a quadratic up to which the values can tell it


def least(
    loss: Callable[[np.ndarray], np.ndarray], size: int, longest: float, curved: float, seed: int
) -> np.ndarray:
    """Weights of a small loss among those of a length up to `longest`.

    Guarantee: `loss` takes points, one a row, and is asked 20 times at 100 of them: 0 and random
    ones, then points near the best so far, by steps that shrink. The answer is the least of the
    quadratic closest to all values, with a curvature of at least `curved` (above 0) everywhere:
    errors of single values, of which the least value itself is the luckiest, average out in it.
    Past 30 weights, where 2000 values do not tell a quadratic, it is the mean of the 20 best
    points. Equal arguments give equal weights.

    >>> wanted = np.array([0.5, -0.25])
    >>> found = least(lambda points: ((points - wanted) ** 2).sum(axis=1), 2, 2.0, 0.1, seed=0)
    >>> found.round(6).tolist()
    [0.5, -0.25]
    """
    points, values = _asked(loss, size, longest, np.random.default_rng(seed))
    if (size + 1) * (size + 2) // 2 <= FITTED:
        found = _bottom(points, values, curved)
    else:
        found = points[np.argsort(values, kind="stable")[:KEPT]].mean(axis=0)
    return np.asarray(_inside(found[None], longest)[0])


def _asked(
    loss: Callable[[np.ndarray], np.ndarray], size: int, longest: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """All points that were tried, and their values."""
    points = rng.normal(0.0, 1.0, (BATCH, size))
    lengths = longest * rng.uniform(0, 1, (BATCH, 1)) ** (1 / size)  # even in the ball
    points *= lengths / np.linalg.norm(points, axis=1, keepdims=True)
    points[0] = 0.0
    values, step = loss(points), longest / 2
    for _ in range(ROUNDS - 1):
        best = points[np.argsort(values, kind="stable")[:KEPT]]
        near = best[rng.integers(KEPT, size=BATCH)]
        near = _inside(near + rng.normal(0.0, step / np.sqrt(size), near.shape), longest)
        points, values = np.vstack([points, near]), np.append(values, loss(near))
        step *= SHRINK
    return points, values


def _bottom(points: np.ndarray, values: np.ndarray, curved: float) -> np.ndarray:
    """Where the quadratic closest to the values is least, were it as curved as it must be."""
    size = points.shape[1]
    one, other = np.triu_indices(size)
    columns = [np.ones((len(points), 1)), points, points[:, one] * points[:, other]]
    told = np.linalg.lstsq(np.hstack(columns), values, rcond=None)[0]
    slope, square = told[1 : size + 1], np.zeros((size, size))
    square[one, other] = told[size + 1 :]
    curvatures, vectors = np.linalg.eigh(square + square.T)
    return np.asarray(-vectors @ ((vectors.T @ slope) / np.maximum(curvatures, curved)))


def _inside(points: np.ndarray, longest: float) -> np.ndarray:
    """Points beyond the ball, drawn back to its edge."""
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(points * (longest / np.maximum(lengths, longest)))
