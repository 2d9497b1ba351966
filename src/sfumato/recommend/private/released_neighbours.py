"""Released neighbours: private counts of items and of pairs, and what follows from them.

Neighbours from noisy counts: what stands out of the noise counts, popularity fills the rest.
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

PAIR_BLOCK = 1 << 21  # pairs looked at a time
SURE = 2.0  # deviations that the count of an item stands above 0 by, to be believed
LIKELY = 4.0  # the largest variance of x that is believed
TINY = 1e-12

Rows = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Neighbours:
    """places: neighbours of each item, surest first; weights: how alike, 0 where there is none.

    popular: what an item scores for everybody.
    """

    positions: np.ndarray
    weights: np.ndarray
    popular: np.ndarray


def shrunk(
    counts: np.ndarray, deviation: float, pairs: Rows, variance: float, most: int
) -> Neighbours:
    """The neighbours of every item.

    counts, noisy, of items, and the standard deviation of their noise; pairs, the noisy counts of
    some items with all items, and the variance of their noise; most, neighbours of an item.
    """
    sure = np.where(counts > SURE * deviation, counts, 0.0)
    sizes = np.maximum(sure, max(float(sure.mean()) / 10, TINY))
    rate = _rate(sizes, pairs)
    spread = _spread(sizes, pairs, rate, variance)
    roots = np.sqrt(sizes)
    most = min(most, counts.size - 1)
    positions = np.zeros((counts.size, most), np.int32)
    weights = np.zeros((counts.size, most), np.float32)
    for rows, seen, expected in _blocks(sizes, pairs, rate):
        kept, chance = spread * expected**2, expected + variance + TINY
        guess = (seen - expected) * kept / (kept + chance)
        guess[(seen - expected < np.sqrt(chance)) | (expected == 0)] = 0.0
        guess /= roots[rows, None] * roots
        positions[rows], weights[rows] = top_n(guess, most)
    return Neighbours(positions, weights, rate * roots * float(roots.mean()))


def _blocks(
    sizes: np.ndarray, pairs: Rows, rate: float
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Some items, their noisy counts with all items, and what these would be by popularity."""
    step = max(1, PAIR_BLOCK // sizes.size)
    for start in range(0, sizes.size, step):
        rows = np.arange(start, min(start + step, sizes.size))
        expected = rate * sizes[rows, None] * sizes
        expected[np.arange(rows.size), rows] = 0.0
        yield rows, pairs(rows), expected


def _rate(sizes: np.ndarray, pairs: Rows) -> float:
    """B, by least squares of the counts of pairs on d_i d_j."""
    both = squares = 0.0
    for _, seen, product in _blocks(sizes, pairs, 1.0):
        both += float((seen * product).sum())
        squares += float((product**2).sum())
    return max(both / squares, TINY) if squares else TINY


def _spread(sizes: np.ndarray, pairs: Rows, rate: float, variance: float) -> float:
    """t, from the squares of excesses less what noise and chance add to them, told on the low side.

    A square of Laplace noise has variance 5 chance**2, and each pair is here twice. Two
    deviations are taken off: without a signal, t is then mostly 0 and popularity decides.
    """
    over = squares = doubt = 0.0
    for _, seen, expected in _blocks(sizes, pairs, rate):
        chance = expected + variance + TINY
        trust = (expected / chance) ** 2
        over += float((trust * ((seen - expected) ** 2 - chance)).sum())
        squares += float((trust * expected**2).sum())
        doubt += float(((trust * chance) ** 2).sum())
    return min(max((over - 2 * (10 * doubt) ** 0.5) / squares, 0.0), LIKELY) if squares else 0.0


KINDS = ("integers", "text")
N = integer(1, 2**20)
BLOCK = 1 << 22  # scores held at a time


class ReleasedNeighbours(Release):
    """Item counts and pair counts that may leave the curator; made by `PrivateNeighbours.fit`.

    items, of the catalogue, and kind, of their ids; weight, how many times the count of an item is
    in its cell; width, depth, seed and sketched, of the table of pairs; neighbours, of an item at
    most; noise and scale, the law of what was added to every cell.

    Notes
    -----
    **Guarantee.** As its statement says, for all cells together; what it answers is computed from
    them, from the public catalogue and from what the asker tells, and costs nothing more. Nobody's
    history is in it.
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
        """The release in a file; SketchFormatError where it is not a whole, intact one.

        Parameters
        ----------
        path : path_like
            TODO.

        Returns
        -------
        Self
            The release in a file; SketchFormatError where it is not a whole, intact one.
        """
        return cls.from_bytes(packed_file(path))

    @cached_property
    def catalogue_(self) -> Catalogue:
        """The public ids of the items, in their order."""
        return Catalogue.from_arrays(
            {name: getattr(self, name) for name in list(self._layout())[1:]}
        )

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on one cell."""
        return math.sqrt(NoiseDistribution(self.noise, self.scale).variance)

    def counts(self, items: Ids) -> np.ndarray:
        """How many users had each item, noisy, of the items that were kept of each user.

        Parameters
        ----------
        items : array_like or scalar
            TODO.

        Returns
        -------
        ndarray
            How many users had each item, noisy, of the items that were kept of each user.
        """
        return np.asarray(self._cells[self._positions(items)] / self.weight)

    def pair_counts(self, items: Ids, others: Any) -> np.ndarray:
        """How many users had both items, noisy, for each item and the one beside it.

        Parameters
        ----------
        items : array_like or scalar
            TODO.
        others : object
            TODO.

        Returns
        -------
        ndarray
            How many users had both items, noisy, for each item and the one beside it.
        """
        first, second = self._positions(items), self._positions(others)
        if first.shape != second.shape or (first == second).any():
            raise ValueError("ReleasedNeighbours: others must be another item for each item.")
        return self._pairs(first, second)

    def similar_items(self, items: Ids, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """The items most often had together with each item, beyond what popularity explains.

        For a column of items arrays of items x n: ids, and weights above 0; a place without a
        neighbour that stands out of the noise has weight -inf and id -1 or None. For one item
        columns of what there is.

        Parameters
        ----------
        items : array_like or scalar
            TODO.
        n : int, default=10
            TODO.

        Returns
        -------
        tuple
            The items most often had together with each item, beyond what popularity explains.
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
        """The n best items of each user, from the user's own items, which are not listed again.

        Parameters
        ----------
        users : array_like or scalar
            A column of ids, or one.
        n : int, default=10
            From 1 up.
        user_items : object
            Interactions that hold the users' own items (asked for each time, never kept; ratings
            play no part), a user who has none there gets the most popular.
        filter : object, default=None
            A mask over the catalogue. For a column arrays of users x n, a place without an item
            having score -inf and item -1 or None; for one user columns of what is left.

        Returns
        -------
        tuple
            The n best items of each user, from the user's own items, which are not listed again.
        """
        if not isinstance(user_items, Interactions):
            kind = type(user_items).__name__
            raise TypeError(
                f"ReleasedNeighbours: user_items must be Interactions of the users' own items, not "
                f"{kind}."
            )
        asked = ids_of(users, "users")
        rows = Catalogue(asked).positions(user_items.users) if asked.size else np.empty(0, np.int64)
        if asked.size and len(Catalogue(asked)) != asked.size:
            raise ValueError("ReleasedNeighbours: users must be different ids.")
        items = self.catalogue_.positions(user_items.items)
        known = (rows >= 0) & (items >= 0)
        found, scores = self._best(rows[known], items[known], asked.size, n, filter)
        return self._answer(found, scores, is_one(users))

    @keyword_only("n")
    def recommend_fold_in(
        self, items: Ids, *, n: int = 10, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The n best items for somebody who has these, which are not listed again.

        Parameters
        ----------
        items : array_like or scalar
            TODO.
        n : int, default=10
            TODO.
        filter : object, default=None
            TODO.

        Returns
        -------
        tuple
            The n best items for somebody who has these, which are not listed again.
        """
        positions = self.catalogue_.positions(items)
        positions = positions[positions >= 0]
        found, scores = self._best(np.zeros(positions.size, np.int64), positions, 1, n, filter)
        return self._answer(found, scores, True)

    recommend_guest = renamed_method("recommend_guest", "recommend_fold_in")

    @cached_property
    def _near(self) -> Neighbours:
        everything = np.arange(self.items)

        def pairs(rows: np.ndarray) -> np.ndarray:
            one, other = np.broadcast_arrays(rows[:, None], everything)
            return self._pairs(one.reshape(-1), other.reshape(-1)).reshape(one.shape)

        counts = self._cells[: self.items] / self.weight
        own = self.deviation / self.weight
        return shrunk(counts, own, pairs, self._pair_variance, self.neighbours)

    @property
    def _pair_variance(self) -> float:
        """The variance of the error of a pair's count: noise and, in a sketch, other pairs."""
        if not self.sketched:
            return self.deviation**2
        # The squares of a cell already hold both; what a pair itself adds is small among them.
        return float(np.mean(np.square(self._cells[self.items :], dtype=np.float64))) / self.depth

    def _pairs(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The noisy counts of pairs of places; that of an item with itself is 0."""
        low, high = np.minimum(first, second), np.maximum(first, second)
        keys = high * (high - 1) // 2 + low
        keys[low == high] = 0
        table = self._cells[self.items :].reshape(self.depth, self.width)
        if self.sketched:
            told = np.empty(keys.size)
            slots = np.empty(keys.size, np.uint32)
            counters.mean(table, hash_column(keys, self.seed), slots, told)
        else:
            told = table[0, keys].astype(np.float64)
        told[low == high] = 0.0
        return told

    def _best(
        self, rows: np.ndarray, items: np.ndarray, users: int, n: int, allowed: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Places and scores of the best for users who have what pairs of (row, place) tell."""
        from scipy.sparse import csr_array

        n, closed = N.check("ReleasedNeighbours", "n", n), self._closed(allowed)
        near = self._near
        ends = np.arange(0, near.positions.size + 1, near.positions.shape[1])
        weights = csr_array((near.weights.reshape(-1), near.positions.reshape(-1), ends))
        weights.resize((self.items, self.items))
        own = csr_array((np.ones(rows.size, np.float32), (rows, items)), (users, self.items))
        own.data[:] = 1.0  # an item had twice is had
        found, scores = np.full((users, n), -1, np.int64), np.full((users, n), -np.inf)
        step = max(1, BLOCK // self.items)
        for start in range(0, users, step):
            part = own[start : start + step]
            told = (part @ weights).toarray() + near.popular
            told[part.nonzero()] = -np.inf
            told[:, closed] = -np.inf
            found[start : start + step], scores[start : start + step] = top_n(told, n)
        return found, scores

    def _closed(self, allowed: Any) -> np.ndarray:
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
        found = np.where(scores > -np.inf, found, -1)
        if one:
            left = found[0] >= 0
            return self.catalogue_.take(found[0][left]), scores[0][left]
        return self.catalogue_.take(found), scores

    def _positions(self, items: Any) -> np.ndarray:
        positions = self.catalogue_.positions(items)
        if (positions < 0).any():
            at = int(np.flatnonzero(positions < 0)[0])
            raise ValueError(f"ReleasedNeighbours: items: position {at} is not in the catalogue.")
        return positions
