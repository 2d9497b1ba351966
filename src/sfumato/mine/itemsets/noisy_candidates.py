"""Candidate itemsets: those all of whose subsets of one item less were found, the best first."""

import numpy as np

from sfumato.mine.itemsets.itemset_index import ItemsetIndex

__all__ = ["independent", "joined", "shrunk"]


def joined(levels: list[tuple[np.ndarray, np.ndarray]], most: int) -> np.ndarray:
    """Return itemsets of the next size, at most so many: those with the largest smallest subset.

    Parameters
    ----------
    levels : list
        For each size 1, 2, ... rising rows of codes, and counts.
    most : int
        Largest number of itemsets.

    Returns
    -------
    ndarray of shape (n, size)
        Rising rows of codes.

    Examples
    --------
    >>> items = np.array([[0], [1], [2]], np.int32), np.array([9, 5, 7])
    >>> joined([items], 1)
    array([[0, 2]], dtype=int32)
    """
    codes, counts = levels[-1]
    index = ItemsetIndex([rows for rows, _ in levels])
    left, right = _pairs(codes, counts, most)
    found = np.concatenate([codes[left], codes[right, -1:]], axis=1)
    least = np.minimum(counts[left], counts[right])
    for column in range(found.shape[1] - 2):
        at = index.find(np.delete(found, column, axis=1))
        least = np.where(at >= 0, np.minimum(least, counts[at]), np.iinfo(np.int64).min)
    valid = np.flatnonzero(least > np.iinfo(np.int64).min)
    best = valid[np.argsort(-least[valid], kind="stable")][:most]
    return found[np.sort(best)]


def _pairs(codes: np.ndarray, counts: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of rows that differ in their last item only, the smaller one first."""
    if codes.shape[1] == 1:
        # Of items the best pairs are those among the first so many.
        reach = int(np.sqrt(2 * most)) + 2
        rows = np.argsort(-counts, kind="stable")[:reach]
        rows = np.sort(rows)
        left, right = np.triu_indices(rows.size, 1)
        return rows[left], rows[right]
    order = np.lexsort(codes.T[::-1])
    same = (codes[order][1:, :-1] == codes[order][:-1, :-1]).all(axis=1)
    group = np.concatenate([[0], np.cumsum(~same)])[: order.size]
    ends = np.searchsorted(group, group, side="right")
    partners = ends - np.arange(order.size) - 1
    left = np.repeat(np.arange(order.size), partners)
    starts = np.repeat(np.cumsum(partners) - partners, partners)
    right = left + 1 + np.arange(left.size) - starts
    return order[left], order[right]


def independent(
    itemsets: np.ndarray, levels: list[tuple[np.ndarray, np.ndarray]], total: float
) -> np.ndarray:
    """Return the counts to expect if an item were independent of the others, the largest such."""
    index = ItemsetIndex([rows for rows, _ in levels])
    items, counts = levels[0][1], levels[-1][1]
    single = [items[index.find(itemsets[:, k : k + 1])] for k in range(itemsets.shape[1])]
    others = [counts[index.find(np.delete(itemsets, k, axis=1))] for k in range(itemsets.shape[1])]
    expected = [a.astype(np.float64) * b / total for a, b in zip(single, others, strict=True)]
    return np.asarray(np.max(expected, axis=0))


def shrunk(noisy: np.ndarray, expected: np.ndarray, sigma: float, reach: float) -> np.ndarray:
    """Return noisy counts, shrunk to what is expected as far as their noise explains the rest.

    Empirical Bayes with true counts that scatter around the expected ones by a common factor of
    them, which is estimated by moments; no count moves by more than `reach`, so that a rare
    itemset far from independence stays (a limited translation rule, Efron and Morris 1972).
    """
    squares = expected**2
    excess = ((noisy - expected) ** 2 - sigma**2) * squares
    factor = max(float(excess.sum()), 0.0) / max(float((squares**2).sum()), 1.0)
    weight = factor * squares / (factor * squares + sigma**2)
    moved = expected + weight * (noisy - expected)
    return np.asarray(np.clip(moved, noisy - reach, noisy + reach))
