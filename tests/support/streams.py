"""Streams with known counts that the statistical tests share."""

import numpy as np

__all__ = ["uniform", "zipf"]


def zipf(size, keys, exponent=1.1, seed=0):
    """A stream drawn from a Zipf law over this many keys."""
    cumulative = np.cumsum(1 / np.arange(1, keys + 1) ** exponent)
    draws = np.random.default_rng(seed).random(size) * cumulative[-1]
    return np.searchsorted(cumulative, draws)


def uniform(size, keys, seed=0):
    """A stream in which all keys are alike."""
    return np.random.default_rng(seed).integers(0, keys, size)
