"""Balls around all nodes at once: of HyperLogLog registers, and exact ones of sets of bits.

Row i of a table stands for the nodes within t steps of node i; a step joins the rows of a node's
neighbours to its own. Rows of which no neighbour changed in the step before are only copied.
"""

import numpy as np

from sfumato.kernels.hash import of_integer
from sfumato.kernels.jit import kernel
from sfumato.kernels.lanes import count_leading_zeros, population_count

__all__ = ["cardinalities", "join_bits", "join_registers", "start_bits", "start_registers"]

TOP = np.uint8(49)
UNIT = 2.0**-49


@kernel
def start_registers(precision, key, out):
    """out[i] = registers of the set of node i alone: the leading zeros of its hash, plus 1."""
    for i in range(out.shape[0]):
        h = of_integer(i, key)
        rest = (h << np.uint64(precision)) | (np.uint64(1) << np.uint64(precision - 1))
        out[i, np.int64(h >> np.uint64(64 - precision))] = 1 + count_leading_zeros(rest)


@kernel
def join_registers(offsets, members, begin, end, changed, registers, grown, out):
    """out[i, :] = largest of the rows of node i and its neighbours; grown[i] = whether it grew."""
    size = registers.shape[1]
    for i in range(begin, end):
        mine, now = registers[i], out[i]
        for r in range(size):
            now[r] = mine[r]
        touched = False
        for k in range(offsets[i], offsets[i + 1]):
            if changed[members[k]]:
                theirs = registers[members[k]]
                touched = True
                for r in range(size):
                    now[r] = max(now[r], theirs[r])
        more = False
        if touched:
            for r in range(size):
                more |= now[r] != mine[r]
        grown[i] = more


@kernel
def cardinalities(registers, grown, corrections, totals, empty, out):
    """out[i, 0] = estimated size of the set of row i, for every row that grew; out[i, 1 + g] = that
    without the registers of group g, of as many groups as `totals` is long.

    Ertl's estimator, 2017: m**2 / (2 log 2 (m sigma(z / m) + sum of 2**-register)) with z registers
    of 0. corrections[0, z] = m sigma(z / m) of all registers, corrections[1, z] of all but a group.
    Powers are summed as integers, 2**49 times as large, which vectorises; a register above 49
    counts as 49, which no set of fewer than 2**40 nodes notices.
    """
    size, groups = registers.shape[1], totals.size
    width = size // groups
    scale = 1 / (2 * np.log(2.0))
    rest = (size - width) * size * scale  # of the other groups, times size / (size - width)
    for i in range(registers.shape[0]):
        if not grown[i]:
            continue
        total, zeros = 0.0, 0
        for g in range(groups):
            powers, none = np.uint64(0), np.uint64(0)
            for r in range(g * width, (g + 1) * width):
                value = np.uint64(min(registers[i, r], TOP))
                powers += np.uint64(1) << (np.uint64(TOP) - value)
                none += np.uint64(value == np.uint64(0))
            empty[g] = none
            totals[g] = UNIT * np.float64(powers - (none << np.uint64(TOP)))
            total += totals[g]
            zeros += empty[g]
        out[i, 0] = size * size * scale / (total + corrections[0, zeros])
        for g in range(groups):
            out[i, 1 + g] = rest / (total - totals[g] + corrections[1, zeros - empty[g]])


@kernel
def start_bits(first, out):
    """out[first + k] = the set of source k alone, for as many as a row has bits."""
    sources = min(out.shape[0] - first, 64 * out.shape[1])
    for k in range(sources):
        out[first + k, k >> 6] |= np.uint64(1) << np.uint64(k & 63)


@kernel
def join_bits(offsets, members, changed, sets, grown, out):
    """out[i, :] = union of the rows of node i and its neighbours; returns how many bits are new."""
    words, new = sets.shape[1], 0
    for i in range(sets.shape[0]):
        mine, now = sets[i], out[i]
        for w in range(words):
            now[w] = mine[w]
        for k in range(offsets[i], offsets[i + 1]):
            if changed[members[k]]:
                theirs = sets[members[k]]
                for w in range(words):
                    now[w] |= theirs[w]
        before = new
        for w in range(words):
            new += population_count(now[w] ^ mine[w])
        grown[i] = new > before
    return new
