"""Ranking: the n best of a catalogue for each row of vectors, less what is excluded or filtered.

What is asked of a model, and how it is answered: ids of the right kind, lists cut or filled.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sfumato.core.arrays import top_n
from sfumato.core.ids import ids_of, is_one, kind_of, positions
from sfumato.data.interactions import Interactions
from sfumato.kernels import top_k as top
from sfumato.kernels.lanes import aligned
from sfumato.recommend.catalogue import Catalogue

__all__ = [
    "ExcludedItems",
    "Shelf",
    "barred",
    "beside",
    "best",
    "check_filter",
    "fitting",
    "listed",
    "listing",
    "pairs",
    "seen_by",
]

LONG = 256  # from this n on, sorting all scores is faster than keeping a sorted list of n
ROOM = 1 << 19  # bytes of vectors, barred bits or scores in one batch, so that they stay in cache


class ExcludedItems(NamedTuple):
    """Items to leave out: of user u those at places[starts[r] : starts[r + 1]], r = rows[u]."""

    starts: np.ndarray
    positions: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True)
class Shelf:
    """The vectors of a catalogue, laid out for ranking: panels of items side by side.

    Guarantee: `best` finds what sorting all scores would, ties in the catalogue's order; a score
    does not depend on what else is asked with it.
    """

    panels: np.ndarray
    size: int

    @classmethod
    def of(cls, vectors: np.ndarray) -> "Shelf":
        """A shelf of float32 vectors, one a row."""
        size, factors = vectors.shape
        count = -(-size // top.WIDE)
        filled = np.zeros((count * top.WIDE, factors), np.float32)
        filled[:size] = vectors
        panels = aligned((count, factors, top.WIDE), np.float32)
        panels[:] = filled.reshape(count, top.WIDE, factors).transpose(0, 2, 1)
        return cls(panels, size)

    def best(
        self,
        queries: np.ndarray,
        n: int,
        allowed: np.ndarray | None = None,
        seen: ExcludedItems | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Places in the catalogue and scores of the n best for each row, best first.

        Where fewer are left, the place is -1 and the score -inf. n is at most the catalogue's size.
        """
        if queries.shape[1] != self.panels.shape[1]:  # the kernel would read past the end
            raise ValueError("vectors of users and of items differ in length.")
        found = np.full((len(queries), n), -1, np.int64)
        scores = np.full((len(queries), n), -np.inf, np.float32)
        barred = self._barred(allowed)
        step = self._step(n, seen is not None)
        for start in range(0, len(queries), step):
            rows = slice(start, start + step)
            part = queries[rows]
            bars = barred if seen is None else _bars(barred, seen, rows, len(part))
            found[rows], scores[rows] = self._batch(part, n, bars)
        return found, scores

    def _step(self, n: int, by_user: bool) -> int:
        """How many rows are ranked at a time, a multiple of what the kernel takes abreast."""
        width = len(self.panels) * top.WIDE
        size = width // 8 if by_user else 4 * self.panels.shape[1]
        size = 4 * width if n >= LONG else size
        return max(ROOM // size // top.ABREAST, 1) * top.ABREAST

    def _batch(
        self, queries: np.ndarray, n: int, barred: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        rows = len(queries)
        filled = np.zeros((-(-rows // top.ABREAST) * top.ABREAST, queries.shape[1]), np.float32)
        filled[:rows] = queries
        if n >= LONG:
            return self._sorted(filled, rows, n, barred)
        found = np.full((len(filled), n), -1, np.int64)
        scores = np.full((len(filled), n), -np.inf, np.float32)
        top.best(self.panels, filled, barred, found, scores)
        return found[:rows], scores[:rows]

    def _sorted(
        self, queries: np.ndarray, rows: int, n: int, barred: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        every = np.empty((len(queries), len(self.panels) * top.WIDE), np.float32)
        top.every(self.panels, queries, every)
        out = np.unpackbits(barred.view(np.uint8), axis=1, bitorder="little").astype(bool)
        return top_n(np.where(out[:rows], -np.inf, every[:rows]), n)

    def _barred(self, allowed: np.ndarray | None) -> np.ndarray:
        """One row of bits: set for what the filter leaves out and for the last panel's filling."""
        out = np.ones(len(self.panels) * top.WIDE, bool)
        out[: self.size] = False if allowed is None else ~allowed
        return np.packbits(out, bitorder="little").view(np.uint32)[None]


def _bars(barred: np.ndarray, seen: ExcludedItems, rows: slice, count: int) -> np.ndarray:
    """The bits of a batch: those of all, and those of what each user has seen."""
    # The kernel reads a row for each query, the filling of the last four included.
    bars = np.repeat(barred, -(-count // top.ABREAST) * top.ABREAST, axis=0)
    top.bar(seen.starts, seen.positions, seen.rows[rows], bars)
    return bars


def seen_by(
    owner: str, users: np.ndarray, exclude: Interactions | None, catalogue: Catalogue
) -> ExcludedItems | None:
    """What each of these users has seen, as places in the catalogue; None where nothing is told."""
    if exclude is None:
        return None
    if not isinstance(exclude, Interactions):
        kind = type(exclude).__name__
        raise TypeError(f"{owner}: exclude must be Interactions of seen items, not {kind}.")
    if not len(exclude) or not users.size:
        return None
    coded = exclude.coded()
    _check_alike(owner, "users", coded.user_ids, kind_of(users))
    _check_alike(owner, "items", coded.item_ids, catalogue.kind)
    rows = positions(users, coded.user_ids)
    return ExcludedItems(*_grouped(coded, rows, positions(coded.item_ids, catalogue.ids)), rows)


def listed(items: np.ndarray, catalogue: Catalogue) -> ExcludedItems:
    """What one user has seen: these items."""
    shelved = catalogue.positions(items)
    shelved = shelved[shelved >= 0]
    return ExcludedItems(np.array([0, shelved.size]), shelved, np.zeros(1, np.int64))


def _grouped(coded: Any, rows: np.ndarray, shelved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts by user, and the places of the items that users who are asked about have seen."""
    asked = np.zeros(coded.user_ids.size, bool)
    asked[rows[rows >= 0]] = True
    starts = np.zeros(asked.size + 1, np.int64)
    told = coded.user_codes, coded.item_codes, asked, shelved
    top.tally(*told, starts)
    np.cumsum(starts, out=starts)
    out = np.empty(starts[-1], np.int64)
    top.gather(*told, starts[:-1].copy(), out)
    return starts, out


def _check_alike(owner: str, name: str, ids: np.ndarray, kind: str) -> None:
    if kind_of(ids) != kind:
        raise TypeError(
            f"{owner}: {name} of exclude are {kind_of(ids)}, but {kind} are expected; "
            "nothing would be left out."
        )


def check_filter(owner: str, allowed: Any, catalogue: Catalogue) -> np.ndarray | None:
    """The filter as a boolean mask with one entry an item of the catalogue."""
    if allowed is None:
        return None
    mask = np.asarray(allowed)
    if mask.dtype != bool or mask.shape != (len(catalogue),):
        raise ValueError(
            f"{owner}: filter must be a boolean mask with {len(catalogue)} entries, one an item "
            f"of catalogue_, not {mask.dtype} of shape {mask.shape}."
        )
    return mask


def fitting(owner: str, name: str, ids: Any, kind: str) -> np.ndarray:
    """A column of ids of the kind that the model knows; none of another could be found."""
    column = ids_of(ids, name)
    if column.size and kind_of(column) != kind:
        raise TypeError(f"{owner}: {name} are {kind_of(column)}, but the model knows {kind}.")
    return column


def pairs(
    owner: str, users: Any, items: Any, kinds: tuple[str, str]
) -> tuple[np.ndarray, np.ndarray]:
    """Columns of users and of the items beside them; one single id stands for a whole column."""
    who, what = fitting(owner, "users", users, kinds[0]), fitting(owner, "items", items, kinds[1])
    return beside(owner, users, items, who, what)


def beside(
    owner: str, users: Any, items: Any, who: np.ndarray, what: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The columns that users and items, as they were given, stand for: of one length."""
    if is_one(users):
        who = np.repeat(who, what.size)
    elif is_one(items):
        what = np.repeat(what, who.size)
    if who.size != what.size:
        raise ValueError(
            f"{owner}: users and items must be of one length, not {who.size} and {what.size}."
        )
    return who, what


def barred(
    scores: np.ndarray, allowed: np.ndarray | None, seen: ExcludedItems | None, part: slice
) -> np.ndarray:
    """The scores of these queries, -inf for what is filtered out or was seen; they are changed."""
    if allowed is not None:
        scores[:, ~allowed] = -np.inf
    if seen is not None:
        rows = seen.rows[part]
        starts = seen.starts[np.maximum(rows, 0)]
        counts = np.where(rows >= 0, seen.starts[np.maximum(rows, 0) + 1] - starts, 0)
        # Places from each start on: numbers in a row, less where the row's own begin.
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        positions = seen.positions[np.repeat(starts, counts) + within]
        scores[np.repeat(np.arange(rows.size), counts), positions] = -np.inf
    return scores


def best(scores: np.ndarray, n: int, least: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Places and scores of the n largest of each row, not below the least; -1 and -inf for none."""
    positions, found = top_n(scores, n)
    if least is not None:
        positions[found < least], found[found < least] = -1, -np.inf
    return positions, found


def listing(
    ids: Catalogue, positions: np.ndarray, scores: np.ndarray, one: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Ids and scores; those of one single id are cut to what there is."""
    if one:
        left = positions[0] >= 0
        return ids.take(positions[0][left]), scores[0][left]
    return ids.take(positions), scores
