"""Ranking: the n best items of a catalogue for each query vector, less excluded or filtered ones.

Helpers of all recommenders check ids, filters and exclusions, and lay out the resulting lists.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from sfumato.core.arrays import top_n
from sfumato.core.ids import ids_of, is_one, kind_of
from sfumato.core.validation import integer
from sfumato.data.interactions import Interactions
from sfumato.kernels import sparse_rows
from sfumato.kernels import top_k as top
from sfumato.kernels.alignment import aligned
from sfumato.recommend.catalogue import Catalogue, SortedCatalogue

__all__ = [
    "CatalogueVectors",
    "ExcludedItems",
    "Ranking",
    "barred",
    "beside",
    "best",
    "check_filter",
    "excluded_by",
    "fitting",
    "given_ratings",
    "id_column",
    "listed",
    "listing",
    "one_pair",
    "own_ratings",
    "pairs",
    "ranked_fold_in",
    "ranked_tables",
    "rated_positions",
    "row_blocks",
    "table_pairs",
    "taken",
]

COUNT = integer(1, 2**31 - 1)
ONE_ROW = np.zeros(1, np.int64)
NOTHING = np.empty(0, np.int64)
SHORT = 64  # plain integers that are converted without looking for other types
LONG = 256  # from this n on, sorting all scores is faster than keeping a sorted list of n
TABLE = 1 << 21  # scores that models compute at a time
ROOM = 1 << 19  # bytes of vectors, barred bits or scores in one batch, so that they stay in cache


class ExcludedItems(NamedTuple):
    """Items to leave out: for query u, positions[starts[r] : starts[r + 1]] with r = rows[u].

    rows[u] = -1 excludes nothing.
    """

    starts: np.ndarray
    positions: np.ndarray
    rows: np.ndarray


class Ranking(Protocol):
    """What finds the best items of a catalogue for query vectors (see `CatalogueVectors.best`)."""

    def best(
        self,
        queries: np.ndarray,
        n: int,
        allowed: np.ndarray | None = None,
        excluded: ExcludedItems | None = None,
    ) -> tuple[np.ndarray, np.ndarray]: ...


@dataclass(frozen=True)
class CatalogueVectors:
    """Item vectors of a catalogue, in the panels that the ranking kernel reads.

    Guarantee: `best` returns what sorting all scores would, ties in the catalogue's order; a score
    does not depend on the other queries of the call.
    """

    panels: np.ndarray
    size: int

    @classmethod
    def of(cls, vectors: np.ndarray) -> "CatalogueVectors":
        """Lay out float32 item vectors, one per row."""
        size, factors = vectors.shape
        count = -(-size // top.WIDE)
        filled = np.zeros((count * top.WIDE, factors), np.float32)
        filled[:size] = vectors
        panels = aligned((count, factors, top.WIDE), np.float32)
        panels[:] = filled.reshape(count, top.WIDE, factors).transpose(0, 2, 1)
        return cls(panels, size)

    def set_rows(self, positions: np.ndarray, vectors: np.ndarray) -> None:
        """Overwrite the vectors at these positions."""
        self.panels[positions // top.WIDE, :, positions % top.WIDE] = vectors

    def best(
        self,
        queries: np.ndarray,
        n: int,
        allowed: np.ndarray | None = None,
        excluded: ExcludedItems | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return positions and scores of the n best items for each query, best first.

        If fewer remain, the position is -1 and the score -inf. n is at most the catalogue's size.
        """
        barred = self._none_barred if allowed is None else self._barred(allowed)
        if len(queries) == 1 and n < LONG:
            return self._best_of_one(queries, n, barred, excluded)
        found = np.full((len(queries), n), -1, np.int64)
        scores = np.full((len(queries), n), -np.inf, np.float32)
        step = self._step(n, excluded is not None)
        for start in range(0, len(queries), step):
            rows = slice(start, start + step)
            part = queries[rows]
            bars = barred if excluded is None else _bars(barred, excluded, rows, len(part))
            found[rows], scores[rows] = self._batch(part, n, bars)
        return found, scores

    def _best_of_one(
        self, queries: np.ndarray, n: int, barred: np.ndarray, excluded: ExcludedItems | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rank a single query."""
        self._check_width(queries)
        found, scores = np.empty((1, n), np.int64), np.empty((1, n), np.float32)
        left_out = NOTHING if excluded is None else _of_row(excluded, 0)
        query = np.ascontiguousarray(queries[0], np.float32)
        top.best_of_one(self.panels, query, barred[0], left_out, found[0], scores[0])
        return found, scores

    def every(self, queries: np.ndarray) -> np.ndarray:
        """Return the scores of all items for each query, float32 of shape (n, size)."""
        filled = self._filled(queries)
        out = np.empty((len(filled), len(self.panels) * top.WIDE), np.float32)
        top.every(self.panels, filled, out)
        return out[: len(queries), : self.size]

    def _step(self, n: int, by_user: bool) -> int:
        """Return the number of queries per batch, a multiple of those the kernel takes at once."""
        width = len(self.panels) * top.WIDE
        size = width // 8 if by_user else 4 * self.panels.shape[1]
        size = 4 * width if n >= LONG else size
        return max(ROOM // size // top.ABREAST, 1) * top.ABREAST

    def _batch(
        self, queries: np.ndarray, n: int, barred: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rank one batch of queries with the kernel, or by sorting for large n."""
        rows, filled = len(queries), self._filled(queries)
        if n >= LONG:
            return self._sorted(filled, rows, n, barred)
        found = np.full((len(filled), n), -1, np.int64)
        scores = np.full((len(filled), n), -np.inf, np.float32)
        top.best(self.panels, filled, barred, found, scores)
        return found[:rows], scores[:rows]

    def _filled(self, queries: np.ndarray) -> np.ndarray:
        """Return the queries and rows of zeros, as many as the kernel takes at once."""
        self._check_width(queries)
        rows = len(queries)
        filled = np.zeros((-(-rows // top.ABREAST) * top.ABREAST, queries.shape[1]), np.float32)
        filled[:rows] = queries
        return filled

    def _check_width(self, queries: np.ndarray) -> None:
        """Raise ValueError for vectors of another length: the kernel would read past the end."""
        if queries.shape[1] != self.panels.shape[1]:
            raise ValueError("vectors of users and of items differ in length.")

    def _sorted(
        self, queries: np.ndarray, rows: int, n: int, barred: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rank by sorting all scores."""
        every = np.empty((len(queries), len(self.panels) * top.WIDE), np.float32)
        top.every(self.panels, queries, every)
        out = np.unpackbits(barred.view(np.uint8), axis=1, bitorder="little").astype(bool)
        return top_n(np.where(out[:rows], -np.inf, every[:rows]), n)

    @cached_property
    def _none_barred(self) -> np.ndarray:
        """Return the bits of the padding alone."""
        return self._barred(None)

    def _barred(self, allowed: np.ndarray | None) -> np.ndarray:
        """Return one row of bits, set for filtered items and for the padding of the last panel."""
        out = np.ones(len(self.panels) * top.WIDE, bool)
        out[: self.size] = False if allowed is None else ~allowed
        return np.packbits(out, bitorder="little").view(np.uint32)[None]


def _bars(barred: np.ndarray, excluded: ExcludedItems, rows: slice, count: int) -> np.ndarray:
    """Return the excluded bits of each query of a batch: the common ones and the query's own."""
    # The kernel reads a row for each query, the filling of the last four included.
    bars = np.repeat(barred, -(-count // top.ABREAST) * top.ABREAST, axis=0)
    top.bar(excluded.starts, excluded.positions, excluded.rows[rows], bars)
    return bars


def _of_row(excluded: ExcludedItems, query: int) -> np.ndarray:
    """Return the positions that are left out for one query."""
    row = excluded.rows[query]
    if row < 0:
        return NOTHING
    return excluded.positions[excluded.starts[row] : excluded.starts[row + 1]]


def excluded_by(
    owner: str, users: np.ndarray, exclude: Interactions | None, catalogue: Catalogue
) -> ExcludedItems | None:
    """Return the items that `exclude` lists for each user, as catalogue positions."""
    if exclude is None:
        return None
    if not isinstance(exclude, Interactions):
        kind = type(exclude).__name__
        raise TypeError(f"{owner}: exclude must be Interactions of items to leave out, not {kind}.")
    if not len(exclude) or not users.size:
        return None
    coded = exclude.coded()
    _check_same_kind(owner, "users", coded.user_ids, kind_of(users))
    _check_same_kind(owner, "items", coded.item_ids, catalogue.kind)
    known, *grouped = _by_user(exclude)
    if users.size == 1:
        rows, of = np.array([known._position(users.item())]), ONE_ROW
    else:
        rows, of = np.unique(known.positions(users), return_inverse=True)
    starts, codes = taken(rows, *grouped)
    at = _positions_in(exclude, catalogue)[codes]
    there = at >= 0
    if not there.all():
        starts = np.concatenate([[0], np.cumsum(there)])[starts]
        at = at[there]
    return ExcludedItems(starts, at, of)


def _by_user(rows: Interactions) -> tuple[SortedCatalogue, np.ndarray, np.ndarray]:
    """Return the users, and start offsets and item codes of each; computed once for the rows."""
    if "by_user" not in rows._cache:
        coded = rows.coded()
        counts = np.bincount(coded.user_codes, minlength=coded.user_ids.size)
        starts, items = np.concatenate([[0], np.cumsum(counts)]), np.empty_like(coded.item_codes)
        sparse_rows.group(coded.user_codes, coded.item_codes, starts[:-1].copy(), items)
        rows._cache["by_user"] = SortedCatalogue(coded.user_ids), starts, items
    grouped: tuple[SortedCatalogue, np.ndarray, np.ndarray] = rows._cache["by_user"]
    return grouped


def _positions_in(exclude: Interactions, catalogue: Catalogue) -> np.ndarray:
    """Return the catalogue position of each item code; remembered for the last catalogue."""
    last = exclude._cache.get("positions")
    if last is None or last[0] is not catalogue:
        last = catalogue, catalogue.positions(exclude.coded().item_ids)
        exclude._cache["positions"] = last
    at: np.ndarray = last[1]
    return at


def taken(rows: np.ndarray, starts: np.ndarray, *columns: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return starts and columns of some rows of a sparse matrix; row -1 is empty."""
    if rows.size == 1 and rows[0] >= 0:
        first, last = starts[rows[0]], starts[rows[0] + 1]
        return np.array([0, last - first]), *(column[first:last] for column in columns)
    counts = np.where(rows >= 0, starts[rows + 1] - starts[rows], 0)
    ends = np.concatenate([[0], np.cumsum(counts)])
    out = [np.empty(ends[-1], column.dtype) for column in columns]
    for column, made in zip(columns, out, strict=True):
        sparse_rows.gather(starts, column, rows, ends, made)
    return ends, *out


def listed(items: np.ndarray, catalogue: Catalogue) -> ExcludedItems:
    """Return the exclusion of these items for a single query."""
    found = catalogue.positions(items)
    found = found[found >= 0]
    return ExcludedItems(np.array([0, found.size]), found, np.zeros(1, np.int64))


def _check_same_kind(owner: str, name: str, ids: np.ndarray, kind: str) -> None:
    """Raise TypeError if the ids of `exclude` are of another kind than expected."""
    if kind_of(ids) != kind:
        raise TypeError(
            f"{owner}: {name} of exclude are {kind_of(ids)}, but {kind} are expected; "
            "nothing would be left out."
        )


def check_filter(owner: str, allowed: Any, catalogue: Catalogue) -> np.ndarray | None:
    """Return the filter as a boolean mask over the catalogue; raise ValueError if it is none."""
    if allowed is None:
        return None
    mask = np.asarray(allowed)
    if mask.dtype != bool or mask.shape != (len(catalogue),):
        raise ValueError(
            f"{owner}: filter must be a boolean mask with {len(catalogue)} entries, one per "
            f"item of catalogue_, not {mask.dtype} of shape {mask.shape}."
        )
    return mask


def id_column(ids: Any, name: str) -> np.ndarray:
    """Return ids as `ids_of` does; a short list of plain integers takes a tenth of the time."""
    if type(ids) is list and len(ids) <= SHORT and all(type(each) is int for each in ids):
        try:
            return np.array(ids, np.int64)
        except OverflowError:
            pass  # which ids_of explains
    return ids_of(ids, name)


def fitting(owner: str, name: str, ids: Any, kind: str) -> np.ndarray:
    """Return the ids as a column; raise TypeError if their kind is not the model's."""
    column = id_column(ids, name)
    if column.size and kind_of(column) != kind:
        raise TypeError(f"{owner}: {name} are {kind_of(column)}, but the model knows {kind}.")
    return column


def own_ratings(owner: str, ratings: Any, size: int) -> np.ndarray:
    """Return a new user's ratings as float64; raise ValueError unless each item has a number."""
    try:
        given = np.asarray(ratings, np.float64).reshape(-1)
    except (TypeError, ValueError):
        given = np.full(size, np.nan)
    if given.size != size or not np.isfinite(given).all():
        raise ValueError(f"{owner}: ratings must be {size} finite numbers, one per item.")
    return given


def pairs(
    owner: str, users: Any, items: Any, kinds: tuple[str, str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return columns of user and item ids of equal length; a single id is repeated."""
    who, what = fitting(owner, "users", users, kinds[0]), fitting(owner, "items", items, kinds[1])
    return beside(owner, users, items, who, what)


def beside(
    owner: str, users: Any, items: Any, who: np.ndarray, what: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Repeat a single user or item to the length of the other column; raise if lengths differ."""
    if is_one(users):
        who = np.repeat(who, what.size)
    elif is_one(items):
        what = np.repeat(what, who.size)
    if who.size != what.size:
        raise ValueError(
            f"{owner}: users and items must be of one length, not {who.size} and {what.size}."
        )
    return who, what


def one_pair(
    owner: str, user: Any, item: Any, kinds: tuple[str, str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return columns of the one user and the one item that `explain` takes."""
    who, what = pairs(owner, user, item, kinds)
    if who.size != 1:
        raise ValueError(f"{owner}: explain takes one user and one item, not {who.size}.")
    return who, what


def barred(
    scores: np.ndarray, allowed: np.ndarray | None, excluded: ExcludedItems | None, part: slice
) -> np.ndarray:
    """Set the scores of filtered and excluded items to -inf, in place, and return them."""
    if allowed is not None:
        scores[:, ~allowed] = -np.inf
    if excluded is not None:
        starts, positions, rows = excluded
        sparse_rows.fill(starts, positions, rows[part], -np.inf, scores)
    return scores


def best(scores: np.ndarray, n: int, least: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and scores of the n largest of each row, -1 and -inf where below `least`."""
    positions, found = top_n(scores, n)
    if least is not None:
        positions[found < least], found[found < least] = -1, -np.inf
    return positions, found


def row_blocks(rows: int, columns: int, cells: int = TABLE) -> Iterator[slice]:
    """Yield slices of consecutive rows of a table, of at most `cells` cells unless of one row."""
    step = max(1, cells // max(columns, 1))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def table_pairs(
    rows: np.ndarray,
    positions: np.ndarray,
    tables: Callable[[np.ndarray], Iterable[tuple[slice, np.ndarray]]],
) -> np.ndarray:
    """Return the score of each pair of a row and a catalogue position, 0 for position -1.

    `tables` yields the scores of all items for a slice of different rows at a time.
    """
    out, known = np.zeros(rows.size), np.flatnonzero(positions >= 0)
    different, codes = np.unique(rows[known], return_inverse=True)
    order = np.argsort(codes, kind="stable")
    known, codes = known[order], codes[order]
    for part, table in tables(different):
        mine = slice(*np.searchsorted(codes, (part.start, part.stop)))
        out[known[mine]] = table[codes[mine] - part.start, positions[known[mine]]]
    return out


def ranked_tables(
    owner: str,
    catalogue: Catalogue,
    kind: str,
    users: Any,
    n: Any,
    exclude: Interactions | None,
    allowed: Any,
    tables: Callable[[np.ndarray], Iterable[tuple[slice, np.ndarray]]],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the n best items of each user and their scores.

    `tables` yields the scores of all items for a slice of the users at a time, writeable.
    """
    n = min(COUNT.check(owner, "n", n), len(catalogue))
    who = fitting(owner, "users", users, kind)
    mask = check_filter(owner, allowed, catalogue)
    excluded = excluded_by(owner, who, exclude, catalogue)
    found, scores = np.full((who.size, n), -1, np.int64), np.full((who.size, n), -np.inf)
    for part, table in tables(who):
        found[part], scores[part] = best(barred(table, mask, excluded, part), n)
    return listing(catalogue, found, scores, is_one(users))


def given_ratings(owner: str, ratings: Any, size: int, bounds: tuple[float, float]) -> np.ndarray:
    """Return a new user's ratings of so many items, clipped to the bounds; None: the highest."""
    if ratings is None:
        return np.full(size, bounds[1])
    return np.asarray(np.clip(own_ratings(owner, ratings, size), *bounds))


def rated_positions(
    owner: str, catalogue: Catalogue, items: np.ndarray, ratings: Any, bounds: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of a new user's known items, each once, and means of `given_ratings`."""
    given = given_ratings(owner, ratings, items.size, bounds)
    at, which = np.unique(catalogue.positions(items), return_inverse=True)
    means = np.bincount(which, given, at.size) / np.bincount(which, minlength=at.size)
    return at[at >= 0], means[at >= 0]


def ranked_fold_in(
    owner: str,
    catalogue: Catalogue,
    items: Any,
    n: Any,
    allowed: Any,
    scored: Callable[[np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the n best other items of a new user with these items, and their scores.

    `scored` returns the scores of all items for a column of the ids, (1, n_items), writeable.
    """
    n = min(COUNT.check(owner, "n", n), len(catalogue))
    what = fitting(owner, "items", items, catalogue.kind)
    mask = check_filter(owner, allowed, catalogue)
    table = barred(scored(what), mask, listed(what, catalogue), slice(0, 1))
    return listing(catalogue, *best(table, n), True)


def listing(
    ids: Catalogue, positions: np.ndarray, scores: np.ndarray, one: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return ids and scores; for a single query (`one`) only the items that exist."""
    if one:
        found = positions[0] >= 0
        return ids.take(positions[0][found]), scores[0][found]
    return ids.take(positions), scores
