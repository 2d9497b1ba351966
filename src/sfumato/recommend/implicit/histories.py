"""Histories of users as rows of a sparse matrix over the catalogue, from any interactions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import scipy

from sfumato.core.storage import Cells
from sfumato.data.interactions import Interactions
from sfumato.recommend.catalogue import Catalogue, SortedCatalogue
from sfumato.recommend.ranking import taken

__all__ = ["WEIGHTINGS", "Histories", "History"]

WEIGHTINGS = ("equal", "log")


class History(NamedTuple):
    """Some histories: that of query q is positions[starts[q] : starts[q + 1]], with weights."""

    starts: np.ndarray
    positions: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class Histories:
    """Items of each user as positions in a catalogue, ascending and each once, with weights."""

    users: SortedCatalogue
    starts: np.ndarray
    positions: np.ndarray
    weights: np.ndarray
    items: int

    @classmethod
    def of(
        cls, train: Interactions, catalogue: Catalogue, weighting: str, relevant_from: float | None
    ) -> Self:
        """Build histories from interactions; rows outside the catalogue or below the limit drop."""
        coded = train.coded()
        at = catalogue.positions(coded.item_ids)[coded.item_codes]
        used = at >= 0
        if relevant_from is not None:
            used &= train.ratings >= relevant_from
        weights = np.ones(int(used.sum()), np.float32)
        if weighting == "log":
            weights = _mean_one(np.log1p(np.maximum(train.ratings[used], 0)))
        shape = coded.user_ids.size, len(catalogue)
        rows = scipy.sparse.csr_matrix((weights, (coded.user_codes[used], at[used])), shape)
        rows.sum_duplicates()  # sorts positions as well
        if weighting == "equal":
            rows.data[:] = 1
        return cls(
            SortedCatalogue(coded.user_ids),
            rows.indptr.astype(np.int64),
            rows.indices.astype(np.int32),
            rows.data.astype(np.float32),
            len(catalogue),
        )

    @property
    def matrix(self) -> scipy.sparse.csr_matrix:
        """The histories as a sparse matrix of shape (n_users, n_items)."""
        shape = len(self.users), self.items
        return scipy.sparse.csr_matrix((self.weights, self.positions, self.starts), shape)

    @cached_property
    def counts(self) -> np.ndarray:
        """Number of users of each item."""
        return np.bincount(self.positions, minlength=self.items)

    @cached_property
    def active(self) -> int:
        """Number of users with at least one item."""
        return int(np.count_nonzero(np.diff(self.starts)))

    def rows(self, users: np.ndarray) -> np.ndarray:
        """Row of each user, -1 for an unknown one."""
        return self.users.positions(users)

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a file."""
        ids = {f"user_{name}": array for name, array in self.users.arrays().items()}
        return {**ids, "starts": self.starts, "positions": self.positions, "weights": self.weights}

    @staticmethod
    def layout(kind: str) -> dict[str, Cells]:
        """The arrays that a file must contain, for user ids of this kind."""
        ids = {f"user_{name}": cells for name, cells in Catalogue.layout(kind).items()}
        sparse = {"starts": np.int64, "positions": np.int32, "weights": np.float32}
        return {**ids, **{name: Cells(dtype, (-1,)) for name, dtype in sparse.items()}}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], items: int) -> Self:
        """Read the arrays of a file; ValueError where they contradict each other."""
        ids = {n.removeprefix("user_"): a for n, a in arrays.items() if n.startswith("user_")}
        users = SortedCatalogue.from_arrays(ids)
        starts, at, weights = arrays["starts"], arrays["positions"], arrays["weights"]
        sound = (
            starts.size == len(users) + 1
            and starts[0] == 0
            and starts[-1] == at.size == weights.size
            and (np.diff(starts) >= 0).all()
            and (at >= 0).all()
            and (at < items).all()
            and np.isfinite(weights).all()
        )
        if not sound:
            raise ValueError("histories must be rows of positions within the catalogue.")
        return cls(users, starts, at, weights, items)

    def take(self, rows: np.ndarray) -> History:
        """The histories of some rows; that of row -1 is empty."""
        return History(*taken(rows, self.starts, self.positions, self.weights))

    def fold_in(self, at: np.ndarray) -> History:
        """A single history of these positions, -1 left out, with weights of 1."""
        found = np.unique(at[at >= 0]).astype(np.int32)
        return History(np.array([0, found.size]), found, np.ones(found.size, np.float32))


def _mean_one(weights: np.ndarray) -> np.ndarray:
    """Scale weights to a mean of 1, so that penalties and shrinkage mean the same as for counts."""
    mean = weights.mean() if weights.size else 0
    return np.asarray(weights / mean if mean > 0 else np.ones_like(weights), np.float32)
