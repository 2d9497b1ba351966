"""Rows of a compressed sparse matrix: members grouped by row, and some of the rows gathered."""

from sfumato.kernels.jit import kernel

__all__ = ["fill", "gather", "group"]


@kernel
def group(groups, members, ends, out):
    """out[starts[g] : starts[g + 1]] = members of group g in their order; ends begins as starts."""
    for i in range(groups.size):
        out[ends[groups[i]]] = members[i]
        ends[groups[i]] += 1


@kernel
def gather(starts, members, rows, ends, out):
    """out[ends[q] : ends[q + 1]] = members[starts[r] : starts[r + 1]], r = rows[q] >= 0."""
    for q in range(rows.size):
        if rows[q] >= 0:
            first = starts[rows[q]]
            for k in range(ends[q + 1] - ends[q]):
                out[ends[q] + k] = members[first + k]


@kernel
def fill(starts, positions, rows, value, out):
    """out[q, p] = value for p in positions[starts[r] : starts[r + 1]], r = rows[q] >= 0."""
    for q in range(rows.size):
        if rows[q] >= 0:
            for k in range(starts[rows[q]], starts[rows[q] + 1]):
                out[q, positions[k]] = value
