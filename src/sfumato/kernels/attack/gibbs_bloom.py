"""Profiles behind flipped bits: cover counts of bits, and how many bits each candidate would mend.

A candidate's gain is log((1 - p) / p) times its mended bits: those it alone would set that were
answered 1, less those answered 0. So weights come from a table of integers.
"""

from sfumato.kernels.attack.gibbs import climb, walk
from sfumato.kernels.jit import inline, kernel

__all__ = ["climb_bits", "index_bits", "walk_bits"]


@kernel
def index_bits(starts, positions, answers, cover, holders_from, holders, mended):
    """Candidates of each bit, holders[holders_from[l] : holders_from[l + 1]], and mended bits.

    starts, positions: the distinct bits of each candidate; answers: +1 where a bit was answered 1,
    else -1; cover: how many items of the profile set each bit.
    """
    for e in range(positions.size):
        holders_from[positions[e] + 1] += 1
    for bit in range(answers.size):
        holders_from[bit + 1] += holders_from[bit]
    at = holders_from[:-1].copy()
    for j in range(starts.size - 1):
        for e in range(starts[j], starts[j + 1]):
            bit = positions[e]
            holders[at[bit]] = j
            at[bit] += 1
            if not cover[bit]:
                mended[j] += answers[bit]


@inline
def _change(state, j, sign, live, weight):
    starts, positions, answers, holders_from, holders, cover, mended, table, _ = state
    middle = table.size // 2
    bare = 1 if sign > 0 else 0  # the count of a bit that has just been covered, or bared
    for e in range(starts[j], starts[j + 1]):
        bit = positions[e]
        cover[bit] += sign
        if cover[bit] == bare:
            for h in range(holders_from[bit], holders_from[bit + 1]):
                i = holders[h]
                mended[i] -= sign * answers[bit]
                weight[i] = live[i] * table[middle + mended[i]]
    weight[j] = live[j] * table[middle + mended[j]]


@inline
def _weigh(state, live, weight):
    return 0.0  # every change has kept the weights up


@inline
def _gain(state, j):
    return state[6][j] * state[8]


@kernel
def walk_bits(
    starts, positions, answers, holders_from, holders, cover, mended, table, step,
    odds, live, weight, slots, clock, key, steps, entered, counts,
):  # fmt: skip
    """`walk` where table[K + d] = exp(step d) and step = log((1 - p) / p)."""
    state = starts, positions, answers, holders_from, holders, cover, mended, table, step
    walk(_change, _weigh, state, odds, live, weight, slots, clock, key, steps, entered, counts)


@kernel
def climb_bits(
    starts, positions, answers, holders_from, holders, cover, mended, table, step,
    log_odds, live, weight, sweeps, out,
):  # fmt: skip
    """`climb` with the arrays of `walk_bits`."""
    state = starts, positions, answers, holders_from, holders, cover, mended, table, step
    climb(_change, _gain, state, log_odds, live, weight, sweeps, out)
