"""Edges grouped by node: offsets and positions of neighbours, transposed, joined and cleaned."""

from sfumato.kernels.jit import kernel

__all__ = ["compact", "count", "degrees", "duplicates", "group", "loops", "mirror", "transpose"]


@kernel
def count(keys, out):
    """out[k + 1] = the number of keys at most k; out[0] = 0. All keys are below out.size - 1."""
    out[:] = 0
    for i in range(keys.size):
        out[keys[i] + 1] += 1
    for k in range(1, out.size):
        out[k] += out[k - 1]


@kernel
def group(keys, values, weights, position, out, out_weights):
    """Put values[i] at the next free position of keys[i]; weights move along if there are any."""
    weighted = weights.size > 0
    for i in range(keys.size):
        at = position[keys[i]]
        position[keys[i]] = at + 1
        out[at] = values[i]
        if weighted:
            out_weights[at] = weights[i]


@kernel
def transpose(offsets, targets, weights, position, out, out_weights):
    """Put each row at the next free position of each of its targets, so rows come out sorted."""
    weighted = weights.size > 0
    for row in range(offsets.size - 1):
        for i in range(offsets[row], offsets[row + 1]):
            at = position[targets[i]]
            position[targets[i]] = at + 1
            out[at] = row
            if weighted:
                out_weights[at] = weights[i]


@kernel
def duplicates(offsets, targets):
    """Number of edges whose predecessor in a sorted row has the same target."""
    found = 0
    for row in range(offsets.size - 1):
        for i in range(offsets[row] + 1, offsets[row + 1]):
            found += targets[i] == targets[i - 1]
    return found


@kernel
def loops(offsets, targets):
    """Number of edges from a node to itself."""
    found = 0
    for row in range(offsets.size - 1):
        for i in range(offsets[row], offsets[row + 1]):
            found += targets[i] == row
    return found


@kernel
def compact(targets, weights, drop_loops, join, offsets):
    """Drop loops and edges of weight 0, join equal targets of sorted rows; return the edge count.

    In place. join: 0 leaves equal targets, 1 sums their weights, 2 retains the first of them, 3 the
    largest weight.
    """
    weighted = weights.size > 0
    size = begin = 0
    for row in range(offsets.size - 1):
        end, first = offsets[row + 1], size
        for i in range(begin, end):
            target = targets[i]
            if (drop_loops and target == row) or (weighted and weights[i] == 0.0):
                continue
            if join > 0 and size > first and targets[size - 1] == target:
                if join == 1 and weighted:
                    weights[size - 1] += weights[i]
                elif join == 3 and weighted:
                    weights[size - 1] = max(weights[size - 1], weights[i])
                continue
            targets[size] = target
            if weighted:
                weights[size] = weights[i]
            size += 1
        begin, offsets[row + 1] = end, size
    return size


@kernel
def mirror(offsets, targets, weights, sources, both, out_weights):
    """Write every edge in both directions, a loop once; return the number of entries written."""
    weighted = weights.size > 0
    size = 0
    for row in range(offsets.size - 1):
        for i in range(offsets[row], offsets[row + 1]):
            sources[size], both[size] = row, targets[i]
            if weighted:
                out_weights[size] = weights[i]
            size += 1
            if targets[i] != row:
                sources[size], both[size] = targets[i], row
                if weighted:
                    out_weights[size] = weights[i]
                size += 1
    return size


@kernel
def degrees(offsets, weights, out):
    """out[row] = the sum of the weights of the row, or the number of its entries without any."""
    for row in range(out.size):
        if weights.size == 0:
            out[row] = offsets[row + 1] - offsets[row]
            continue
        total = 0.0
        for i in range(offsets[row], offsets[row + 1]):
            total += weights[i]
        out[row] = total
