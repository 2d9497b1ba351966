"""Noisy item means between exact biases of the users, which stay with them (joint privacy).

A user's bias is computed from that user's events and released numbers alone (`own_vectors`), so
whatever a user has, only that user's own terms of the noisy sums change, and those are bounded. All
that is used about users as a whole comes from noisy numbers. Components are not looked for: by
`Rule` they would need thousands of bounded ratings of each user and item before they showed.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from sfumato.recommend._alternate import Learned
from sfumato.recommend._noisy_means import Seen, shrunk_biases, true_counts
from sfumato.recommend._noisy_sums import NoisySums
from sfumato.recommend._own_users import own_vectors
from sfumato.recommend._private_plan import FIRST

__all__ = ["item_means"]

STEPS = 4
USER_BIAS = 0.03  # variance of users' biases, where half the range of ratings is 1


def item_means(sums: NoisySums) -> Learned:
    """The mean and the items' biases; users' rows are empty. It spends the whole budget."""
    sizes = sums.events.sizes
    number, rated = sums.total(FIRST)
    ratings = max(number, 1.0)
    mean = float(np.clip(rated / ratings, -1, 1))
    known = Learned(mean, np.empty((0, 1)), np.zeros((sizes["items"], 1)), 0.25, USER_BIAS)
    counts, measured = np.ones(sizes["items"]), np.zeros(sizes["items"])
    for step in range(STEPS):
        users = own_vectors(sums.events, known) if step else np.zeros((sizes["users"], 1))
        users[:, 0] += known.mean
        told = sums.measure(
            "items",
            known.items,
            users,
            np.empty((sizes["users"], 0)),
            Fraction(1 - FIRST) / STEPS,
            counted=step == 0,
        )
        if told.counts is not None:
            counts = true_counts(told.counts, told.count_variance, ratings)
        residual = float(np.clip(told.energy / ratings, 1e-3, 1.0))
        measured += told.sums[:, 0] + counts * known.items[:, 0]
        seen = _mean_of(measured, step + 1, counts, residual, told.variance)
        known = replace(known, items=shrunk_biases(seen, counts)[0][:, None], residual=residual)
    return known


def _mean_of(
    measured: np.ndarray, steps: int, counts: np.ndarray, residual: float, variance: float
) -> Seen:
    """The mean of the sums of so many steps, whose noises differ and whose ratings are the same."""
    slope = counts[:, None]
    return Seen(measured[:, None] / steps, slope, slope * residual + variance / steps)
