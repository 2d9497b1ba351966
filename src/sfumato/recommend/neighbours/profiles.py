"""Profiles: which items each user has, told exactly from raw data or estimated from a release."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from sfumato.core.deprecation import renamed_arguments
from sfumato.core.ids import ids_of, unique
from sfumato.core.typing import Ids
from sfumato.core.validation import integer, one_of
from sfumato.data.interactions import Interactions
from sfumato.kernels.recommend import cooccurrence as overlaps
from sfumato.recommend.catalogue import SortedCatalogue

__all__ = ["METRICS", "Profiles", "RawProfiles"]

CODES = {"cosine": overlaps.COSINE, "jaccard": overlaps.JACCARD, "inner": overlaps.INNER}
METRICS = (*CODES, "pearson")
METRIC = one_of(METRICS)
COMMON = integer(1, 2**31 - 1)
THREADS = integer(1, 256)
POSITIONS = integer(1, 2**31 - 1)

Near = tuple[np.ndarray, np.ndarray]


@runtime_checkable
class Profiles(Protocol):
    """What neighbours are computed from: raw profiles, or released ones and then nothing raw.

    users_ are their distinct ids, row by row. `nearest_rows` answers two arrays (rows, n): the
    other rows most like each, best first, and how alike they are; a place without one is -1 or its
    similarity is not finite. `memberships` answers (rows, items): 1 where the profile has the item,
    0 where it has not, or an estimate of that.
    """

    @property
    def users_(self) -> np.ndarray: ...

    def nearest_rows(self, rows: Any, n: int = 10, *, metric: str = "cosine") -> Near: ...

    def memberships(self, items: Any, rows: Any = None) -> np.ndarray: ...


class RawProfiles:
    """The items of each user as they are: whole histories, with no privacy at all.

    Parameters
    ----------
    interactions : Interactions
        With at least one row.
    least_common : int, default=1
        Items that neighbours have in common at least: pearson is 1 or -1 for any 2, so there 10 is
        wiser.
    threads : int, default=1
        Over queries.

    Notes
    -----
    **Guarantee.** Answers are exact. A pair of user and item counts once, with the rating of its
    last row. Equally similar users stand in the order of first appearance. Measures: inner, the
    items c in common; cosine, c / sqrt(a b) for users with a and b items; jaccard, c / (a + b - c);
    pearson, the correlation of the ratings of the items in common, from 2 of them on that both
    rated differently. Users with less in common are no neighbours.

    References
    ----------
    .. [1] Thesis 2.2.2.2, step 1; Resnick et al. 1994 for the correlation.

    Examples
    --------
    >>> users, items = ["ann", "ann", "bob", "eve"], ["tea", "rum", "tea", "milk"]
    >>> had = Interactions(users, items, ratings=[1, 1, 1, 1])
    >>> raw = RawProfiles(had)
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
        self.least_common = COMMON.check("RawProfiles", "least_common", least_common)
        self.threads = THREADS.check("RawProfiles", "threads", threads)
        coded = interactions.coded()
        self.users_, self.items_ = coded.user_ids, coded.item_ids
        self._known = SortedCatalogue(self.items_)
        self._set(coded.user_codes, coded.item_codes, interactions.ratings)

    def _set(self, users: np.ndarray, items: np.ndarray, ratings: np.ndarray) -> None:
        from scipy.sparse import csr_array

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
        self._ends, self._told = np.append(ends, ends[-1]), turned.data  # one empty list more
        self._holders = turned.indices.astype(np.uint32)

    def __len__(self) -> int:
        return int(self.users_.size)

    def __repr__(self) -> str:
        inside = f"{len(self)} users, {self.items_.size} items"
        return f"RawProfiles({inside}: whole histories, not private)"

    @property
    def nbytes(self) -> int:
        """Bytes of the histories, in both orders."""
        mine = (self._items, self._ratings, self._centred, self._told, self._holders)
        return sum(int(each.nbytes) for each in (*mine, self._starts, self._sizes, self._ends))

    @property
    def interactions(self) -> Interactions:
        """The pairs of users and items, each once, user after user."""
        users = np.repeat(self.users_, self._sizes)
        return Interactions(users, self.items_[self._items], self._ratings)

    def estimate_size(self) -> np.ndarray:
        """How many items each user has; exact here.

        Returns
        -------
        ndarray
            How many items each user has; exact here.
        """
        return self._sizes.astype(np.float64)

    @renamed_arguments(measure="metric")
    def nearest_rows(self, rows: Any, n: int = 10, *, metric: str = "cosine") -> Near:
        """The n other rows most like each of these, and how alike they are; -1 and -inf for none.

        Parameters
        ----------
        rows : object
            A column of row numbers.
        n : int, default=10
            From 1 up.
        metric : str, default="cosine"
            One of the four.

        Returns
        -------
        Near
            The n other rows most like each of these, and how alike they are; -1 and -inf for none.
        """
        asked = self._checked(rows)
        mine = _Queries(self._starts, self._items, self._centred)
        return self._nearest(mine, asked, asked, n, metric)

    @renamed_arguments(measure="metric")
    def nearest_to(self, items: Ids, n: int = 10, *, metric: str = "cosine") -> Near:
        """As `nearest_rows`, one row of answers, for somebody who has these items.

        Items that no user has count in the size of the profile, and are in nobody's else.

        Parameters
        ----------
        items : array_like or scalar
            TODO.
        n : int, default=10
            TODO.
        metric : str, default="cosine"
            TODO.

        Returns
        -------
        Near
            TODO.
        """
        if metric == "pearson":
            raise ValueError(f"RawProfiles: metric must be one of {tuple(CODES)} without ratings.")
        ids = unique(ids_of(items, "items"))
        codes = self._known.positions(ids)
        # The code after the last stands for all items that no user has: its list is empty.
        codes = np.where(codes < 0, self.items_.size, codes).astype(np.int32)
        guest = _Queries(np.array([0, codes.size]), codes, np.zeros(codes.size))
        return self._nearest(guest, np.zeros(1, np.int64), np.full(1, -1), n, metric)

    def memberships(self, items: Ids, rows: Any = None) -> np.ndarray:
        """1 where the row has the item, else 0: float64, rows x items.

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
        asked = np.arange(len(self)) if rows is None else self._checked(rows)
        return self.sums(asked[:, None], np.ones((asked.size, 1)), items)

    def sums(
        self,
        rows: np.ndarray,
        weights: np.ndarray,
        items: Ids,
        values: np.ndarray | None = None,
    ) -> np.ndarray:
        """out[q, i] = the sum over k of weights[q, k] where the profile rows[q, k] has item i.

        Parameters
        ----------
        rows : ndarray
            Of one shape, row -1 for none.
        weights : ndarray
            Of one shape, row -1 for none.
        items : array_like or scalar
            A column of ids.
        values : ndarray or None, default=None
            A factor for each row of `interactions`, None for 1.

        Returns
        -------
        ndarray
            TODO.
        """
        codes, back = np.unique(self._known.positions(items), return_inverse=True)
        columns = np.full(self.items_.size + 1, -1)  # the last is of all items that no user has
        columns[codes] = np.arange(codes.size)
        told = np.empty(0) if values is None else values
        out = np.zeros((len(rows), codes.size))
        overlaps.spread(self._starts, self._items, told, rows, weights, columns, out)
        return out[:, back]

    def _nearest(
        self, queries: "_Queries", rows: np.ndarray, own: np.ndarray, n: int, metric: str
    ) -> Near:
        """The best of each query, found by threads that share out the queries."""
        metric = METRIC.check("RawProfiles", "metric", metric)
        n = POSITIONS.check("RawProfiles", "n", n)
        found = np.full((rows.size, n), -1, np.int64)
        near = np.full((rows.size, n), -np.inf)

        def part(start: int) -> None:
            here = slice(start, start + step)
            asked = queries, rows[here], own[here], metric
            self._find(*asked, found[here], near[here])

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
        if metric == "pearson":
            index, sums = (self._ends, self._holders, self._told), np.zeros((len(self), 8))
            asked = *queries, rows, own, self.least_common
            overlaps.correlated(*index, *asked, sums, found, near)
        else:
            index = self._ends, self._holders, self._sizes
            sets = *queries[:2], rows, own, CODES[metric], self.least_common
            overlaps.nearest(*index, *sets, found, near)

    def _checked(self, rows: Any) -> np.ndarray:
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
