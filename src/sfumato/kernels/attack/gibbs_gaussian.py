"""Profiles behind Gaussian noise: what is left of the release, seen by each candidate's codeword.

A candidate's gain is x'r - x'x / 2 in units of the noise's variance, where x is its codeword and r
the release less the codewords of the profile; adding j changes it by -x'x_j, a row of the Gram
matrix. Gains are padded as the weights are.
"""

from sfumato.kernels.attack.gibbs import climb, walk
from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import f64x8, fma, largest, load, maximum, minimum, select, store

__all__ = ["climb_vectors", "walk_vectors"]

FAR = 40.0  # e-fold below the best a candidate is as good as never drawn

TERMS = (1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0)


@inline
def _change(state, j, sign, live, weight):
    gram, gains = state
    for i in range(gram.shape[1]):
        gains[i] -= sign * gram[j, i]


@inline
def _exp(x):
    """e^x in lanes, to 1e-8 of itself for x from -FAR to 0: Taylor at x / 256, squared 8 times."""
    y = x * (1.0 / 256)
    p = f64x8(1.0 / 5040)
    for k in range(6):
        p = fma(p, y, f64x8(TERMS[k]))
    p = fma(p, y, f64x8(1.0))
    for _ in range(8):
        p = p * p
    return p


@inline
def _weigh(state, live, weight):
    gains, best, none = state[1], f64x8(0.0), f64x8(0.0)
    for i in range(0, live.size, 8):
        best = maximum(select(load(live, i) > none, load(gains, i), none), best)
    shift = largest(best)
    for i in range(0, live.size, 8):
        below = load(gains, i) - f64x8(shift)
        near = below > f64x8(-FAR)
        p = _exp(minimum(maximum(below, f64x8(-FAR)), none))
        store(weight, i, select(near, load(live, i) * p, none))
    return shift


@inline
def _gain(state, j):
    return state[1][j]


@kernel
def walk_vectors(
    gram, gains, odds, live, weight, slots, clock, key, steps, entered, counts
):  # fmt: skip
    """`walk` with the codewords' Gram matrix and the gains, both in units of the variance."""
    state = gram, gains
    walk(_change, _weigh, state, odds, live, weight, slots, clock, key, steps, entered, counts)


@kernel
def climb_vectors(gram, gains, log_odds, live, weight, sweeps, out):
    """`climb` with the arrays of `walk_vectors`."""
    climb(_change, _gain, (gram, gains), log_odds, live, weight, sweeps, out)
