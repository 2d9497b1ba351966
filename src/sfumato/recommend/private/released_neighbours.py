"""ReleasedNeighbours: private counts of items and pairs, and recommendations from them.

Pair counts are shrunk towards what popularity explains; only pairs that exceed the noise become
neighbours.
"""

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.arrays import top_n
from sfumato.core.deprecation import keyword_only, renamed_arguments, renamed_method
from sfumato.core.file_format import packed_file
from sfumato.core.hashing import hash_column
from sfumato.core.ids import ids_of, is_one
from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import flag, integer, one_of, positive
from sfumato.data.interactions import Interactions
from sfumato.kernels.sketch import counters
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.noise.distribution import LAWS, NoiseDistribution
from sfumato.recommend.catalogue import Catalogue
from sfumato.sketch import Release
from sfumato.sketch.base import SEED

__all__ = ["Neighbours", "ReleasedNeighbours", "shrunk"]

PAIR_BLOCK = 1 << 21  # pairs read at a time
SURE = 2.0  # standard deviations above 0 from which the count of an item is used
LIKELY = 4.0  # largest excess variance
TINY = 1e-12

Rows = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Neighbours:
    """positions: neighbours of each item, strongest first; weights: similarity, 0 for none.

    popular: score of an item for everybody.
    """

    positions: np.ndarray
    weights: np.ndarray
    popular: np.ndarray


def shrunk(
    counts: np.ndarray, deviation: float, pairs: Rows, variance: float, most: int
) -> Neighbours:
    """Return the neighbours of every item.

    counts: noisy item counts, with noise of standard deviation `deviation`. pairs: function from
    items to their noisy counts with all items, with noise of this `variance`. most: neighbours per
    item.
    """
    sure = np.where(counts > SURE * deviation, counts, 0.0)
    sizes = np.maximum(sure, max(float(sure.mean()) / 10, TINY))
    rate = _rate(sizes, pairs)
    excess_variance = _excess_variance(sizes, pairs, rate, variance)
    roots = np.sqrt(sizes)
    most = min(most, counts.size - 1)
    positions = np.zeros((counts.size, most), np.int32)
    weights = np.zeros((counts.size, most), np.float32)
    for rows, observed, expected in _blocks(sizes, pairs, rate):
        signal, noise_variance = excess_variance * expected**2, expected + variance + TINY
        guess = (observed - expected) * signal / (signal + noise_variance)
        guess[(observed - expected < np.sqrt(noise_variance)) | (expected == 0)] = 0.0
        guess /= roots[rows, None] * roots
        positions[rows], weights[rows] = top_n(guess, most)
    return Neighbours(positions, weights, rate * roots * float(roots.mean()))


def _blocks(
    sizes: np.ndarray, pairs: Rows, rate: float
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield some items, their noisy counts with all items, and those expected by popularity."""
    step = max(1, PAIR_BLOCK // sizes.size)
    for start in range(0, sizes.size, step):
        rows = np.arange(start, min(start + step, sizes.size))
        expected = rate * sizes[rows, None] * sizes
        expected[np.arange(rows.size), rows] = 0.0
        yield rows, pairs(rows), expected


def _rate(sizes: np.ndarray, pairs: Rows) -> float:
    """Return the least-squares rate b of pair counts on products of item counts."""
    both = squares = 0.0
    for _, observed, product in _blocks(sizes, pairs, 1.0):
        both += float((observed * product).sum())
        squares += float((product**2).sum())
    return max(both / squares, TINY) if squares else TINY


def _excess_variance(sizes: np.ndarray, pairs: Rows, rate: float, variance: float) -> float:
    """Return a low estimate of the relative variance of pair counts beyond noise and sampling.

    A square of Laplace noise has variance 5 noise_variance**2, and each pair occurs twice. Two
    standard deviations are subtracted: without a signal, the estimate is mostly 0 and popularity
    decides.
    """
    over = squares = doubt = 0.0
    for _, observed, expected in _blocks(sizes, pairs, rate):
        noise_variance = expected + variance + TINY
        trust = (expected / noise_variance) ** 2
        over += float((trust * ((observed - expected) ** 2 - noise_variance)).sum())
        squares += float((trust * expected**2).sum())
        doubt += float(((trust * noise_variance) ** 2).sum())
    return min(max((over - 2 * (10 * doubt) ** 0.5) / squares, 0.0), LIKELY) if squares else 0.0


KINDS = ("integers", "text")
N = integer(1, 2**20)
BLOCK = 1 << 22  # scores in memory at a time


class ReleasedNeighbours(Release):
    """Differentially private counts of items and pairs; made by `PrivateNeighbours.fit`.

    It may be published, and recommends without access to the data.

    Attributes
    ----------
    items : int
        Number of items in the catalogue.
    kind : {"integers", "text"}
        Type of the item ids.
    weight : int
        Factor by which item counts were multiplied before noise was added.
    width : int
        Cells per row of the table of pairs.
    depth : int
        Rows of the table of pairs.
    seed : int
        Seed of the sample of a user's items and of the sketch.
    sketched : bool
        Whether the table of pairs is a count sketch.
    neighbours : int
        Largest number of neighbours per item.
    noise : str
        Distribution of the noise on every cell.
    scale : float
        Scale of that distribution.

    Notes
    -----
    **Guarantee.** That of its `statement`, for all cells together. All results are computed from
    the cells, the public catalogue and the arguments of the call (post-processing), and cost no
    further budget. No user's history is stored.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.recommend import PrivateNeighbours
    >>> baskets = Interactions(["ann", "ann", "bob"], ["tea", "milk", "tea"], [1, 1, 1])
    >>> model = PrivateNeighbours(epsilon=1, per_user=2)
    >>> release = model.fit(baskets, catalogue=["tea", "milk", "rum"]).release_
    >>> release.items, release.counts(["tea", "rum"]).shape
    (3, (2,))
    """

    items: Annotated[int, integer(2, 2**24)]
    kind: Annotated[str, one_of(KINDS)]
    weight: Annotated[int, integer(1, 2**31)]
    width: Annotated[int, integer(1, 2**31)]
    depth: Annotated[int, integer(1, 32)]
    seed: Annotated[int, SEED]
    sketched: Annotated[bool, flag]
    neighbours: Annotated[int, integer(1, 2**20)]
    noise: Annotated[str, one_of(LAWS)]
    scale: Annotated[float, positive]
    _cells: np.ndarray
    catalogue: np.ndarray
    catalogue_ends: np.ndarray
    version = 2  # a key has one hash, whatever its type
    _of = "PrivateNeighbours"

    def _check_parameters(self) -> None:
        if self.scale > noise.LARGEST:
            raise ValueError("ReleasedNeighbours: scale must be at most 2**40.")
        pairs = self.items * (self.items - 1) // 2
        if not self.sketched and (self.width, self.depth) != (pairs, 1):
            raise ValueError("ReleasedNeighbours: width must be that of all pairs, and depth 1.")

    def _layout(self) -> dict[str, Cells]:
        cells = Cells(np.int64, (self.items + self.depth * self.width,))
        return {"_cells": cells, **Catalogue.layout(self.kind)}

    def _check_state(self) -> None:
        if len(self.catalogue_) != self.items:
            raise ValueError("the catalogue has not as many items as are counted.")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a release from a file.

        Parameters
        ----------
        path : path_like
            File written by `save`. Nothing in it is unpickled.

        Returns
        -------
        Self
            The release.

        Raises
        ------
        SketchFormatError
            If the file is truncated, damaged, or no such release.
        """
        return cls.from_bytes(packed_file(path))

    @cached_property
    def catalogue_(self) -> Catalogue:
        """Items that may be recommended, in their public order."""
        return Catalogue.from_arrays(
            {name: getattr(self, name) for name in list(self._layout())[1:]}
        )

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on one cell."""
        return math.sqrt(NoiseDistribution(self.noise, self.scale).variance)

    def counts(self, items: Ids) -> np.ndarray:
        """Estimate how many users have each item.

        Parameters
        ----------
        items : array_like or scalar
            Item ids of the catalogue.

        Returns
        -------
        ndarray of shape (n,)
            Noisy counts, which may be negative. Only the sampled items of each user are counted.
        """
        return np.asarray(self._cells[self._positions(items)] / self.weight)

    def pair_counts(self, items: Ids, others: Any) -> np.ndarray:
        """Estimate how many users have both items of each pair.

        Parameters
        ----------
        items : array_like or scalar
            Item ids of the catalogue.
        others : array_like or scalar
            The other item of each pair, as many as `items` and different from them.

        Returns
        -------
        ndarray of shape (n,)
            Noisy counts, which may be negative. Only the sampled items of each user are counted.
        """
        first, second = self._positions(items), self._positions(others)
        if first.shape != second.shape or (first == second).any():
            raise ValueError("ReleasedNeighbours: others must be another item for each item.")
        return self._pairs(first, second)

    def similar_items(self, items: Ids, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """Find the items that most often occur together with each item.

        Similarity is the number of common users beyond what popularity explains, shrunk by the
        noise.

        Parameters
        ----------
        items : array_like or scalar
            Item ids of the catalogue, or a single id.
        n : int, default=10
            Number of items to return per item, at least 1.

        Returns
        -------
        tuple of ndarray
            Item ids and weights above 0, best first, both of shape (n_items, n). Where fewer than n
            items exceed the noise, the weight is -inf and the item -1 (integer ids) or None (text
            ids). For a single id, both are of shape (m,) with m <= n.
        """
        near, positions = self._near, self._positions(items)
        n = N.check("ReleasedNeighbours", "n", n)
        found = np.full((positions.size, n), -1, np.int64)
        weights = np.full((positions.size, n), -np.inf)
        most = min(n, near.positions.shape[1])
        strong = near.weights[positions, :most].astype(np.float64)
        found[:, :most] = np.where(strong > 0, near.positions[positions, :most], -1)
        weights[:, :most] = np.where(strong > 0, strong, -np.inf)
        return self._answer(found, weights, is_one(items))

    @renamed_arguments(exclude="user_items")
    def recommend(
        self, users: Ids, n: int = 10, *, user_items: Any, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recommend n items to each user, from the user's own items.

        Parameters
        ----------
        users : array_like or scalar
            Distinct user ids, or a single id.
        n : int, default=10
            Number of items per user, at least 1.
        user_items : Interactions
            The users' own items, which are not recommended again. They are not stored, and ratings
            are ignored. A user without items here gets the most popular ones.
        filter : array_like of bool or None, default=None
            Mask over `catalogue_`; only items with True are recommended.

        Returns
        -------
        tuple of ndarray
            Item ids and scores, best first, both of shape (n_users, n). Where fewer than n items
            remain, the score is -inf and the item -1 (integer ids) or None (text ids). For a single
            user id, both are of shape (m,) with m <= n.
        """
        if not isinstance(user_items, Interactions):
            kind = type(user_items).__name__
            raise TypeError(
                f"ReleasedNeighbours: user_items must be Interactions of the users' own items, not "
                f"{kind}."
            )
        ids = ids_of(users, "users")
        rows = Catalogue(ids).positions(user_items.users) if ids.size else np.empty(0, np.int64)
        if ids.size and len(Catalogue(ids)) != ids.size:
            raise ValueError("ReleasedNeighbours: users must be different ids.")
        items = self.catalogue_.positions(user_items.items)
        known = (rows >= 0) & (items >= 0)
        found, scores = self._best(rows[known], items[known], ids.size, n, filter)
        return self._answer(found, scores, is_one(users))

    @keyword_only("n")
    def recommend_fold_in(
        self, items: Ids, *, n: int = 10, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recommend n items to a new user, given the user's items.

        Parameters
        ----------
        items : array_like or scalar
            Ids of the user's items; they are not recommended again. Items outside of the catalogue
            are ignored.
        n : int, default=10
            Number of items to recommend, at least 1.
        filter : array_like of bool or None, default=None
            Mask over `catalogue_`; only items with True are recommended.

        Returns
        -------
        tuple of ndarray
            Item ids and scores of shape (m,), m <= n, best first.
        """
        positions = self.catalogue_.positions(items)
        positions = positions[positions >= 0]
        found, scores = self._best(np.zeros(positions.size, np.int64), positions, 1, n, filter)
        return self._answer(found, scores, True)

    recommend_guest = renamed_method("recommend_guest", "recommend_fold_in")

    @cached_property
    def _near(self) -> Neighbours:
        """The neighbours of every item, computed on first use."""
        everything = np.arange(self.items)

        def pairs(rows: np.ndarray) -> np.ndarray:
            one, other = np.broadcast_arrays(rows[:, None], everything)
            return self._pairs(one.reshape(-1), other.reshape(-1)).reshape(one.shape)

        counts = self._cells[: self.items] / self.weight
        own = self.deviation / self.weight
        return shrunk(counts, own, pairs, self._pair_variance, self.neighbours)

    @property
    def _pair_variance(self) -> float:
        """Variance of the error of a pair count: noise and, in a sketch, collisions."""
        if not self.sketched:
            return self.deviation**2
        # The mean square of a cell includes both; a single pair adds little to it.
        return float(np.mean(np.square(self._cells[self.items :], dtype=np.float64))) / self.depth

    def _pairs(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the noisy counts of pairs of positions, 0 for an item with itself."""
        low, high = np.minimum(first, second), np.maximum(first, second)
        keys = high * (high - 1) // 2 + low
        keys[low == high] = 0
        table = self._cells[self.items :].reshape(self.depth, self.width)
        if self.sketched:
            estimates = np.empty(keys.size)
            slots = np.empty(keys.size, np.uint32)
            counters.mean(table, hash_column(keys, self.seed), slots, estimates)
        else:
            estimates = table[0, keys].astype(np.float64)
        estimates[low == high] = 0.0
        return estimates

    def _best(
        self, rows: np.ndarray, items: np.ndarray, users: int, n: int, allowed: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return positions and scores of the n best items, given each row's own items."""
        from scipy.sparse import csr_array

        n, closed = N.check("ReleasedNeighbours", "n", n), self._closed(allowed)
        near = self._near
        ends = np.arange(0, near.positions.size + 1, near.positions.shape[1])
        weights = csr_array((near.weights.reshape(-1), near.positions.reshape(-1), ends))
        weights.resize((self.items, self.items))
        own = csr_array((np.ones(rows.size, np.float32), (rows, items)), (users, self.items))
        own.data[:] = 1.0  # duplicates count once
        found, scores = np.full((users, n), -1, np.int64), np.full((users, n), -np.inf)
        step = max(1, BLOCK // self.items)
        for start in range(0, users, step):
            part = own[start : start + step]
            totals = (part @ weights).toarray() + near.popular
            totals[part.nonzero()] = -np.inf
            totals[:, closed] = -np.inf
            found[start : start + step], scores[start : start + step] = top_n(totals, n)
        return found, scores

    def _closed(self, allowed: Any) -> np.ndarray:
        """Return the mask of filtered items; raise ValueError if the filter is no mask."""
        if allowed is None:
            return np.zeros(self.items, np.bool_)
        mask = np.asarray(allowed)
        if mask.dtype != np.bool_ or mask.shape != (self.items,):
            raise ValueError(
                f"ReleasedNeighbours: filter must be a mask of {self.items} booleans, one for "
                "each item of the catalogue."
            )
        return np.asarray(~mask)

    def _answer(
        self, found: np.ndarray, scores: np.ndarray, one: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return ids and scores; for a single query only the items found."""
        found = np.where(scores > -np.inf, found, -1)
        if one:
            there = found[0] >= 0
            return self.catalogue_.take(found[0][there]), scores[0][there]
        return self.catalogue_.take(found), scores

    def _positions(self, items: Any) -> np.ndarray:
        """Return catalogue positions; raise ValueError for an item outside of it."""
        positions = self.catalogue_.positions(items)
        if (positions < 0).any():
            at = int(np.flatnonzero(positions < 0)[0])
            raise ValueError(f"ReleasedNeighbours: items: position {at} is not in the catalogue.")
        return positions
