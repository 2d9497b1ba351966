"""Models of a weight for every pair of a history item and another item, dense or sparse."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy

from sfumato.core.ids import is_one
from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import between, optional
from sfumato.kernels.recommend import item_pairs
from sfumato.recommend.implicit.base import COUNT, TIE, HistoryModel
from sfumato.recommend.implicit.histories import History
from sfumato.recommend.ranking import best, fitting, listing

__all__ = ["PRIOR", "ItemWeightModel", "SparseWeights"]


PRIOR = optional(between(0, 1e9))


class ItemWeightModel(HistoryModel, in_files=False):
    """Base of models that learn a weight for every pair of a history item and another item.

    `SHORT` is the number of items of a user below which popularity counts more than they do.
    """

    SHORT: ClassVar[float]
    prior: float | None

    @property
    def _prior(self) -> float:
        given = self.prior
        if given is None:
            rows = max(self.histories_.positions.size, 1)
            given = (self.SHORT * self.histories_.active / rows) ** 2
        return max(float(given), TIE)

    def similar_items(self, items: Ids, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """List the items with the largest learned weights for each item.

        Parameters
        ----------
        items : array_like or scalar
            Item ids; an item outside the catalogue has no similar ones.
        n : int, default=10
            Number of items, at least 1.

        Returns
        -------
        items : ndarray of shape (n_items, n)
            Item ids, largest weight first; -1 or None as padding. Of shape (k,) for a single id.
        weights : ndarray of shape (n_items, n)
            Their weights; -inf as padding.
        """
        self._check_fitted()
        owner = type(self).__name__
        n = min(COUNT.check(owner, "n", n), len(self.catalogue_))
        what = fitting(owner, "items", items, self.catalogue_.kind)
        at = self.catalogue_.positions(what)
        table = self._item_weights(np.maximum(at, 0))
        table[at < 0] = -np.inf
        return listing(self.catalogue_, *best(table, n), is_one(items))

    def _item_weights(self, at: np.ndarray) -> np.ndarray:
        """Weights of all items for these, float64; -inf for pairs without one."""
        raise NotImplementedError


@dataclass(frozen=True)
class SparseWeights:
    """Weights of pairs: columns[ends[i] : ends[i + 1]] are the items that history item i supports.

    >>> weights = SparseWeights.of([0, 0, 2], [1, 2, 1], [0.5, 0.2, 0.1], 3)
    >>> weights.row(0), weights.column(1)
    (array([0. , 0.5, 0.2], dtype=float32), array([0.5, 0. , 0.1], dtype=float32))
    """

    ends: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, sources: Any, targets: Any, values: Any, items: int) -> Self:
        """Weights of pairs (source, target) of positions, each pair once."""
        made = scipy.sparse.csr_matrix(
            (np.asarray(values, np.float32), (sources, targets)), (items, items)
        )
        return cls(made.indptr.astype(np.int64), made.indices.astype(np.int32), made.data)

    def score(self, history: History, out: np.ndarray) -> None:
        """Add the weighted sum of the rows of each history to `out`."""
        item_pairs.score(*history, self.ends, self.columns, self.values, out)

    def row(self, position: int) -> np.ndarray:
        """Weights of all items for this history item, float32; 0 where there is none."""
        return _spread(self.ends, self.columns, self.values, position)

    def column(self, position: int) -> np.ndarray:
        """Weights of all history items for this item, float32; 0 where there is none."""
        return _spread(*self._transposed, position)

    @cached_property
    def _transposed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        size = self.ends.size - 1
        made = scipy.sparse.csr_matrix((self.values, self.columns, self.ends), (size, size)).tocsc()
        return made.indptr, made.indices, made.data

    @staticmethod
    def layout() -> dict[str, Cells]:
        """The arrays of a file."""
        types = {"ends": np.int64, "columns": np.int32, "values": np.float32}
        return {f"_{name}": Cells(dtype, (-1,)) for name, dtype in types.items()}

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a file, named as in `layout`."""
        return {"_ends": self.ends, "_columns": self.columns, "_values": self.values}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], items: int) -> Self:
        """Read the arrays of a file; ValueError where they do not fit the catalogue."""
        ends, columns, values = (arrays[name] for name in cls.layout())
        sound = (
            ends.size == items + 1
            and ends[0] == 0
            and (np.diff(ends) >= 0).all()
            and ends[-1] == columns.size == values.size
            and (columns >= 0).all()
            and (columns < items).all()
            and np.isfinite(values).all()
        )
        if not sound:
            raise ValueError("learned weights must be rows of positions within the catalogue.")
        return cls(ends, columns, values)


def _spread(starts: np.ndarray, items: np.ndarray, values: np.ndarray, position: int) -> np.ndarray:
    """One row of a sparse matrix as a dense one."""
    row = np.zeros(starts.size - 1, np.float32)
    mine = slice(starts[position], starts[position + 1])
    row[items[mine]] = values[mine]
    return row
