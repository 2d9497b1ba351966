"""Base of releases that recommend items from noisy sums, public lists and a user's own items."""

import os
from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
from scipy.sparse import csr_array

from sfumato.core.arrays import top_n
from sfumato.core.deprecation import keyword_only, renamed_arguments, renamed_method
from sfumato.core.file_format import packed_file
from sfumato.core.ids import ids_of, is_one
from sfumato.core.typing import Ids
from sfumato.core.validation import integer, one_of
from sfumato.data.interactions import Interactions
from sfumato.privacy.release import Release
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.private.noisy_gram import Head

__all__ = ["ReleasedLists", "SimilarItems"]

KINDS = ("integers", "text")
N = integer(1, 2**20)
TIE = 1e-6  # weight of popularity beside learned weights
BLOCK = 1 << 22  # scores in memory at a time


class ReleasedLists(Release, in_files=False):
    """Base of releases that recommend without access to the data.

    A subclass gives the noisy popularity of all items in `_popularity`, declares the arrays of the
    catalogue in its layout, and overrides `_learned` if it has weights between items.
    """

    items: Annotated[int, integer(2, 2**24)]
    kind: Annotated[str, one_of(KINDS)]
    catalogue: np.ndarray
    catalogue_ends: np.ndarray

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
        return Catalogue.from_arrays({name: getattr(self, name) for name in self._public()})

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
        owner = type(self).__name__
        if not isinstance(user_items, Interactions):
            kind = type(user_items).__name__
            raise TypeError(
                f"{owner}: user_items must be Interactions of the users' own items, not {kind}."
            )
        ids = ids_of(users, "users")
        rows = Catalogue(ids).positions(user_items.users) if ids.size else np.empty(0, np.int64)
        if ids.size and len(Catalogue(ids)) != ids.size:
            raise ValueError(f"{owner}: users must be different ids.")
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

    recommend_guest: Callable[..., Any] = renamed_method("recommend_guest", "recommend_fold_in")

    def _popularity(self) -> np.ndarray:
        """Return the noisy popularity of all items, a new array."""
        raise NotImplementedError

    @cached_property
    def _learned(self) -> Head:
        """Weights between the items of the head; popularity alone decides if all are 0."""
        return Head.none()

    def _scores(self, own: Any) -> np.ndarray:
        """Return scores of all items for a sparse matrix of users' own items, 1 each."""
        scores, head = np.tile(self._popularity(), (own.shape[0], 1)), self._learned
        if head.weights.any():
            scores *= TIE
            scores[:, head.positions] += own[:, head.positions] @ head.weights
        return scores

    def _public(self) -> list[str]:
        """Names of the arrays of the catalogue."""
        return list(Catalogue.layout(self.kind))

    def _best(
        self, rows: np.ndarray, items: np.ndarray, users: int, n: int, allowed: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return positions and scores of the n best items, given each row's own items."""
        n, closed = N.check(type(self).__name__, "n", n), self._closed(allowed)
        own = csr_array((np.ones(rows.size, np.float32), (rows, items)), (users, self.items))
        own.data[:] = 1.0  # duplicates count once
        found, scores = np.full((users, n), -1, np.int64), np.full((users, n), -np.inf)
        step = max(1, BLOCK // self.items)
        for start in range(0, users, step):
            part = own[start : start + step]
            totals = self._scores(part)
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
                f"{type(self).__name__}: filter must be a mask of {self.items} booleans, one for "
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
            at, owner = int(np.flatnonzero(positions < 0)[0]), type(self).__name__
            raise ValueError(f"{owner}: items: position {at} is not in the catalogue.")
        return positions


class SimilarItems(ReleasedLists, in_files=False):
    """Base of releases that have weights between items."""

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
            Item ids and weights above 0, best first, both of shape (n_items, n). Where fewer than n
            items have one, the weight is -inf and the item -1 (integer ids) or None (text ids). For
            a single id, both are of shape (m,) with m <= n.
        """
        at, head = self._positions(items), self._learned
        n = N.check(type(self).__name__, "n", n)
        to = np.full(self.items, -1, np.int64)
        to[head.positions] = np.arange(head.positions.size)
        rows = np.flatnonzero(to[at] >= 0)
        table = np.full((at.size, max(head.positions.size, 1)), -np.inf)
        table[rows] = head.weights[to[at[rows]]] if rows.size else -np.inf
        found, weights = top_n(np.where(table > 0, table, -np.inf), n)
        found = head.positions[found] if head.positions.size else found
        return self._answer(found, weights, is_one(items))
