"""Released profiles: sizes, similarities, neighbours and memberships from noisy cells alone."""

import math
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np

from sfumato.core.arrays import top_n
from sfumato.core.deprecation import renamed_arguments
from sfumato.core.ids import NO_ID, IdIndex, id_layout, ids_from, ids_of
from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import integer, one_of
from sfumato.privacy.release import Release
from sfumato.profile.item_sets import hashed_items
from sfumato.profile.population import CELLS, Posterior
from sfumato.sketch.base import SEED

__all__ = ["METRICS", "ReleasedProfiles"]

METRICS = one_of(("cosine", "jaccard", "inner"))
RANKINGS = one_of(("population", "pairs"))
KINDS = ("integers", "text")
N = integer(1, 2**31)
FEWEST = 100  # users that tell of a population; with 15 users, both rules were about as good
LEFT = 0.05  # of a squared length, at least, that is not along the common profile
PAIRS = 1 << 22  # variances in memory at a time


class ReleasedProfiles(Release, in_files=False):
    """Base of released profiles: one noisy profile per user, which may be published.

    Not made by hand: `Blip`, `Jlt`, `Minima` and `Signs` release its subclasses.

    Attributes
    ----------
    users_ : ndarray
        Public ids of the users, in the order of the rows.

    Notes
    -----
    **Guarantee.** Everything is computed from noisy cells and public parameters, so no query costs
    further privacy; `statement` states what the release guarantees.

    Neighbours are ranked by one of two rules. "population" ranks by expected similarities, given
    the noisy rows and the public noise: what the noise of two rows hides, all rows together tell.
    The coordinate of a row along the mean of all rows, and its size, have a joint prior; they say
    how similar a row is to everybody, so that with noise alone all users get nearly one list, of
    the most typical users. What rows have beside it is taken as normal, along a few common
    directions (singular vectors, shrunk optimally [1]_) and in each entry, with variances that grow
    with the size of a row. All of it is estimated from at most 2,000 rows of the release (the mean
    by nonparametric empirical Bayes [2]_), which costs no privacy. "pairs" looks at no other rows
    than the two; in a release of many users it is faster. In both cases the similarities returned
    are the debiased ones of `similarity`.

    A subclass adds its parameters and its cells in `_layout` (after those of the users), and
    implements `_similarity`, `_variance`, `_size_variance`, `_rank_by_pairs`, `_aligned`,
    `_entries`, `_noisy_vectors`, `_vector_noise`, `_noisy_sizes`, `_loss`, `estimate_size`,
    `size_bounds` and `memberships`, and `_shape` where its vectors have another one; `_of_sizes`
    lists the metrics that a full filter cannot estimate.

    References
    ----------
    .. [1] Gavish, Donoho. "Optimal Shrinkage of Singular Values". IEEE Transactions on Information
       Theory 2017. https://arxiv.org/abs/1405.7511
    .. [2] Jiang, Zhang. "General Maximum Likelihood Empirical Bayes Estimation of Normal Means".
       Annals of Statistics 2009. https://arxiv.org/abs/0908.1709

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.profile import Blip, ReleasedProfiles
    >>> interactions = Interactions(["ann", "bob"], ["tea", "milk"], [1, 1])
    >>> released = Blip(epsilon=8).release(interactions, users=["ann", "bob"])
    >>> isinstance(released, ReleasedProfiles), len(released)
    (True, 2)
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
        """Public ids of the users, in the order of the rows: int64 or text."""
        ids = ids_from("users", {name: getattr(self, name) for name in self._id_layout()})
        ids.flags.writeable = False
        return ids

    @cached_property
    def _index(self) -> IdIndex:
        """Rows by user id, looked up in every search."""
        return IdIndex(self.users_)

    def rows(self, users: Ids) -> np.ndarray:
        """Look up the row of each user.

        Parameters
        ----------
        users : array_like or scalar
            User ids; ValueError names the position of one that is not in the release.

        Returns
        -------
        ndarray of shape (n_users,)
            Row numbers from 0, in the order of `users`.
        """
        found = self._index.positions(ids_of(users, "users"))
        if (found < 0).any():
            at = int((found < 0).argmax())
            raise ValueError(
                f"{type(self).__name__}: users must be in the release; the one at position {at} "
                "is not."
            )
        return found

    def estimate_size(self) -> np.ndarray:
        """Estimate the number of items of each profile.

        Returns
        -------
        ndarray of shape (n_profiles,)
            Estimates in the order of `users_`. Except for BLIP, whose estimates are clipped at 0,
            noise may make them negative.
        """
        raise NotImplementedError

    def size_bounds(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Compute a confidence interval of the number of items of each profile.

        Parameters
        ----------
        confidence : float, default=0.95
            Approximate probability, between 0 and 1, that the interval contains the true number.

        Returns
        -------
        lower : ndarray of shape (n_profiles,)
            Lower bounds, at least 0.
        upper : ndarray of shape (n_profiles,)
            Upper bounds; infinite where the release does not bound the number.
        """
        raise NotImplementedError

    def memberships(self, items: Ids, rows: Any = None) -> np.ndarray:
        """Estimate whether each item is in each profile: 1 if it is, 0 if not.

        Parameters
        ----------
        items : array_like or scalar
            Item ids, integers or text.
        rows : array_like of int or None, default=None
            Row numbers of this release, None for all.

        Returns
        -------
        ndarray of shape (n_rows, n_items)
            Unclipped estimates, which noise may put below 0 or above 1; the Notes of the class say
            how far they are unbiased. NaN where there is no estimate.
        """
        raise NotImplementedError

    def profile_epsilon(self, items: int) -> float:
        """Bound the privacy loss of an entire profile, at the delta of the statement.

        Parameters
        ----------
        items : int
            Number of items of the profile, at least 1.

        Returns
        -------
        float
            Epsilon for the removal of all these items.

        Notes
        -----
        **Guarantee.** An upper bound, whichever the items are, for the profile against an empty
        one; under the relation "replace", against any other profile of no more items. Where the
        unit is a user, items beyond the contributions do not count.
        """
        items, statement = N.check(type(self).__name__, "items", items), self.statement
        if statement.unit == "user":
            items = min(items, statement.contributions)
        return self._loss(items * (2 if statement.relation == "replace" else 1))

    @renamed_arguments(measure="metric")
    def similarity(
        self, other: Any = None, *, metric: str = "cosine", rows: Any = None
    ) -> np.ndarray:
        """Estimate the similarity of profiles, of these rows to all rows of a release.

        Parameters
        ----------
        other : ReleasedProfiles or None, default=None
            A release with the same parameters, at any epsilon; None for this one.
        metric : {"cosine", "jaccard", "inner"}, default="cosine"
            The similarity; "inner" is the number of common items.
        rows : array_like of int or None, default=None
            Row numbers of this release, None for all.

        Returns
        -------
        ndarray of shape (n_rows, n_others)
            Unclipped estimates: noise may put them below 0 or above 1, by about the square root of
            their `similarity_variance`. A profile compared with itself has similarity 1, and its
            estimated size in common.
        """
        metric, there = METRICS.check(type(self).__name__, "metric", metric), self._other(other)
        checked = self._checked_rows(rows)
        found = self._similarity(checked, there, metric)
        if there is self:
            known = np.where(np.isnan(self.estimate_size()), np.nan, 1.0)
            self._put_own(found, checked, self.estimate_size() if metric == "inner" else known)
        return found

    @renamed_arguments(measure="metric")
    def similarity_variance(
        self, other: Any = None, *, metric: str = "cosine", rows: Any = None
    ) -> np.ndarray:
        """Estimate the variance of each similarity, by the delta method.

        Parameters
        ----------
        other : ReleasedProfiles or None, default=None
            A release with the same parameters, at any epsilon; None for this one.
        metric : {"cosine", "jaccard", "inner"}, default="cosine"
            As of `similarity`.
        rows : array_like of int or None, default=None
            Row numbers of this release, None for all.

        Returns
        -------
        ndarray of shape (n_rows, n_others)
            Variances at the estimates. Infinite where the similarity depends on sizes (every metric
            of BLIP; cosine and inner of minima) and `size_bounds` has no finite upper bound for one
            of the two profiles.
        """
        metric, there = METRICS.check(type(self).__name__, "metric", metric), self._other(other)
        checked = self._checked_rows(rows)
        found = self._variance(checked, there, metric)
        if metric in self._of_sizes:
            found[self._boundless[checked]] = np.inf
            found[:, there._boundless] = np.inf
        if there is self:
            self._put_own(found, checked, self._own_variance(metric))
        return found

    @renamed_arguments(measure="metric")
    def nearest(
        self,
        users: Ids,
        n: int = 10,
        *,
        metric: str = "cosine",
        among: Any = None,
        ranking: str | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find the n most similar users of each user.

        Parameters
        ----------
        users : array_like or scalar
            User ids of this release. A user is not among its own neighbours.
        n : int, default=10
            Number of neighbours, at least 1.
        metric : {"cosine", "jaccard", "inner"}, default="cosine"
            As of `similarity`.
        among : ReleasedProfiles or None, default=None
            The release to search, with the same parameters; None for this one.
        ranking : {"population", "pairs"} or None, default=None
            What neighbours are ranked by, as the Notes of `ReleasedProfiles` explain. None for
            "population" in releases of at least 100 users and at most 2**25 numbers (users times
            entries of a profile), except filters of several hashes with little noise; "pairs" in
            others.

        Returns
        -------
        ids : ndarray of shape (n_users, n)
            Neighbours, best first. Where there are fewer than n, the id is -1 or None.
        similarities : ndarray of shape (n_users, n)
            Their estimated similarities, debiased, which need not decrease from first to last;
            -inf where there is no neighbour.

        See Also
        --------
        nearest_with_errors : Returns standard errors too.
        """
        there = self._other(among)
        found, near = self._neighbours(self.rows(users), n, metric, there, ranking)
        return there._ids_at(found), near

    @renamed_arguments(measure="metric")
    def nearest_with_errors(
        self,
        users: Ids,
        n: int = 10,
        *,
        metric: str = "cosine",
        among: Any = None,
        ranking: str | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find the n most similar users of each user, with standard errors.

        Parameters
        ----------
        users : array_like or scalar
            User ids of this release. A user is not among its own neighbours.
        n : int, default=10
            Number of neighbours, at least 1.
        metric : {"cosine", "jaccard", "inner"}, default="cosine"
            As of `similarity`.
        among : ReleasedProfiles or None, default=None
            The release to search, with the same parameters; None for this one.
        ranking : {"population", "pairs"} or None, default=None
            What neighbours are ranked by, as the Notes of `ReleasedProfiles` explain. None for
            "population" in releases of at least 100 users and at most 2**25 numbers (users times
            entries of a profile), except filters of several hashes with little noise; "pairs" in
            others.

        Returns
        -------
        ids : ndarray of shape (n_users, n)
            Neighbours, best first, as of `nearest`.
        similarities : ndarray of shape (n_users, n)
            Their estimated similarities, as of `nearest`.
        std_errors : ndarray of shape (n_users, n)
            Square roots of the `similarity_variance`: infinite where a filter is full, NaN where
            there is no neighbour.

        Notes
        -----
        The standard error is that of a given pair. The pairs returned were selected for their high
        estimates, which therefore exceed the true similarities on average.
        """
        there, rows = self._other(among), self.rows(users)
        found, near = self._neighbours(rows, n, metric, there, ranking)
        errors = np.full(near.shape, np.nan)
        at_once = max(1, PAIRS // max(len(there), 1))
        for start in range(0, rows.size if len(there) else 0, at_once):
            part = slice(start, start + at_once)
            variances = self.similarity_variance(among, metric=metric, rows=rows[part])
            std_errors = np.sqrt(np.take_along_axis(variances, np.maximum(found[part], 0), 1))
            errors[part] = np.where(found[part] >= 0, std_errors, np.nan)
        return there._ids_at(found), near, errors

    @renamed_arguments(measure="metric")
    def nearest_rows(
        self,
        rows: Any,
        n: int = 10,
        *,
        metric: str = "cosine",
        ranking: str | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find the n most similar rows of this release for each row.

        Parameters
        ----------
        rows : array_like of int
            Row numbers of this release.
        n : int, default=10
            Number of neighbours, at least 1.
        metric : {"cosine", "jaccard", "inner"}, default="cosine"
            As of `similarity`.
        ranking : {"population", "pairs"} or None, default=None
            As of `nearest`.

        Returns
        -------
        rows : ndarray of shape (n_rows, n)
            Row numbers of the neighbours, best first; -1 where there are fewer than n.
        similarities : ndarray of shape (n_rows, n)
            Their estimated similarities; -inf where there is no neighbour.
        """
        return self._neighbours(self._checked_rows(rows), n, metric, self, ranking)

    def _ids_at(self, rows: np.ndarray) -> np.ndarray:
        """Ids of the users of these rows, the missing id where a row is -1."""
        if not len(self):
            kind = np.int64 if self.kind == KINDS[0] else object
            return np.full(rows.shape, NO_ID[self.kind], kind)
        ids = np.asarray(self.users_[rows])
        ids[rows < 0] = NO_ID[self.kind]
        return ids

    def _neighbours(
        self,
        rows: np.ndarray,
        n: int,
        metric: str,
        there: "ReleasedProfiles",
        ranking: str | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        n = N.check(type(self).__name__, "n", n)
        METRICS.check(type(self).__name__, "metric", metric)
        own = rows if there is self else there._index.positions(self.users_[rows])
        found = np.full((rows.size, n), -1, np.int64)
        if self._by_population(there, ranking):
            self._rank_by_population(rows, own, there, metric, found)
        else:
            self._rank_by_pairs(rows, own, there, metric, found)
        near = np.full(found.shape, -np.inf)
        queries, some = np.nonzero(found >= 0)
        near[queries, some] = self._aligned(rows[queries], found[queries, some], there, metric)
        return found, near

    def _by_population(self, there: "ReleasedProfiles", ranking: str | None) -> bool:
        """Whether to rank by the population: by default, where enough rows tell of it."""
        if ranking is not None:
            ranking = RANKINGS.check(type(self).__name__, "ranking", ranking)
        fewest, most = sorted((len(self), len(there)))
        suits = self._suits_population and fewest >= FEWEST and most * self._entries <= CELLS
        if ranking is None and not suits:
            return False
        noises = self._vector_noise, there._vector_noise
        return ranking != "pairs" and fewest > 1 and bool(np.isfinite(noises).all())

    @cached_property
    def _posterior(self) -> Posterior:
        """Posterior means of all rows, computed once."""
        return Posterior.of(self)

    def _rank_by_population(
        self, rows: np.ndarray, own: np.ndarray, there: Any, metric: str, found: np.ndarray
    ) -> None:
        most = min(found.shape[1], len(there))
        at_once = max(1, PAIRS // len(there))
        for start in range(0, rows.size, at_once):
            part = slice(start, start + at_once)
            scores = self._posterior.scores(rows[part], there._posterior, metric)
            listed = np.flatnonzero(own[part] >= 0)
            scores[listed, own[part][listed]] = -np.inf
            found[part, :most] = top_n(scores, most)[0]

    def _rank_by_pairs(
        self, rows: np.ndarray, own: np.ndarray, there: Any, metric: str, found: np.ndarray
    ) -> None:
        """Fill in the best of each row, without its own row; ties go to the first row."""
        raise NotImplementedError

    def _aligned(self, rows: np.ndarray, others: np.ndarray, there: Any, metric: str) -> np.ndarray:
        """Debiased similarity of each of these rows to the row there at the same position."""
        raise NotImplementedError

    @property
    def _suits_population(self) -> bool:
        """Whether noisy vectors are close to normal about what profiles have in common."""
        return True

    @property
    def _entries(self) -> int:
        """Length of the vector of a row."""
        raise NotImplementedError

    @property
    def _vector_noise(self) -> np.ndarray:
        """Variance of the noise of each entry of `_noisy_vectors`."""
        raise NotImplementedError

    def _noisy_vectors(self, rows: np.ndarray) -> np.ndarray:
        """Released rows as unbiased float32 vectors, whose inner products count common items."""
        raise NotImplementedError

    @property
    def _cells_of_collisions(self) -> float:
        """Cells whose collisions make inner products larger than the items in common."""
        return math.inf

    def _noisy_sizes(self, rows: np.ndarray, rest: np.ndarray) -> tuple[np.ndarray, float]:
        """Unbiased sizes of these rows in any unit, and the variance of their noise.

        Their noise is independent of that of the coordinate along the common profile. rest: what
        the noisy vectors leave beside that coordinate.
        """
        raise NotImplementedError

    def _shape(
        self, along: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What a coordinate along the common profile and a size say of a vector.

        Returns the number that one common item adds to inner products, for each of the two vectors;
        the items; and the squared length of what is left beside the coordinate.
        """
        items = np.maximum(sizes, along**2)
        return np.ones_like(items), items, np.maximum(sizes - along**2, LEFT * sizes)

    def _similarity(self, rows: np.ndarray, other: Any, metric: str) -> np.ndarray:
        raise NotImplementedError

    def _variance(self, rows: np.ndarray, other: Any, metric: str) -> np.ndarray:
        raise NotImplementedError

    def _loss(self, items: int) -> float:
        """Epsilon of adding or removing this many items of one profile."""
        raise NotImplementedError

    def _size_variance(self) -> np.ndarray:
        """The variance of each estimated size."""
        raise NotImplementedError

    @cached_property
    def _boundless(self) -> np.ndarray:
        """Mask of profiles that have an estimated size but no finite upper bound of it."""
        return np.asarray(np.isinf(self.size_bounds()[1]) & ~np.isnan(self.estimate_size()))

    def _own_variance(self, metric: str) -> np.ndarray:
        """Variance of a row against itself: that of its size, or 0, as its similarity is 1."""
        own = self._size_variance()
        if metric != "inner":
            return own * 0.0
        return np.where(self._boundless, np.inf, own) if metric in self._of_sizes else own

    def _put_own(self, found: np.ndarray, rows: np.ndarray, own: np.ndarray) -> None:
        """Write the values of rows against themselves."""
        found[np.arange(rows.size), rows] = own[rows]

    def _other(self, other: Any) -> Any:
        if other is None:
            return self
        self._check_same(other, "compare")
        return other

    def _to_agree(self, other: Any) -> Any:
        return [name for name in self._limits if name != "kind"]

    def _checked_rows(self, rows: Any) -> np.ndarray:
        """Row numbers of this release, as int64; raises where one is out of range."""
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
        """Hash items in the same way as those of the profiles."""
        return hashed_items(ids_of(items, "items"), self.seed)

    def _id_layout(self) -> dict[str, Cells]:
        return id_layout("users", self.kind)

    def _check_rows(self, cells: np.ndarray) -> None:
        """Raise ValueError where a file has not as many rows of cells as users."""
        if len(cells) != len(self):
            raise ValueError("there are not as many profiles as users.")
