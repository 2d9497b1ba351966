"""Pairs of items that one user has: counted in a packed triangle, or listed as keys."""

from ._jit import kernel

__all__ = ["add_pairs", "list_pairs"]


@kernel
def add_pairs(items, starts, counts):
    """counts[j (j - 1) / 2 + i] += 1 for every pair i < j of items[starts[u] : starts[u + 1]]."""
    for u in range(starts.size - 1):
        for a in range(starts[u], starts[u + 1]):
            for b in range(starts[u], a):
                low = min(items[a], items[b])
                high = max(items[a], items[b])
                counts[high * (high - 1) // 2 + low] += 1


@kernel
def list_pairs(items, starts, out):
    """out = j (j - 1) / 2 + i for every pair i < j, user after user."""
    at = 0
    for u in range(starts.size - 1):
        for a in range(starts[u], starts[u + 1]):
            for b in range(starts[u], a):
                low = min(items[a], items[b])
                high = max(items[a], items[b])
                out[at] = high * (high - 1) // 2 + low
                at += 1
