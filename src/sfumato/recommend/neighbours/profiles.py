"""Profiles: the items of each user, exact from raw data or estimated from a release."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from sfumato.core.deprecation import renamed_arguments
from sfumato.core.ids import ids_of, unique
from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import integer, one_of
from sfumato.data.interactions import Interactions
from sfumato.kernels.recommend import cooccurrence as overlaps
from sfumato.recommend.catalogue import Catalogue, SortedCatalogue

__all__ = ["METRICS", "Profiles", "RawProfiles"]

CODES = {"cosine": "COSINE", "jaccard": "JACCARD", "inner": "INNER"}  # in the kernels
METRICS = (*CODES, "pearson")
METRIC = one_of(METRICS)
COMMON = integer(1, 2**31 - 1)
THREADS = integer(1, 256)
POSITIONS = integer(1, 2**31 - 1)
COLUMNS = {"starts": np.int64, "positions": np.int32, "ratings": np.float64}


@runtime_checkable
class Profiles(Protocol):
    """What neighbours are computed from: raw profiles, or a release of them.

    `users_` are the distinct user ids, one per row. `nearest_rows` returns two arrays (rows, n):
    the other rows most similar to each, best first, and their similarities; where there is none,
    the row is -1 or the similarity not finite. `memberships` returns (rows, items): 1 if the
    profile has the item, 0 if not, or an estimate of it.
    """

    @property
    def users_(self) -> np.ndarray: ...

    def nearest_rows(
        self, rows: Any, n: int = 10, *, metric: str = "cosine"
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def memberships(self, items: Any, rows: Any = None) -> np.ndarray: ...


class RawProfiles:
    """Exact profiles: the items and ratings of every user. Not private.

    Parameters
    ----------
    interactions : Interactions
        At least one row. If a user rates an item more than once, the last rating counts.
    least_common : int, default=1
        Smallest number of common items of two neighbours, at least 1. For "pearson", which is 1 or
        -1 for any two common items, 10 is a better choice.
    threads : int, default=1
        Threads over the queries of a call, from 1 to 256.

    Notes
    -----
    **Guarantee.** Results are exact; equally similar users are in order of first appearance. For
    users with a and b items, c of them common, the similarity is c ("inner"), c / sqrt(a b)
    ("cosine"), c / (a + b - c) ("jaccard"), or the correlation of the ratings of the common items
    ("pearson"), defined if there are at least two and both users' ratings of them vary. Users with
    fewer than `least_common` common items are no neighbours.

    References
    ----------
    .. [1] Resnick, Iacovou, Suchak, Bergstrom, Riedl. "GroupLens: An Open Architecture for
       Collaborative Filtering of Netnews". CSCW 1994 (correlation).
       https://doi.org/10.1145/192844.192905
    .. [2] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 2.2.2.2, step 1 (similarity of users).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> users, items = ["ann", "ann", "bob", "eve"], ["tea", "rum", "tea", "milk"]
    >>> raw = RawProfiles(Interactions(users, items, ratings=[1, 1, 1, 1]))
    >>> raw.nearest_rows([0, 2], n=2)
    (array([[ 1, -1],
           [-1, -1]]), array([[0.70710678,       -inf],
           [      -inf,       -inf]]))
    >>> raw.memberships(["tea", "milk"], rows=[0])
    array([[1., 0.]])
    """

    def __init__(
        self, interactions: Interactions, *, least_common: int = 1, threads: int = 1
    ) -> None:
        if not isinstance(interactions, Interactions):
            kind = type(interactions).__name__
            raise TypeError(f"RawProfiles: interactions must be Interactions, not {kind}.")
        if not len(interactions):
            raise ValueError("RawProfiles: interactions must have at least one row, not 0.")
        self.least_common: int = COMMON.check("RawProfiles", "least_common", least_common)
        self.threads: int = THREADS.check("RawProfiles", "threads", threads)
        self._rated = interactions.has_ratings
        coded = interactions.coded()
        self.users_: np.ndarray
        self.items_: np.ndarray
        self.users_, self.items_ = coded.user_ids, coded.item_ids
        self._set(coded.user_codes, coded.item_codes, interactions.ratings)

    def _set(self, users: np.ndarray, items: np.ndarray, ratings: np.ndarray) -> None:
        """Store the histories by user and by item."""
        from scipy.sparse import csr_array

        self._known = SortedCatalogue(self.items_)
        keys = users.astype(np.int64) * self.items_.size + items
        order = np.argsort(keys, kind="stable")
        last = np.diff(keys[order], append=-1) != 0
        keys, self._ratings = keys[order][last], ratings[order][last]
        who, what = np.divmod(keys, self.items_.size)
        self._items = what.astype(np.int32)
        self._sizes = np.bincount(who, minlength=self.users_.size)
        self._starts = np.concatenate([[0], np.cumsum(self._sizes)])
        means = np.bincount(who, self._ratings) / self._sizes
        # A correlation does not change with the mean; small numbers keep its sums exact.
        self._centred = self._ratings - means[who]
        shape = (self.users_.size, self.items_.size)
        turned = csr_array((self._centred, self._items, self._starts), shape).tocsc()
        ends = turned.indptr.astype(np.int64)
        self._ends, self._ratings_by_item = (
            np.append(ends, ends[-1]),
            turned.data,
        )  # and one empty list
        self._holders = turned.indices.astype(np.uint32)

    def __len__(self) -> int:
        return int(self.users_.size)

    def __repr__(self) -> str:
        inside = f"{len(self)} users, {self.items_.size} items"
        return f"RawProfiles({inside}: whole histories, not private)"

    @property
    def nbytes(self) -> int:
        """Size of the histories, stored by user and by item, in bytes."""
        mine = (self._items, self._ratings, self._centred, self._ratings_by_item, self._holders)
        return sum(int(each.nbytes) for each in (*mine, self._starts, self._sizes, self._ends))

    @property
    def interactions(self) -> Interactions:
        """Distinct pairs of user and item, user by user."""
        users = np.repeat(self.users_, self._sizes)
        ratings = self._ratings if self._rated else None
        return Interactions(users, self.items_[self._items], ratings)

    def _arrays(self) -> dict[str, np.ndarray]:
        """Return ids and histories as the arrays of a file."""
        ids = {
            f"{whose}_{name}": array
            for whose, each in (("user", self.users_), ("item", self.items_))
            for name, array in Catalogue(each).arrays().items()
        }
        histories = self._starts.astype(np.int64), self._items, self._ratings.astype(np.float64)
        return {**ids, **dict(zip(COLUMNS, histories, strict=True))}

    @staticmethod
    def _layout(users: str, items: str) -> dict[str, Cells]:
        """Return the arrays that a file must contain, for ids of these kinds."""
        ids = {
            f"{whose}_{name}": cells
            for whose, kind in (("user", users), ("item", items))
            for name, cells in Catalogue.layout(kind).items()
        }
        return {**ids, **{name: Cells(dtype, (-1,)) for name, dtype in COLUMNS.items()}}

    @classmethod
    def _from_arrays(
        cls, arrays: dict[str, np.ndarray], *, rated: bool, least_common: int, threads: int
    ) -> Self:
        """Read the arrays of a file; ValueError where they contradict each other."""
        made = cls.__new__(cls)
        made._rated, made.least_common, made.threads = rated, least_common, threads
        made.users_, made.items_ = (
            Catalogue.from_arrays(
                {
                    name.removeprefix(whose): array
                    for name, array in arrays.items()
                    if name.startswith(whose)
                }
            ).ids
            for whose in ("user_", "item_")
        )
        starts, at, ratings = (arrays[name] for name in COLUMNS)
        sound = (
            starts.size == made.users_.size + 1
            and starts[0] == 0
            and starts[-1] == at.size == ratings.size
            and (np.diff(starts) > 0).all()
            and (at >= 0).all()
            and (at < made.items_.size).all()
            and np.isfinite(ratings).all()
        )
        if not sound:
            raise ValueError("profiles must be rows of positions of items.")
        rows = np.repeat(np.arange(made.users_.size), np.diff(starts))
        if (np.diff(rows * made.items_.size + at) <= 0).any():
            raise ValueError("profiles must have each item once, in order.")
        made._set(rows, at, ratings)
        return made

    def _own(self, row: int) -> tuple[slice, np.ndarray]:
        """Return which of the `interactions` are those of a row, and the positions of its items."""
        own = slice(self._starts[row], self._starts[row + 1])
        return own, self._items[own]

    def estimate_size(self) -> np.ndarray:
        """Count the items of each user.

        Returns
        -------
        ndarray of shape (n_users,)
            Exact counts as float64; released profiles estimate them.
        """
        return self._sizes.astype(np.float64)

    @renamed_arguments(measure="metric")
    def nearest_rows(
        self, rows: Any, n: int = 10, *, metric: str = "cosine"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find the n rows most similar to each of the given rows.

        Parameters
        ----------
        rows : array_like of shape (n_rows,)
            Row numbers, from 0.
        n : int, default=10
            Number of rows to return per row, at least 1.
        metric : {"cosine", "jaccard", "inner", "pearson"}, default="cosine"
            Similarity; see Notes of the class.

        Returns
        -------
        tuple of ndarray
            Rows and similarities, best first, both of shape (n_rows, n); -1 and -inf where there
            are fewer than n neighbours.
        """
        if metric == "pearson" and not self._rated:
            raise ValueError(f"RawProfiles: metric must be one of {tuple(CODES)} without ratings.")
        requested = self._checked(rows)
        mine = _Queries(self._starts, self._items, self._centred)
        return self._nearest(mine, requested, requested, n, metric)

    @renamed_arguments(measure="metric")
    def nearest_to(
        self, items: Ids, n: int = 10, *, metric: str = "cosine"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find the n rows most similar to a new user with the given items.

        Parameters
        ----------
        items : array_like or scalar
            Item ids. Items that no user has count in the size of the new profile.
        n : int, default=10
            Number of rows to return, at least 1.
        metric : {"cosine", "jaccard", "inner"}, default="cosine"
            Similarity; "pearson" is refused, since it needs ratings.

        Returns
        -------
        tuple of ndarray
            Rows and similarities, best first, both of shape (1, n); -1 and -inf where there are
            fewer than n neighbours.
        """
        if metric == "pearson":
            raise ValueError(f"RawProfiles: metric must be one of {tuple(CODES)} without ratings.")
        ids = unique(ids_of(items, "items"))
        codes = self._known.positions(ids)
        # The code after the last stands for all items that no user has: its list is empty.
        codes = np.where(codes < 0, self.items_.size, codes).astype(np.int32)
        query = _Queries(np.array([0, codes.size]), codes, np.zeros(codes.size))
        return self._nearest(query, np.zeros(1, np.int64), np.full(1, -1), n, metric)

    def memberships(self, items: Ids, rows: Any = None) -> np.ndarray:
        """Return which rows have which items.

        Parameters
        ----------
        items : array_like or scalar
            Item ids.
        rows : array_like of shape (n_rows,) or None, default=None
            Row numbers; None for all.

        Returns
        -------
        ndarray of shape (n_rows, n_items)
            1.0 if the row has the item, else 0.0.
        """
        requested = np.arange(len(self)) if rows is None else self._checked(rows)
        return self.sums(requested[:, None], np.ones((requested.size, 1)), items)

    def sums(
        self,
        rows: np.ndarray,
        weights: np.ndarray,
        items: Ids,
        values: np.ndarray | None = None,
    ) -> np.ndarray:
        """Compute weighted sums of memberships.

        Parameters
        ----------
        rows : ndarray of shape (n_queries, k)
            Row numbers; -1 for none.
        weights : ndarray of shape (n_queries, k)
            Weight of each row.
        items : array_like or scalar
            Item ids.
        values : ndarray of shape (n_interactions,) or None, default=None
            Value of each row of `interactions`; None for 1.

        Returns
        -------
        ndarray of shape (n_queries, n_items)
            Entry (q, i) is the sum over k of `weights[q, k]` times the value of item i in row
            `rows[q, k]`, 0 if that row does not have the item.
        """
        codes, back = np.unique(self._known.positions(items), return_inverse=True)
        columns = np.full(self.items_.size + 1, -1)  # the last is of all items that no user has
        columns[codes] = np.arange(codes.size)
        factors = np.empty(0) if values is None else values
        out = np.zeros((len(rows), codes.size))
        overlaps.spread(self._starts, self._items, factors, rows, weights, columns, out)
        return out[:, back]

    def _nearest(
        self, queries: "_Queries", rows: np.ndarray, own: np.ndarray, n: int, metric: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the nearest rows of each query, in threads that divide the queries."""
        metric = METRIC.check("RawProfiles", "metric", metric)
        n = POSITIONS.check("RawProfiles", "n", n)
        found = np.full((rows.size, n), -1, np.int64)
        near = np.full((rows.size, n), -np.inf)

        def part(start: int) -> None:
            here = slice(start, start + step)
            arguments = queries, rows[here], own[here], metric
            self._find(*arguments, found[here], near[here])

        step = max(1, -(-rows.size // self.threads))
        if rows.size <= step:
            part(0)
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(part, range(0, rows.size, step)))
        return found, near

    def _find(
        self,
        queries: "_Queries",
        rows: np.ndarray,
        own: np.ndarray,
        metric: str,
        found: np.ndarray,
        near: np.ndarray,
    ) -> None:
        """Fill `found` and `near` by the kernel of the metric."""
        if metric == "pearson":
            index, sums = (
                (self._ends, self._holders, self._ratings_by_item),
                np.zeros((len(self), 8)),
            )
            arguments = *queries, rows, own, self.least_common
            overlaps.correlated(*index, *arguments, sums, found, near)
        else:
            index = self._ends, self._holders, self._sizes
            sets = *queries[:2], rows, own, getattr(overlaps, CODES[metric]), self.least_common
            overlaps.nearest(*index, *sets, found, near)

    def _checked(self, rows: Any) -> np.ndarray:
        """Return row numbers as int64; raise if one is not a row."""
        column = np.atleast_1d(np.asarray(rows))
        if column.ndim != 1 or (column.size and column.dtype.kind not in "iu"):
            raise TypeError("RawProfiles: rows must be a column of integers.")
        outside = (column < 0) | (column >= len(self))
        if outside.any():
            raise ValueError(
                f"RawProfiles: rows must be from 0 to {len(self) - 1}; the one at position "
                f"{int(outside.argmax())} is not."
            )
        return column.astype(np.int64)


class _Queries(NamedTuple):
    """Queries: row r has items[starts[r] : starts[r + 1]], with values beside them."""

    starts: np.ndarray
    items: np.ndarray
    values: np.ndarray
