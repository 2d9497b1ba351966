"""Baskets as compressed rows: items counted once per basket, re-numbered, sorted."""

from sfumato.kernels.jit import inline, kernel

__all__ = ["arrange", "prefixes", "tally", "translate"]

SHORT = 48  # items up to which insertion beats NumPy's sort


@kernel
def tally(offsets, codes, last, counts):
    """counts[c] += 1 for each basket that has c; returns how many items are repeats.

    last: -1 everywhere.
    """
    repeats = 0
    for b in range(offsets.size - 1):
        for k in range(offsets[b], offsets[b + 1]):
            code = codes[k]
            if last[code] == b:
                repeats += 1
            else:
                last[code] = b
                counts[code] += 1
    return repeats


@inline
def _sort(row):
    if row.size > SHORT:
        row.sort()
        return
    for k in range(1, row.size):
        value, at = row[k], k
        while at > 0 and row[at - 1] > value:
            row[at] = row[at - 1]
            at -= 1
        row[at] = value


@kernel
def arrange(offsets, codes, ranks, limit, out_offsets, out):
    """Write the ranks below `limit` of each basket's codes, sorted, without repeats.

    Returns how many items were written.
    """
    end = 0
    out_offsets[0] = 0
    for b in range(offsets.size - 1):
        start = end
        for k in range(offsets[b], offsets[b + 1]):
            rank = ranks[codes[k]]
            if rank < limit:
                out[end] = rank
                end += 1
        _sort(out[start:end])
        unique = start
        for k in range(start, end):
            if k == start or out[k] != out[unique - 1]:
                out[unique] = out[k]
                unique += 1
        end = unique
        out_offsets[b + 1] = end
    return end


@kernel
def prefixes(offsets, items, limit, out_offsets, out):
    """Write the items below `limit` of each sorted basket; returns how many were written."""
    end = 0
    out_offsets[0] = 0
    for b in range(offsets.size - 1):
        for k in range(offsets[b], offsets[b + 1]):
            if items[k] >= limit:
                break
            out[end] = items[k]
            end += 1
        out_offsets[b + 1] = end
    return end


@kernel
def translate(ids, codes, out):
    """out[r, k] = ids[codes[r, k]]."""
    for r in range(codes.shape[0]):
        for k in range(codes.shape[1]):
            out[r, k] = ids[codes[r, k]]
