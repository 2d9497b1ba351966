"""Released profiles: what everyone may ask of them, computed from noisy cells alone."""

from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np

from sfumato.core.deprecation import renamed_arguments
from sfumato.core.ids import NO_ID, id_layout, ids_from, ids_of, positions
from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import integer, one_of
from sfumato.privacy.release import Release
from sfumato.profile.item_sets import hashed_items
from sfumato.sketch.base import SEED

__all__ = ["METRICS", "ReleasedProfiles"]

METRICS = one_of(("cosine", "jaccard", "inner"))
KINDS = ("integers", "text")
N = integer(1, 2**31)
PAIRS = 1 << 22  # variances held at a time


class ReleasedProfiles(Release, in_files=False):
    """Profiles with noise, one a user, that may leave the curator; the base of their kinds.

    A subclass adds its parameters, its cells in `_layout` (after those of the users) and answers
    `_similarity`, `_variance`, `_size_variance`, `_nearest`, `_loss`, `estimate_size`,
    `size_bounds` and `memberships`; `_of_sizes` lists the measures that a full filter cannot tell.
    """

    kind: Annotated[str, one_of(KINDS)]
    seed: Annotated[int, SEED]
    users: np.ndarray
    users_ends: np.ndarray
    _of_sizes: ClassVar[tuple[str, ...]] = ()

    def __len__(self) -> int:
        return int(self.users_.size)

    @cached_property
    def users_(self) -> np.ndarray:
        """The public ids of the users, in their order: int64 or texts."""
        ids = ids_from("users", {name: getattr(self, name) for name in self._id_layout()})
        ids.flags.writeable = False
        return ids

    def rows(self, users: Ids) -> np.ndarray:
        """The row of each user; ValueError naming the position of one who is not there.

        Parameters
        ----------
        users : array_like or scalar
            TODO.

        Returns
        -------
        ndarray
            The row of each user; ValueError naming the position of one who is not there.
        """
        found = positions(ids_of(users, "users"), self.users_)
        if (found < 0).any():
            at = int((found < 0).argmax())
            raise ValueError(
                f"{type(self).__name__}: users must be in the release; the one at position {at} "
                "is not."
            )
        return found

    def estimate_size(self) -> np.ndarray:
        """How many items each profile has, estimated.

        Returns
        -------
        ndarray
            How many items each profile has, estimated.
        """
        raise NotImplementedError

    def size_bounds(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of items between which each true one lies, with about this probability.

        Parameters
        ----------
        confidence : float, default=0.95
            TODO.

        Returns
        -------
        tuple
            TODO.
        """
        raise NotImplementedError

    def memberships(self, items: Ids, rows: Any = None) -> np.ndarray:
        """For each row and item an estimate of 1 if it is in the profile and of 0 if not.

        Parameters
        ----------
        items : array_like or scalar
            TODO.
        rows : object, default=None
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        raise NotImplementedError

    def profile_epsilon(self, items: int) -> float:
        """The loss for a whole profile of so many items, at the delta of the statement.

        Parameters
        ----------
        items : int
            TODO.

        Returns
        -------
        float
            The loss for a whole profile of so many items, at the delta of the statement.

        Notes
        -----
        **Guarantee.** An upper bound, whichever the items are, for all of them removed, that is for
        the profile against an empty one; under relation "replace" for all of them exchanged, that
        is against any other of no more items. Where the unit is a user, items beyond the
        contributions do not count.
        """
        items, told = N.check(type(self).__name__, "items", items), self.statement
        if told.unit == "user":
            items = min(items, told.contributions)
        return self._loss(items * (2 if told.relation == "replace" else 1))

    @renamed_arguments(measure="metric")
    def similarity(
        self, other: Any = None, *, metric: str = "cosine", rows: Any = None
    ) -> np.ndarray:
        """How alike the profiles of these rows and all of the other release are: rows x others.

        Parameters
        ----------
        other : object, default=None
            A release of the same parameters at any epsilon, None for this one.
        metric : str, default="cosine"
            "inner" (items in common), "cosine" or "jaccard".
        rows : object, default=None
            Numbers of rows of this release, None for all. Estimates are told as they are: noise may
            put them below 0 or above 1, by about the root of their `similarity_variance`. A profile
            has its whole size in common with itself, and similarity 1: its noise is no other's.

        Returns
        -------
        ndarray
            How alike the profiles of these rows and all of the other release are: rows x others.
        """
        metric, there = METRICS.check(type(self).__name__, "metric", metric), self._other(other)
        asked = self._asked_rows(rows)
        found = self._similarity(asked, there, metric)
        if there is self:
            known = np.where(np.isnan(self.estimate_size()), np.nan, 1.0)
            self._put_own(found, asked, self.estimate_size() if metric == "inner" else known)
        return found

    @renamed_arguments(measure="metric")
    def similarity_variance(
        self, other: Any = None, *, metric: str = "cosine", rows: Any = None
    ) -> np.ndarray:
        """The variance of each similarity, by the delta method at the estimates.

        Infinite where the similarity is made of sizes (in a BLIP each is, of minima all but
        Jaccard) and `size_bounds` has no upper end for one of both: a full filter tells no more.

        Parameters
        ----------
        other : object, default=None
            TODO.
        metric : str, default="cosine"
            TODO.
        rows : object, default=None
            TODO.

        Returns
        -------
        ndarray
            The variance of each similarity, by the delta method at the estimates.
        """
        metric, there = METRICS.check(type(self).__name__, "metric", metric), self._other(other)
        asked = self._asked_rows(rows)
        found = self._variance(asked, there, metric)
        if metric in self._of_sizes:
            found[self._boundless[asked]] = np.inf
            found[:, there._boundless] = np.inf
        if there is self:
            self._put_own(found, asked, self._own_variance(metric))
        return found

    @renamed_arguments(measure="metric")
    def nearest(
        self, users: Ids, n: int = 10, *, metric: str = "cosine", among: Ids | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The ids of the n most similar users of each of these, and their similarities.

        Parameters
        ----------
        users : array_like or scalar
            Ids in this release, who are not told as their own neighbours; n.
        n : int, default=10
            TODO.
        metric : str, default="cosine"
            As of `similarity`.
        among : array_like, scalar or None, default=None
            The release to look in, None for this one. Where there are fewer than n others, places
            are filled with id -1 or None and similarity -inf. How sure the similarities are is told
            by `nearest_with_errors`.

        Returns
        -------
        tuple
            The ids of the n most similar users of each of these, and their similarities.
        """
        there = self._other(among)
        found, near = self._neighbours(self.rows(users), n, metric, there)
        return there._ids_at(found), near

    @renamed_arguments(measure="metric")
    def nearest_with_errors(
        self, users: Ids, n: int = 10, *, metric: str = "cosine", among: Ids | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As `nearest`, with the standard error of each similarity.

        Parameters
        ----------
        users, n, metric, among
            As of `nearest`.

        Returns
        -------
        ids, similarities : numpy.ndarray
            As of `nearest`.
        std_errors : numpy.ndarray
            The root of each `similarity_variance`: infinite where a full filter tells no more, NaN
            where there is no neighbour. It is that of the estimate of one pair; that the pair was
            chosen among many as the most alike puts the estimate above the truth besides.
        """
        there, rows = self._other(among), self.rows(users)
        found, near = self._neighbours(rows, n, metric, there)
        errors = np.full(near.shape, np.nan)
        at_once = max(1, PAIRS // max(len(there), 1))
        for start in range(0, rows.size if len(there) else 0, at_once):
            part = slice(start, start + at_once)
            spread = self.similarity_variance(among, metric=metric, rows=rows[part])
            told = np.sqrt(np.take_along_axis(spread, np.maximum(found[part], 0), 1))
            errors[part] = np.where(found[part] >= 0, told, np.nan)
        return there._ids_at(found), near, errors

    @renamed_arguments(measure="metric")
    def nearest_rows(
        self, rows: Any, n: int = 10, *, metric: str = "cosine"
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `nearest`, from numbers of rows to numbers of rows, -1 where there are no more.

        Parameters
        ----------
        rows : object
            TODO.
        n : int, default=10
            TODO.
        metric : str, default="cosine"
            TODO.

        Returns
        -------
        tuple
            TODO.
        """
        return self._neighbours(self._asked_rows(rows), n, metric, self)

    def _ids_at(self, rows: np.ndarray) -> np.ndarray:
        """The users of these rows, the id of nobody where it is -1."""
        if not len(self):
            kind = np.int64 if self.kind == KINDS[0] else object
            return np.full(rows.shape, NO_ID[self.kind], kind)
        ids = np.asarray(self.users_[rows])
        ids[rows < 0] = NO_ID[self.kind]
        return ids

    def _neighbours(
        self, rows: np.ndarray, n: int, metric: str, there: "ReleasedProfiles"
    ) -> tuple[np.ndarray, np.ndarray]:
        n = N.check(type(self).__name__, "n", n)
        METRICS.check(type(self).__name__, "metric", metric)
        own = rows if there is self else positions(self.users_[rows], there.users_)
        found = np.full((rows.size, n), -1, np.int64)
        near = np.full((rows.size, n), -np.inf)
        self._nearest(rows, own, there, metric, found, near)
        return found, near

    def _nearest(
        self,
        rows: np.ndarray,
        own: np.ndarray,
        there: Any,
        metric: str,
        found: np.ndarray,
        near: np.ndarray,
    ) -> None:
        """Fill in the best of each row, without its own place; ties go to the first row."""
        raise NotImplementedError

    def _similarity(self, rows: np.ndarray, other: Any, metric: str) -> np.ndarray:
        raise NotImplementedError

    def _variance(self, rows: np.ndarray, other: Any, metric: str) -> np.ndarray:
        raise NotImplementedError

    def _loss(self, items: int) -> float:
        """The loss for so many items, added to one profile or removed from it."""
        raise NotImplementedError

    def _size_variance(self) -> np.ndarray:
        """The variance of each estimated size."""
        raise NotImplementedError

    @cached_property
    def _boundless(self) -> np.ndarray:
        """Which profiles, of those that tell a size, may have any number of items above it."""
        return np.asarray(np.isinf(self.size_bounds()[1]) & ~np.isnan(self.estimate_size()))

    def _own_variance(self, metric: str) -> np.ndarray:
        """That of a row beside itself: of its size, or none, as its similarity is 1."""
        own = self._size_variance()
        if metric != "inner":
            return own * 0.0
        return np.where(self._boundless, np.inf, own) if metric in self._of_sizes else own

    def _put_own(self, found: np.ndarray, rows: np.ndarray, own: np.ndarray) -> None:
        """Write what a row is to itself."""
        found[np.arange(rows.size), rows] = own[rows]

    def _other(self, other: Any) -> Any:
        if other is None:
            return self
        self._check_same(other, "compare")
        return other

    def _to_agree(self, other: Any) -> Any:
        return [name for name in self._limits if name != "kind"]

    def _asked_rows(self, rows: Any) -> np.ndarray:
        """Numbers of rows of this release, from 0 on."""
        if rows is None:
            return np.arange(len(self))
        column = np.atleast_1d(np.asarray(rows))
        if column.ndim != 1 or (column.size and column.dtype.kind not in "iu"):
            raise TypeError(f"{type(self).__name__}: rows must be a column of integers.")
        column = column.astype(np.int64)
        if column.size and not 0 <= column.min() <= column.max() < len(self):
            at = int(((column < 0) | (column >= len(self))).argmax())
            raise ValueError(
                f"{type(self).__name__}: rows must be from 0 to {len(self) - 1}; the one at "
                f"position {at} is not."
            )
        return column

    def _hashed(self, items: Any) -> np.ndarray:
        """The hashes of items, as those of the profiles."""
        return hashed_items(ids_of(items, "items"), self.seed)

    def _id_layout(self) -> dict[str, Cells]:
        return id_layout("users", self.kind)

    def _check_rows(self, cells: np.ndarray) -> None:
        """Raise ValueError where a file has not as many rows of cells as users."""
        if len(cells) != len(self):
            raise ValueError("there are not as many profiles as users.")
