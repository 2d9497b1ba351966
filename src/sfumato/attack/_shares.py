"""Shares of items among users, when only some users were seen: a beta law fitted to all items."""

import numpy as np

__all__ = ["smoothed_shares"]

ENOUGH = 20  # users and items, below which there is no law to fit
LARGEST = 14.0  # of |log a| and |log b|: counts without a spread would drive them on for ever


def smoothed_shares(counts: np.ndarray, users: int) -> np.ndarray:
    """The expected share of each item among all users, given how many of some users have it.

    Guarantee: above 0 and below 1: (count + a) / (users + a + b), the mean after a beta(a, b) law
    of shares. a and b make the counts of all items likeliest; of fewer than 20 users or items a is
    the mean share and a + b is 1, so that the law weighs as much as one user.

    >>> smoothed_shares(np.array([2, 1, 0]), 2).round(3)  # a = 4 / 8
    array([0.833, 0.5  , 0.167])
    """
    a = (counts.sum() + 1) / (users * counts.size + 2)
    b = 1 - a
    if users >= ENOUGH and counts.size >= ENOUGH:
        a, b = _likeliest(counts, users, a, b)
    return np.asarray((counts + a) / (users + a + b))


def _likeliest(counts: np.ndarray, users: int, a: float, b: float) -> tuple[float, float]:
    """The likeliest a and b of a beta-binomial law, by descent from these on, over their logs."""
    from scipy.optimize import minimize
    from scipy.special import betaln, digamma

    seen, times = np.unique(counts, return_counts=True)

    def surprise(logs: np.ndarray) -> tuple[float, np.ndarray]:
        a, b = np.exp(logs)
        found = times @ (betaln(seen + a, users - seen + b) - betaln(a, b))
        all_of = counts.size * (digamma(users + a + b) - digamma(a + b))
        up = times @ (digamma(seen + a) - digamma(a)) - all_of
        down = times @ (digamma(users - seen + b) - digamma(b)) - all_of
        return -found / counts.size, -np.array([a * up, b * down]) / counts.size

    ends = [(-LARGEST, LARGEST)] * 2
    found = minimize(
        surprise,
        np.log([a, b]),
        jac=True,
        method="L-BFGS-B",
        bounds=ends,
        options={"ftol": 1e-14, "gtol": 1e-9},
    )
    a, b = np.exp(found.x).tolist()
    return a, b
