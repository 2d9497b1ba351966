"""Tiny releases of each mechanism whose posterior can be computed by looking at every profile."""

from itertools import combinations

import numpy as np
from scipy.special import log_ndtr

from sfumato.attack import BitChannel, SignChannel, SymbolChannel, VectorChannel

ITEMS = 7
PRIOR = np.array([0.1, 0.5, 0.3, 0.2, 0.6, 0.4, 0.15])
PROFILE = [1, 2, 4]


def bits(seed):
    """A release of flipped bits, and the log-likelihood of a profile."""
    draws, flip = np.random.default_rng(seed), 0.2
    positions = draws.integers(0, 20, (ITEMS, 4))

    def filled(profile):
        row = np.zeros(20, bool)
        row[positions[list(profile)].ravel()] = True
        return row

    observed = filled(PROFILE) ^ (draws.random(20) < flip)

    def fit(profile):
        wrong = int((filled(profile) ^ observed).sum())
        return wrong * np.log(flip) + (20 - wrong) * np.log(1 - flip)

    return BitChannel(observed[None], positions, flip), fit


def _projected(seed):
    draws = np.random.default_rng(seed)
    codes = draws.normal(size=(ITEMS, 12)).astype(np.float32)
    codes /= np.sqrt(np.square(codes).sum(axis=1).mean())
    return draws, codes, lambda profile: codes[list(profile)].sum(axis=0)


def vectors(seed):
    """A release of a noised vector, and the log-likelihood of a profile."""
    draws, codes, mean = _projected(seed)
    observed = mean(PROFILE) + 0.4 * draws.normal(size=12)

    def fit(profile):
        return -np.square(observed - mean(profile)).sum() / (2 * 0.4**2)

    return VectorChannel(observed[None], codes, 0.4), fit


def signs(seed):
    """A release of signs, and the log-likelihood of a profile."""
    draws, codes, mean = _projected(seed)
    observed = mean(PROFILE) + 0.4 * draws.normal(size=12) >= 0

    def fit(profile):
        return log_ndtr(np.where(observed, 1, -1) * mean(profile) / 0.4).sum()

    return SignChannel(observed[None], codes, 0.4), fit


def symbols(seed):
    """A release of answered minima, and the log-likelihood of a profile."""
    draws, chance, empty = np.random.default_rng(seed), 0.12, 4
    places, ranks = draws.integers(0, 3, ITEMS), draws.permutation(ITEMS)
    names = draws.integers(0, empty, ITEMS)

    def result(profile):
        row = np.full(3, empty)
        for item in sorted(profile, key=lambda j: -ranks[j]):
            row[places[item]] = names[item]
        return row

    wrong = draws.random(3) < chance * empty
    observed = np.where(wrong, (result(PROFILE) + draws.integers(1, empty + 1, 3)) % (empty + 1), 0)
    observed = np.where(wrong, observed, result(PROFILE))

    def fit(profile):
        agrees = result(profile) == observed
        return np.where(agrees, np.log(1 - chance * empty), np.log(chance)).sum()

    return SymbolChannel(observed[None], places, ranks, names, chance, empty=empty), fit


TINY = {"bits": bits, "vectors": vectors, "signs": signs, "symbols": symbols}


def posterior(fit, prior, most=ITEMS):
    """The exact marginals of all profiles of up to so many items."""
    odds, out, whole = np.log(prior) - np.log1p(-prior), np.zeros(ITEMS), 0.0
    for size in range(most + 1):
        for profile in combinations(range(ITEMS), size):
            mass = np.exp(fit(profile) + odds[list(profile)].sum())
            out[list(profile)] += mass
            whole += mass
    return out / whole
