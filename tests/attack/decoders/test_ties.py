"""Ties between candidates carry no information: their order is not evidence."""

import numpy as np

from sfumato.attack import BitChannel, joint_decoder


def test_chains_choose_among_equal_candidates_at_random():
    # Fair coins and a flat prior: all 640 items are equal, and chains are given 64 of them. Chosen
    # by order, none of the second half would ever be met; at random, half of those met are of it,
    # and fewer than a fifth of 40 or more with a probability below 1e-4 (seeds are fixed).
    draws = np.random.default_rng(0)
    observed = BitChannel(draws.random((5, 400)) < 0.5, draws.integers(0, 400, (640, 4)), 0.5)
    for seed in range(3):
        settings = dict(method="gibbs", sizes=5, samples=4000, burn_in=0, random_state=seed)
        scores = joint_decoder(observed, None, **settings)
        met = scores > scores.min(axis=1, keepdims=True)
        assert met.sum() >= 40
        assert met[:, 320:].sum() >= 0.2 * met.sum()
