"""Candidates by noisy counts: the best of those whose subsets were found, and better counts."""

import numpy as np

from sfumato.mine.itemsets.itemset_index import ItemsetIndex
from sfumato.mine.itemsets.methods.candidates import join

__all__ = ["independent", "joined", "shrunk"]


def joined(levels: list[tuple[np.ndarray, np.ndarray]], most: int) -> np.ndarray:
    """Return itemsets of the next size, at most so many: those with the largest smallest subset.

    Parameters
    ----------
    levels : list
        For each size 1, 2, ... rising rows of codes in lexicographic order, and counts.
    most : int
        Largest number of itemsets.

    Returns
    -------
    ndarray of shape (n, size)
        Rising rows of codes in lexicographic order.

    Examples
    --------
    >>> items = np.array([[0], [1], [2]], np.int32), np.array([9, 5, 7])
    >>> joined([items], 1)
    array([[0, 2]], dtype=int32)
    """
    codes, counts = levels[-1]
    if codes.shape[1] == 1:
        # Of items the best pairs are those among the first so many; all would be too many.
        best = np.argsort(-counts, kind="stable")[: int(np.sqrt(2 * most)) + 2]
        codes = codes[np.sort(best)]
    found = join(codes)
    index = ItemsetIndex([rows for rows, _ in levels])
    least = np.full(found.shape[0], np.iinfo(np.int64).max)
    for column in range(found.shape[1]):
        least = np.minimum(least, counts[index.find(np.delete(found, column, axis=1))])
    best = np.argsort(-least, kind="stable")[:most]
    return np.asarray(found[np.sort(best)])


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
