"""ReleasedItemsets: the private itemsets of `PrivateItemsets`, and what follows from them."""

from typing import Annotated, Any

import numpy as np

from sfumato.core.file_format import Packed
from sfumato.core.ids import id_layout, ids_from
from sfumato.core.storage import Cells
from sfumato.core.validation import integer, one_of
from sfumato.mine.itemsets.itemset_index import ItemsetIndex
from sfumato.mine.itemsets.private.noisy_counts import GRID
from sfumato.mine.itemsets.results import Itemsets
from sfumato.mine.itemsets.rules import Rules, association_rules
from sfumato.privacy.release import Release

__all__ = ["MAX_ITEMS", "MAX_SIZE", "ReleasedItemsets"]

MAX_ITEMS = integer(1, 1024)
MAX_SIZE = integer(1, 8)


class ReleasedItemsets(Release):
    """Differentially private itemsets with noisy counts; made by `PrivateItemsets.fit`.

    Attributes
    ----------
    max_items : int
        Number of items to which each basket was cut.
    max_size : int
        Number of items of the largest itemsets.
    kind : {"integers", "text"}
        Type of the item ids.
    statement : PrivacyStatement
        The guarantee.

    Notes
    -----
    **Guarantee.** That of its `statement`, for all numbers together. All results are computed from
    the noisy numbers (post-processing), and cost no further budget. No basket is stored, nor any
    count without noise. Counts are of baskets cut to `max_items` items.

    Examples
    --------
    >>> from sfumato.mine.itemsets import PrivateItemsets
    >>> baskets = [["tea", "milk"], ["tea", "milk", "rum"], ["tea"]] * 200
    >>> model = PrivateItemsets(4, max_items=3, vocabulary=["tea", "milk", "rum", "gin"])
    >>> release = model.fit(baskets).release_
    >>> 560 < release.baskets < 640, len(release.itemsets()) >= 3
    (True, True)
    """

    max_items: Annotated[int, MAX_ITEMS]
    max_size: Annotated[int, MAX_SIZE]
    kind: Annotated[str, one_of(("integers", "text"))]
    _codes: np.ndarray
    _counts: np.ndarray
    _baskets: np.ndarray
    _deviations: np.ndarray
    _of = "PrivateItemsets"

    def _layout(self) -> dict[str, Cells]:
        return {
            "_codes": Cells(np.int32, (-1, self.max_size), ""),
            "_counts": Cells(np.int64, (-1,), ""),
            "_baskets": Cells(np.int64, (1,), ""),
            "_deviations": Cells(np.float64, (self.max_size,), ""),
            **id_layout("_items", self.kind),
        }

    def _restore(self, packed: Packed) -> None:
        super()._restore(packed)
        self._levels()

    @property
    def items(self) -> np.ndarray:
        """Ids of the items that occur, by decreasing noisy count."""
        return ids_from("_items", {name: getattr(self, name) for name in self._id_names()})

    def _id_names(self) -> list[str]:
        return list(id_layout("_items", self.kind))

    @property
    def baskets(self) -> float:
        """Noisy number of baskets."""
        return float(self._baskets[0] / GRID)

    @property
    def deviations(self) -> np.ndarray:
        """Standard deviation of the noise on counts of size 1, 2, ...; 0 for one not counted."""
        return self._deviations

    def itemsets(self) -> Itemsets:
        """Return the itemsets, with counts that fit each other.

        Returns
        -------
        Itemsets
            Noisy counts as integers from 1 up, none larger than that of a subset; `n_baskets` is
            the noisy number of baskets, and at least the largest count. `exact` is False.
        """
        levels = self._levels()
        index = ItemsetIndex([codes for codes, _ in levels])
        counts: list[np.ndarray] = []
        for codes, noisy in levels:
            # Rounded: noise of a fraction of a basket says nothing.
            count = np.maximum(np.rint(noisy / GRID).astype(np.int64), 1)
            for column in range(codes.shape[1] if counts else 0):
                at = index.find(np.delete(codes, column, axis=1))
                count = np.minimum(count, counts[-1][at])
            counts.append(count)
        most = max((int(each.max(initial=1)) for each in counts), default=1)
        return Itemsets(
            [(codes, count) for (codes, _), count in zip(levels, counts, strict=True)],
            self.items,
            max(round(self.baskets), most),
            method="private",
            reason="counts with noise, of baskets cut to max_items",
            exact=False,
        )

    def rules(self, metric: str = "confidence", **options: Any) -> Rules:
        """Return the association rules of the itemsets.

        Parameters
        ----------
        metric : str, default="confidence"
            As in `association_rules`.
        **options : object
            Further arguments of `association_rules`: `min`, `top`, `consequents`.

        Returns
        -------
        Rules
            Rules with noisy numbers.
        """
        return association_rules(self.itemsets(), metric, **options)

    def _levels(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return codes and noisy counts by size; ValueError where they do not fit each other."""
        codes, counts = self._codes, self._counts
        sizes = (codes >= 0).sum(axis=1)
        place = np.arange(self.max_size)
        filled = (codes >= 0) == (place < sizes[:, np.newaxis])
        rising = (np.diff(codes, axis=1) > 0) | (place[1:] >= sizes[:, np.newaxis])
        fits = codes.shape[0] == counts.size and filled.all() and rising.all()
        if not fits or codes.max(initial=-1) >= self.items.size or sizes.min(initial=1) < 1:
            raise ValueError("the itemsets are damaged.")
        levels = [
            (np.ascontiguousarray(codes[sizes == k, :k]), counts[sizes == k])
            for k in range(1, int(sizes.max(initial=0)) + 1)
        ]
        index = ItemsetIndex([rows for rows, _ in levels])
        for rows, _ in levels[1:]:
            for column in range(rows.shape[1]):
                if index.find(np.delete(rows, column, axis=1)).min(initial=0) < 0:
                    raise ValueError("a subset of an itemset is missing.")
        return levels
