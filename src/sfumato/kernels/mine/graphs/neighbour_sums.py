"""Sums over the neighbours of every node: one step of walks, of hubs or of authorities."""

from sfumato.kernels.jit import kernel

__all__ = ["pull", "pull_both", "pull_rows", "pull_weighted"]

BLOCK = 256  # columns at a time: those of a thousand rows or two stay in the cache


@kernel
def pull(offsets, members, values, out):
    """out[i] = sum of values[m] over the members m of list i."""
    for i in range(out.size):
        even, odd = 0.0, 0.0
        begin, end = offsets[i], offsets[i + 1]
        if (end - begin) & 1:
            even = values[members[begin]]
            begin += 1
        for k in range(begin, end, 2):
            even += values[members[k]]
            odd += values[members[k + 1]]
        out[i] = even + odd


@kernel
def pull_both(offsets, members, values, out):
    """out[i, :] = sum of values[m, :] over the members m of list i, for rows of two numbers."""
    for i in range(out.shape[0]):
        first, second = 0.0, 0.0
        for k in range(offsets[i], offsets[i + 1]):
            m = members[k]
            first += values[m, 0]
            second += values[m, 1]
        out[i, 0] = first
        out[i, 1] = second


@kernel
def pull_weighted(offsets, members, weights, values, out):
    """out[i] = sum of weights[k] values[members[k]] over the entries k of list i."""
    for i in range(out.size):
        total = 0.0
        for k in range(offsets[i], offsets[i + 1]):
            total += weights[k] * values[members[k]]
        out[i] = total


@kernel
def pull_rows(offsets, members, scales, values, out):
    """out[i, :] = scales[i] times the sum of values[m, :] over the members m of list i."""
    columns = values.shape[1]
    for start in range(0, columns, BLOCK):
        end = min(start + BLOCK, columns)
        for i in range(out.shape[0]):
            here = out[i, start:end]
            here[:] = 0.0
            for k in range(offsets[i], offsets[i + 1]):
                there = values[members[k], start:end]
                for c in range(end - start):
                    here[c] += there[c]
            for c in range(end - start):
                here[c] *= scales[i]
