"""Rows of itemsets by their items: a trie of hash tables, one for each size."""

from collections.abc import Sequence

import numpy as np

from sfumato.kernels import hash_tables

__all__ = ["ItemsetIndex"]


class ItemsetIndex:
    """Position of an itemset among those of its size, for itemsets with all their prefixes.

    Parameters
    ----------
    levels : sequence of ndarray
        For each size k = 1, 2, ... the codes of the itemsets, one rising row each.

    Notes
    -----
    An itemset is known by the position of all but its last item, and that item: one 64-bit key.

    Examples
    --------
    >>> index = ItemsetIndex([np.array([[0], [2]]), np.array([[0, 2]])])
    >>> index.find(np.array([[0, 2], [0, 3]]))
    array([ 0, -1])
    """

    def __init__(self, levels: Sequence[np.ndarray]) -> None:
        self._tables: list[tuple[np.ndarray, np.ndarray]] = []
        for codes in levels:
            keys = self._keys(codes)
            slots = 1 << (2 * keys.size + 1).bit_length()
            table = np.full(slots, -1, np.int64), np.empty(slots, np.int64)
            whole = np.flatnonzero(keys >= 0)
            hash_tables.put(keys[whole], whole, *table)
            self._tables.append(table)

    def find(self, codes: np.ndarray) -> np.ndarray:
        """Return the position of each row of rising codes among those of its size, -1 if absent.

        Parameters
        ----------
        codes : ndarray of shape (n, k)
            Itemsets of one size.

        Returns
        -------
        ndarray of shape (n,)
            Positions.
        """
        if codes.shape[1] > len(self._tables):
            return np.full(codes.shape[0], -1, np.int64)
        return self._at(codes.shape[1] - 1, self._keys(codes))

    def _keys(self, codes: np.ndarray) -> np.ndarray:
        """Return the keys of itemsets of one size; negative where the prefix is absent."""
        keys = codes[:, 0].astype(np.int64)
        for level in range(codes.shape[1] - 1):
            keys = self._at(level, keys)
            keys = np.where(keys < 0, -1, keys << 32 | codes[:, level + 1])
        return keys

    def _at(self, level: int, keys: np.ndarray) -> np.ndarray:
        found = np.full(keys.size, -1, np.int64)
        whole = np.flatnonzero(keys >= 0)  # a negative one stands for an empty slot
        out = np.empty(whole.size, np.int64)
        hash_tables.find(*self._tables[level], keys[whole], out)
        found[whole] = out
        return found
