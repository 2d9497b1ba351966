"""Pairs of random walks against the edges, for SimRank.

A walk goes from a node to one of its in-neighbours, each with the same probability, and ends at a
node without any. Two walks meet if they are at one node after the same number of steps.
"""

import numpy as np

from sfumato.kernels.hash import GOLDEN, mix
from sfumato.kernels.jit import inline, kernel

__all__ = ["no_meeting"]

HALF = np.uint64(32)
LOW = np.uint64(2**32 - 1)
TOP = np.uint64(11)
UNIT = 2.0**-53


@inline
def _below(bits, bound):
    """An integer below `bound` from the low 32 bits, each with probability 1 / bound +- 2**-32."""
    return np.int64(((bits & LOW) * np.uint64(bound)) >> HALF)


@kernel
def no_meeting(offsets, sources, nodes, samples, decay, key, out):
    """out[i] = estimated probability that two walks from nodes[i] never meet again; out[i, 1] its
    variance. Each step is survived with probability `decay`, by both or none.

    The first step is exact: both walks are at one in-neighbour with probability 1 / d. Only pairs
    that differ there are drawn, samples[i] of them. The variance is of a proportion to which one
    success and one failure are added, so that it is not 0 for want of samples.
    """
    for i in range(nodes.size):
        node, drawn = nodes[i], samples[i]
        begin = offsets[node]
        degree = offsets[node + 1] - begin
        out[i, 1] = 0.0
        if degree == 0:
            out[i, 0] = 1.0
            continue
        if degree == 1:
            out[i, 0] = 1.0 - decay
            continue
        state = mix(key + np.uint64(node) * GOLDEN)
        meetings = 0
        for _ in range(drawn):
            state += GOLDEN
            bits = mix(state)
            first = _below(bits, degree)
            second = _below(bits >> HALF, degree - 1)
            second += second >= first
            x, y = sources[begin + first], sources[begin + second]
            while x != y:
                from_x, from_y = offsets[x], offsets[y]
                more_x, more_y = offsets[x + 1] - from_x, offsets[y + 1] - from_y
                if more_x == 0 or more_y == 0:
                    break
                state += GOLDEN
                if np.float64(mix(state) >> TOP) * UNIT >= decay:
                    break
                state += GOLDEN
                bits = mix(state)
                x = sources[from_x + _below(bits, more_x)]
                y = sources[from_y + _below(bits >> HALF, more_y)]
            meetings += x == y
        apart = 1.0 - 1.0 / degree
        rate = meetings / drawn
        smooth = (meetings + 1.0) / (drawn + 2.0)
        out[i, 0] = 1.0 - decay * (1.0 / degree + apart * rate)
        out[i, 1] = (decay * apart) ** 2 * smooth * (1.0 - smooth) / drawn
