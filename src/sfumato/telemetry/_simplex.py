"""Least squares with shares that are never negative and never sum to more than one."""

import numpy as np
import scipy.linalg

__all__ = ["factored", "nonnegative"]


def nonnegative(gram: np.ndarray, target: np.ndarray, *, closed: bool) -> np.ndarray:
    """The p >= 0 with the least p' gram p / 2 - target' p whose sum is <= 1, or = 1 if `closed`.

    Guarantee: the conditions of Karush, Kuhn and Tucker hold up to rounding, where gram is positive
    definite; else for the least ridge that makes it so.
    Parameters: gram (M, M); target (M,); closed, whether the shares sum to one.

    >>> nonnegative(np.eye(2), np.array([0.4, -0.1]), closed=False)
    array([0.4, 0. ])
    >>> nonnegative(np.eye(2), np.array([0.4, -0.2]), closed=True)
    array([0.8, 0.2])

    Kim and Park 2011, block principal pivoting.
    """
    shares = np.zeros(0) if closed else _pivoted(gram, target, None)
    if closed or shares.sum() > 1:
        shares = _pivoted(gram, target, 1.0)
    return shares


def factored(gram: np.ndarray) -> tuple[np.ndarray, bool]:
    """The Cholesky factor, with the least ridge that a matrix needs which few reports left flat."""
    for ridge in (0.0, 1e-12, 1e-9, 1e-6):
        raised = gram.copy()
        raised.flat[:: len(gram) + 1] += ridge * max(float(gram.diagonal().max()), 1.0)
        try:
            factor, lower = scipy.linalg.cho_factor(raised, overwrite_a=True)
            return factor, lower
        except scipy.linalg.LinAlgError:
            continue
    raise ValueError("decode: the reports are too few to tell the candidates apart; collect more.")


def _pivoted(gram: np.ndarray, target: np.ndarray, total: float | None) -> np.ndarray:
    """Exchange all variables of the wrong sign at once; one by one when that stops helping."""
    free = np.ones(target.size, bool)
    fewest, chances = target.size + 1, 3
    for _ in range(50 + 5 * target.size):
        shares, slope = _solved(gram, target, free, total)
        wrong = np.where(free, shares < -1e-12, slope < -1e-9 * np.abs(target).max(initial=1e-300))
        count = int(wrong.sum())
        if not count:
            break
        if count < fewest:
            fewest, chances = count, 3
        elif chances:
            chances -= 1
        else:
            last = int(np.flatnonzero(wrong)[-1])
            wrong = np.arange(target.size) == last
        free ^= wrong
    return np.asarray(np.maximum(shares, 0))


def _solved(
    gram: np.ndarray, target: np.ndarray, free: np.ndarray, total: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """The best shares with those that are not free at 0, and the slope of all."""
    shares, price = np.zeros(target.size), 0.0
    if free.any():
        factor = factored(gram[np.ix_(free, free)])
        shares[free] = scipy.linalg.cho_solve(factor, target[free])
        if total is not None:
            ones = scipy.linalg.cho_solve(factor, np.ones(int(free.sum())))
            price = (shares[free].sum() - total) / ones.sum()
            shares[free] -= price * ones
    elif total is not None:
        price = float(target.max())  # at this price the best one is worth freeing
    return shares, gram @ shares - target + price
