"""PrivateLinearItems: linear item-item recommendations from a noisy Gram matrix."""

from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import positive
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.private.inputs import Budget
from sfumato.recommend.private.noisy_gram import LARGEST, Head, NoisyGram, head_of, head_scores
from sfumato.recommend.private.popular import PrivatePopular, ReleasedPopular
from sfumato.recommend.private.released_lists import SimilarItems
from sfumato.recommend.private.user_sums import (
    COUNT,
    GRAM,
    ItemSets,
    head_sensitivity,
    presence,
)

__all__ = ["PrivateLinearItems", "ReleasedLinearItems"]

FIRST = Fraction(2, 5)  # of the budget: counts; the remainder: the Gram matrix, or counts again


class PrivateLinearItems(PrivatePopular):
    """Linear item-item recommender (EASE) solved on a differentially private Gram matrix.

    Two fifths of the budget count items. Their noisy counts decide what the remainder is worth most
    for: the Gram matrix of the most popular items, or, where noise would hide it, the counts again.
    So lists are seldom worse than those of `PrivatePopular`; they may be where users choose items
    independently of each other, or where a few users have most of the catalogue, as for any linear
    model of items. There is no parameter to be tuned on the data, since tuning would cost privacy
    too. The result of `fit` is `release_`, which may be published.

    Parameters
    ----------
    epsilon : float or None, default=None
        Privacy parameter epsilon, above 0. Required unless `privacy` gives it.
    delta : float or None, default=None
        Privacy parameter delta, between 0 and 1. Required unless `privacy` gives it.
    per_user : int or None, default=None
        Number of items from which on a user's items count less in the counts, from 1 to 32768; must
        be public. Each of a user's k items counts ``min(1, sqrt(per_user / k))``. None chooses 32
        per unit of epsilon, from 8 to 256.
    privacy : Privacy or None, default=None
        A `sfumato.privacy.Privacy` in place of epsilon, delta and the ledger arguments of `fit`.

    Attributes
    ----------
    release_ : ReleasedLinearItems
        The private release.

    Notes
    -----
    **Guarantee.** `release_` is (epsilon, delta)-differentially private for one user with any
    number of events, under add/remove adjacency. The counts are those of `PrivatePopular`, with its
    proof. The items of the Gram matrix are chosen from the noisy counts alone. A user with k of
    them adds ``2**17 // k`` to k diagonal cells and the integer part of ``sqrt(2) * 2**17 / k`` to
    ``k * (k - 1) / 2`` pairs, the squares of which sum up to at most ``2**34 * (k + k * (k - 1)) /
    k**2 = 2**34``. So the L2 sensitivity is 2**17, rounding included. Discrete Gaussian noise for
    these norms is added to all numbers. The fractions of the budget are fixed beforehand, so that
    the second question may depend on the first answer; what follows is computed from noisy numbers.
    The catalogue must be public; nothing else of the data is stored. Rows may be filtered
    beforehand by their own content only, such as the rating.

    Of the noisy matrix, only directions whose eigenvalues exceed those of pure noise are used; if
    there is none but popularity itself, popularity decides.

    References
    ----------
    .. [1] Steck. "Embarrassingly Shallow Autoencoders for Sparse Data". WWW 2019.
       https://arxiv.org/abs/1905.03375
    .. [2] Dwork, Talwar, Thakurta, Zhang. "Analyze Gauss: Optimal Bounds for Privacy-Preserving
       Principal Component Analysis". STOC 2014 (noise on a Gram matrix of rows of norm 1).
       https://doi.org/10.1145/2591796.2591883

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> baskets = Interactions(["ann", "ann", "bob"], ["tea", "milk", "tea"], [1, 1, 1])
    >>> model = PrivateLinearItems(epsilon=1, delta=1e-6)
    >>> model = model.fit(baskets, catalogue=["tea", "milk", "rum"])
    >>> model.statement.proof, model.recommend_fold_in(["tea"], n=2)[0].size
    ('proved', 2)
    """

    release_: "ReleasedLinearItems"

    def _steps(self, norm: int) -> list[tuple[int, Fraction]]:
        return [(norm, FIRST), (norm, 1 - FIRST), (head_sensitivity(), 1 - FIRST)]

    def _room(self, items: int) -> int:
        return 8 * (2 * items + LARGEST**2)

    def _calibrated(self, *parts: Any) -> CalibratedRelease[Any]:
        return _calibrated(*parts)

    def similar_items(self, items: Ids, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """Find the items with the largest learned weights for each item.

        Parameters
        ----------
        items : array_like or scalar
            Item ids of the catalogue, or a single id.
        n : int, default=10
            Number of items to return per item, at least 1.

        Returns
        -------
        tuple of ndarray
            Item ids and weights, best first, both of shape (n_items, n), or (m,) with m <= n for a
            single item id.
        """
        self._released()
        return self.release_.similar_items(items, n)


class ReleasedLinearItems(SimilarItems, ReleasedPopular):
    """Differentially private counts and Gram matrix; made by `PrivateLinearItems.fit`.

    It may be published, and recommends without access to the data. Weights are solved on first use.

    Attributes
    ----------
    items : int
        Number of items in the catalogue.
    kind : {"integers", "text"}
        Type of the item ids.
    per_user : int
        Number of items from which on a user's items count less in the counts.
    scale : float
        Scale of the noise on the first counts; 4096 units are one user.
    scale_again : float
        Scale of the noise on the second counts, if there are any.
    scale_gram : float
        Scale of the noise on the Gram matrix, if there is one; 2**17 units are one user.

    Notes
    -----
    **Guarantee.** That of its `statement`, for all numbers together. All results are computed from
    the noisy numbers, the public catalogue and the arguments of the call (post-processing), and
    cost no further budget. No user's history is stored.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.recommend import PrivateLinearItems
    >>> baskets = Interactions(["ann", "ann", "bob"], ["tea", "milk", "tea"], [1, 1, 1])
    >>> model = PrivateLinearItems(epsilon=1, delta=1e-6)
    >>> release = model.fit(baskets, catalogue=["tea", "milk", "rum"]).release_
    >>> release.items, release.head.size  # the pairs of two users are lost in the noise
    (3, 0)
    """

    scale_again: Annotated[float, positive]
    scale_gram: Annotated[float, positive]
    _again: np.ndarray
    _head: np.ndarray
    _gram: np.ndarray
    _of = "PrivateLinearItems"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if max(self.scale_again, self.scale_gram) > noise.LARGEST:
            raise ValueError("ReleasedLinearItems: scales must be at most 2**40.")

    def _layout(self) -> dict[str, Cells]:
        own = {name: Cells(np.int64, (-1,)) for name in ("_again", "_head", "_gram")}
        return {**super()._layout(), **own}

    def _check_state(self) -> None:
        super()._check_state()
        size, inside = self._head.size, (self._head >= 0) & (self._head < self.items)
        if not inside.all() or np.unique(self._head).size != size:
            raise ValueError("the head must be different items of the catalogue.")
        if self._gram.size != size * (size + 1) // 2:
            raise ValueError("the Gram matrix must be that of the head.")
        if self._again.size != (0 if size else self.items + 1):
            raise ValueError("there must be second counts or a Gram matrix.")

    @property
    def head(self) -> np.ndarray:
        """Items whose pairs are in the Gram matrix; empty if popularity alone decides."""
        return self.catalogue_.take(self._head)

    @property
    def _variance(self) -> float:
        first, again = self.scale**2, self.scale_again**2
        return first * again / (first + again) if self._again.size else first

    @cached_property
    def _sums(self) -> np.ndarray:
        if not self._again.size:
            return self._cells
        first, again = self.scale**2, self.scale_again**2
        return np.asarray((self._cells * again + self._again * first) / (first + again))

    @cached_property
    def _learned(self) -> Head:
        size, unit = self._head.size, GRAM * np.sqrt(2)
        if not size:
            return Head.none()
        matrix = np.zeros((size, size))
        rows, columns = np.tril_indices(size, -1)  # the order of the packed triangle
        matrix[rows, columns] = matrix[columns, rows] = self._gram[size:] / unit
        counts = np.maximum(self._popular[self._head], 1.0)
        # The sum of the diagonal is far better known than its cells: it is divided as counts are.
        total = max(float(self._gram[:size].sum()) / GRAM, 1.0)
        diagonal = counts * (total / counts.sum())
        typical = total / max(float(matrix.sum()) + total, total)  # 1 / k
        noises = self.scale_gram / unit, self.deviation
        noisy = NoisyGram(matrix, diagonal, noises[0], typical, counts, noises[1])
        return head_scores(self._head, noisy)

    def _popularity(self) -> np.ndarray:
        popularity = super()._popularity()
        popularity[self._head] = self._learned.popular / max(self.users, 1.0)
        return popularity


def _calibrated(
    sets: ItemSets, items: Catalogue, per_user: int, noises: list[int], budget: Budget
) -> CalibratedRelease[ReleasedLinearItems]:
    """Return the release with its parameters, loss, mechanism and function that adds the noise."""
    first, again, gram = noises
    size = len(items)

    def noisy(source: Source) -> dict[str, np.ndarray]:
        cells, more, pairs = sets.counts(size, per_user), np.empty(0, int), np.empty(0, int)
        noise.add_gaussian(cells, first, source=source)
        # From here on, noisy and public numbers alone decide what is measured.
        worth = cells[size] / presence(per_user) / (gram / GRAM)
        head = head_of(cells[:size] / COUNT, first / COUNT, worth)
        if head.size:
            pairs = sets.gram(head, size)
            noise.add_gaussian(pairs, gram, source=source)
        else:
            more = sets.counts(size, per_user)
            noise.add_gaussian(more, again, source=source)
        public = {name: each.copy() for name, each in items.arrays().items()}
        return {"_cells": cells, "_again": more, "_head": head, "_gram": pairs, **public}

    parameters = dict(
        items=size,
        kind=items.kind,
        per_user=per_user,
        scale=float(first),
        scale_again=float(again),
        scale_gram=float(gram),
    )
    mechanism = (
        f"discrete Gaussian noise, sigma {first:.6g}, on {COUNT} times the counts of {size} items "
        f"and of users, each of a user's k items counting min(1, sqrt({per_user} / k)); then, as "
        f"noisy counts decide, sigma {gram:.6g} on {GRAM} times the Gram matrix of items with each "
        f"user's pairs scaled to norm 1, or sigma {again:.6g} on the counts again"
    )
    return CalibratedRelease(ReleasedLinearItems, parameters, budget.loss, mechanism, noisy)
