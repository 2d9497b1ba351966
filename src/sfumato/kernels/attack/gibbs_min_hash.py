"""Profiles behind answered minima: of the candidates in a bin, the lowest rank is reported.

Candidates stand bin after bin, each bin in order of rank. One below the least of the profile in its
bin would take its place; one above it would change nothing.
"""

import math

from sfumato.kernels.attack.gibbs import climb, walk
from sfumato.kernels.jit import inline, kernel

__all__ = ["climb_symbols", "gain_symbols", "walk_symbols"]


@inline
def _regain(state, j, live, weight):
    """Gains of all candidates in the bin of j."""
    first, last, fits, empty, inside, gains = state
    least = last[j]
    for i in range(first[j], last[j]):
        if inside[i]:
            least = i
            break
    current = fits[least] if least < last[j] else empty[j]
    for i in range(first[j], last[j]):
        gains[i] = fits[i] - current if i < least else 0.0
        weight[i] = live[i] * math.exp(gains[i])


@inline
def _change(state, j, sign, live, weight):
    state[4][j] = sign > 0
    _regain(state, j, live, weight)
    if sign < 0:
        return
    weight[j] = 0.0


@inline
def _weigh(state, live, weight):
    return 0.0  # every change has kept the weights up


@inline
def _gain(state, j):
    return state[5][j]


@kernel
def gain_symbols(first, last, fits, empty, inside, live, weight, gains):
    """Fill gains and weights for the profile as it stands."""
    state = first, last, fits, empty, inside, gains
    for j in range(gains.size):
        if first[j] == j:
            _regain(state, j, live, weight)


@kernel
def walk_symbols(
    first, last, fits, empty, inside, gains,
    odds, live, weight, slots, clock, key, steps, entered, counts,
):  # fmt: skip
    """`walk` where fits[j] = log P(answer | symbol of j), empty[j] that of an empty bin."""
    state = first, last, fits, empty, inside, gains
    walk(_change, _weigh, state, odds, live, weight, slots, clock, key, steps, entered, counts)


@kernel
def climb_symbols(
    first, last, fits, empty, inside, gains, log_odds, live, weight, sweeps, out
):  # fmt: skip
    """`climb` with the arrays of `walk_symbols`."""
    state = first, last, fits, empty, inside, gains
    climb(_change, _gain, state, log_odds, live, weight, sweeps, out)
