"""ReleasedNeighbours: private counts of items and pairs, and recommendations from them."""

import math
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from sfumato.core.hashing import SEED, hash_column
from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import flag, integer, one_of, positive
from sfumato.kernels.sketch import counters
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.noise.distribution import LAWS, NoiseDistribution
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.private.noisy_gram import SURE, Head, NoisyGram, head_of, head_scores
from sfumato.recommend.private.released_lists import SimilarItems

__all__ = ["ReleasedNeighbours"]

TINY = 1e-9


class ReleasedNeighbours(SimilarItems):
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

    weight: Annotated[int, integer(1, 2**31)]
    width: Annotated[int, integer(1, 2**31)]
    depth: Annotated[int, integer(1, 32)]
    seed: Annotated[int, SEED]
    sketched: Annotated[bool, flag]
    neighbours: Annotated[int, integer(1, 2**20)]
    noise: Annotated[str, one_of(LAWS)]
    scale: Annotated[float, positive]
    _cells: np.ndarray
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

    def _popularity(self) -> np.ndarray:
        popularity = self._cells[: self.items] / self.weight
        popularity[self._learned.positions] = self._learned.popular
        return np.asarray(popularity)

    @cached_property
    def _learned(self) -> Head:
        counts = self._cells[: self.items] / self.weight
        # At an enormous epsilon the noise is 0, which no number may be divided by.
        own = max(self.deviation, TINY) / self.weight
        pair = max(math.sqrt(self._pair_variance), TINY)
        # A user of k items adds 1 to k cells of the diagonal, and k in norm: the users in units of
        # the noise are the sum of all counts in units of the noise on pairs.
        worth = float(counts[counts > SURE * own].sum()) / (math.sqrt(2) * pair)
        at = head_of(counts, own, worth)
        if not at.size:
            return Head.none()
        first, second = (each.reshape(-1) for each in np.broadcast_arrays(at[:, None], at))
        matrix = self._pairs(first, second).reshape(at.size, at.size)
        popular = np.maximum(counts[at], 1.0)
        learned = head_scores(at, NoisyGram(matrix, popular, pair, 1.0, popular, own))
        return Head(at, learned.popular, _strongest(learned.weights, self.neighbours))

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


def _strongest(weights: np.ndarray, most: int) -> np.ndarray:
    """Return weights of which so many of each row, the largest in size, are not 0."""
    if most >= weights.shape[1]:
        return weights
    least = np.partition(np.abs(weights), -most, axis=1)[:, -most]
    return np.where(np.abs(weights) >= least[:, None], weights, 0.0)
