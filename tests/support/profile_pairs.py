"""Profiles with a known answer: many pairs of users who share so many items, and no others."""

import math

import numpy as np
from scipy.stats import norm

from sfumato.data import Interactions
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.profile import Jlt, Minima, Signs

COUNT, LEFT, RIGHT, COMMON = 1000, 60, 90, 40

# Each at a noise that leaves something to estimate and yet is most of what is seen.
MECHANISMS = {
    "jlt": lambda **more: Jlt(**{"dimensions": 150, "epsilon": 12, **more}),
    "signs": lambda **more: Signs(**{"bits": 400, "epsilon": 12, **more}),
    "minima": lambda **more: Minima(**{"bins": 256, "code_bits": 2, "epsilon": 3, **more}),
}


def continuous_delta(epsilon, moved, sigma):
    """Delta of continuous noise (Balle and Wang 2018, Theorem 8)."""
    ratio = math.sqrt(moved) / sigma
    near, far = ratio / 2 - epsilon / ratio, -ratio / 2 - epsilon / ratio
    return norm.cdf(near) - math.exp(epsilon + norm.logcdf(far))


def interactions(*profiles):
    """User i has profile i, a column of items."""
    users = np.repeat(np.arange(len(profiles)), [len(each) for each in profiles])
    items = np.concatenate([np.asarray(each, np.int64) for each in profiles])
    return Interactions(users, items, np.ones(users.size))


def halves(count=COUNT, left=LEFT, right=RIGHT, common=COMMON):
    """Two columns of users; user i here and user i there share `common` items, and no others."""
    whole = left + right - common
    first = whole * np.arange(count)[:, np.newaxis]
    return (
        interactions(*(first + np.arange(left))),
        interactions(*(first + np.arange(left - common, whole))),
    )


def both(make, count=COUNT, **sizes):
    """Releases of the two columns, whose noise is not the same."""
    return tuple(
        make.release(each, users=np.arange(count), source=InsecureSeededSource(seed))
        for seed, each in enumerate(halves(count, **sizes), 11)
    )


def near(values, mean, within=5.0):
    """Whether the mean of independent values is within so many standard errors; p < 1e-6 at 5."""
    values = np.asarray(values, np.float64)
    return abs(values.mean() - mean) <= within * values.std() / np.sqrt(values.size)
