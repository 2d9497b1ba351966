"""Belief propagation: what the answers say about each item, given what is believed of the others.

Users are rows. A log-likelihood ratio compares "the item is in the profile" with "it is not".
"""

import math

import numpy as np

from sfumato.kernels.jit import kernel

__all__ = ["bins", "bits"]

LEAST = (
    1e-7  # of the probability that an item is absent: a belief that cannot be taken back stops all
)


@kernel
def bits(starts, positions, ones, flip, odds, damping, absent, out):
    """One exchange of messages between items and flipped bits; out = log-likelihood ratios.

    Item j sets the bits positions[starts[j] : starts[j + 1]]. absent[u, e] is the message to bit
    positions[e]: the probability that its item is not in the profile, given all other bits. It is
    updated in place, with weight `damping` on the previous message.
    """
    bare, likelihoods = np.empty(ones.shape[1]), np.empty(ones.shape[1])
    own = np.empty(np.diff(starts).max())
    for u in range(ones.shape[0]):
        bare[:] = 1.0
        for e in range(positions.size):
            bare[positions[e]] *= absent[u, e]
        for bit in range(bare.size):
            # P(answer | bit set), and how much it loses by the probability that no item sets it
            likelihoods[bit] = 1.0 - flip if ones[u, bit] else flip
            bare[bit] *= 1.0 - 2.0 * likelihoods[bit]
        for j in range(starts.size - 1):
            first, belief = starts[j], odds[u, j]
            ratio = 1.0
            for e in range(first, starts[j + 1]):
                fits = likelihoods[positions[e]] * absent[u, e]
                own[e - first] = fits / (fits + bare[positions[e]])
                ratio *= own[e - first]
            out[u, j] = math.log(ratio)
            belief *= ratio
            for e in range(first, starts[j + 1]):
                alone = max(own[e - first] / (own[e - first] + belief), LEAST)
                absent[u, e] = damping * absent[u, e] + (1.0 - damping) * alone


@kernel
def bins(starts, fits, empty, probabilities, out):
    """Exact log-likelihood ratios where each bin tells only its least item; out[u, j] of item j.

    Bin b holds items starts[b] to starts[b + 1], in order of rank; fits[u, j] = P(answer | item j
    is the least), empty[u, b] = P(answer | none); probabilities[u, j] = P(item j in the profile).
    """
    after = np.empty(fits.shape[1] + 1)
    for u in range(fits.shape[0]):
        for b in range(starts.size - 1):
            after[starts[b + 1]] = empty[u, b]
            for j in range(starts[b + 1] - 1, starts[b], -1):
                after[j] = after[j + 1] + probabilities[u, j] * (fits[u, j] - after[j + 1])
            before, none = 0.0, 1.0
            for j in range(starts[b], starts[b + 1]):
                with_, without = before + none * fits[u, j], before + none * after[j + 1]
                out[u, j] = math.log(with_ / without)
                before += none * probabilities[u, j] * fits[u, j]
                none *= 1.0 - probabilities[u, j]
