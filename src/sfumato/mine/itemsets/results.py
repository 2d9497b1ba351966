"""Frequent itemsets as a table: items, size, count, support; closed and maximal ones."""

import copy
import gc
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core.tables import Table, described
from sfumato.kernels.mine.itemsets import basket_rows, itemset_covers
from sfumato.mine.itemsets.sources.baskets import Baskets

__all__ = ["Itemsets"]

BLOCK = 1 << 12  # itemsets at a time, so that their codes stay in the cache


class Itemsets(Table):
    """Frequent itemsets and their counts, as `frequent_itemsets` returns them.

    Parameters
    ----------
    levels : sequence
        For each size k = 1, 2, ... the codes of the itemsets, int32 of shape (n, k), rising in a
        row, and their counts, int64.
    items : ndarray
        Id of each code.
    n_baskets : int
        Number of baskets that were mined.
    min_count : int, default=1
        Number of baskets from which an itemset is frequent.
    method : str, default=""
        Algorithm that was used.
    reason : str, default=""
        Why it was used.
    exact : bool, default=True
        Whether all frequent itemsets are there with their exact counts.
    missed : float, default=0.0
        Estimated number of frequent itemsets that are not there; above 0 for a sample only. Without
        bias if what the sample found was verified, else about twice too high on real baskets.
    explain : sequence, default=()
        What each pass did; empty unless requested.

    Examples
    --------
    >>> from sfumato.mine.itemsets import frequent_itemsets
    >>> found = frequent_itemsets([["milk", "tea"], ["tea"], ["milk", "tea"]], 2)
    >>> found.to_list()
    [(('tea',), 3), (('milk',), 2), (('tea', 'milk'), 2)]
    """

    def __init__(
        self,
        levels: Sequence[tuple[np.ndarray, np.ndarray]],
        items: np.ndarray,
        n_baskets: int,
        *,
        min_count: int = 1,
        method: str = "",
        reason: str = "",
        exact: bool = True,
        missed: float = 0.0,
        explain: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.levels: list[tuple[np.ndarray, np.ndarray]] = [
            level for level in levels if level[1].size
        ]
        self.items: np.ndarray
        self.n_baskets: int
        self.min_count: int
        self.items, self.n_baskets, self.min_count = items, n_baskets, min_count
        self.method: str
        self.reason: str
        self.exact: bool
        self.missed: float
        self.method, self.reason, self.exact, self.missed = method, reason, exact, missed
        self.explain: list[dict[str, Any]] = list(explain)

    @classmethod
    def from_codes(
        cls, levels: Sequence[tuple[np.ndarray, np.ndarray]], baskets: Baskets, **about: Any
    ) -> "Itemsets":
        """Build the result of a method.

        Parameters
        ----------
        levels : sequence
            For each size the codes of the itemsets, one rising row each, and their counts.
        baskets : Baskets
            Baskets that were mined; they give the ids of the codes.
        **about : object
            Parameters of the class: `min_count`, `method`, `reason`, `exact`, `missed`, `explain`.

        Returns
        -------
        Itemsets
            The result.
        """
        return cls(levels, baskets.items, baskets.size, **about)

    def __len__(self) -> int:
        return sum(counts.size for _, counts in self.levels)

    def __repr__(self) -> str:
        sizes = [counts.size for _, counts in self.levels]
        return described(self, method=self.method, min_count=self.min_count, by_size=sizes)

    def to_list(self) -> list[tuple[tuple[Any, ...], int]]:
        """Convert the result to Python values.

        Returns
        -------
        list of tuple
            The items of each itemset and its count, small itemsets first.
        """
        rows = _tuples(self.items)
        out: list[tuple[tuple[Any, ...], int]] = []
        with _no_collection():
            for codes, counts in self.levels:
                for at in range(0, counts.size, BLOCK):
                    block = rows(codes[at : at + BLOCK])
                    out.extend(zip(block, counts[at : at + BLOCK].tolist(), strict=True))
        return out

    def closed(self) -> "Itemsets":
        """Select the itemsets without a superset of the same count; they determine all counts.

        Returns
        -------
        Itemsets
            The closed ones. Supersets that were not mined, because of `max_size`, do not count.

        Examples
        --------
        >>> from sfumato.mine.itemsets import frequent_itemsets
        >>> frequent_itemsets([["milk", "tea"], ["tea"], ["milk", "tea"]], 2).closed().to_list()
        [(('tea',), 3), (('tea', 'milk'), 2)]
        """
        return self._uncovered(equal=True)

    def maximal(self) -> "Itemsets":
        """Select the itemsets without a frequent superset; all others are their subsets.

        Returns
        -------
        Itemsets
            The maximal ones. Supersets that were not mined, because of `max_size`, do not count.

        Examples
        --------
        >>> from sfumato.mine.itemsets import frequent_itemsets
        >>> frequent_itemsets([["milk", "tea"], ["tea"], ["milk", "tea"]], 2).maximal().to_list()
        [(('tea', 'milk'), 2)]
        """
        return self._uncovered(equal=False)

    def _uncovered(self, *, equal: bool) -> "Itemsets":
        # A superset with a count has, between, one of a single item more with the same count.
        levels = []
        for (codes, counts), larger in zip_longest(self.levels, self.levels[1:]):
            covered = np.zeros(counts.size, bool)
            if larger is not None and larger[0].shape[1] == codes.shape[1] + 1:
                table = np.full(1 << (2 * counts.size).bit_length(), -1, np.int64)
                itemset_covers.cover(codes, counts, *larger, equal, table, covered)
            levels.append((codes[~covered], counts[~covered]))
        selected = copy.copy(self)
        selected.levels = [level for level in levels if level[1].size]
        return selected

    def _columns(self) -> dict[str, Any]:
        sizes = [codes.shape[1] for codes, _ in self.levels]
        lengths = [counts.size for _, counts in self.levels]
        size = np.repeat(np.array(sizes, np.int64), lengths)
        flat = [codes.ravel() for codes, _ in self.levels]
        counts = np.concatenate([np.empty(0, np.int64), *(counts for _, counts in self.levels)])
        names = pa.array(self.items, pa.large_string() if self.items.dtype == object else None)
        items = names.take(pa.array(np.concatenate([np.empty(0, np.int32), *flat])))
        offsets = pa.array(np.concatenate([[0], np.cumsum(size)]))
        return {
            "items": pa.LargeListArray.from_arrays(offsets, items),
            "size": size.astype(np.int32),
            "count": counts,
            "support": counts / max(self.n_baskets, 1),
        }


def _tuples(items: np.ndarray) -> Callable[[np.ndarray], Iterable[tuple[Any, ...]]]:
    """A function that turns rows of codes into tuples of ids."""
    if items.dtype != object and (not items.size or (items.min() >= 0 and items.max() < 256)):
        small = items.astype(np.uint8)  # Python has an object of each, so unpacking makes none

        def unpacked(codes: np.ndarray) -> Iterable[tuple[Any, ...]]:
            ids = np.empty(codes.shape, np.uint8)
            basket_rows.translate(small, codes, ids)
            return struct.iter_unpack(f"{codes.shape[1]}B", ids.data)

        return unpacked
    names = np.array(items.tolist(), object)
    return lambda codes: zip(*names[codes.T].tolist(), strict=True)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause garbage collection, which would search each of a million new tuples for cycles.

    They cannot be in one, so they join the oldest objects at once, by freezing and thawing all,
    unless the program has frozen objects of its own.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        if enabled:
            gc.enable()
