"""Finding the items of a catalogue that are worth scoring: by codes, or in buckets."""

from typing import Protocol

import numpy as np

from sfumato.kernels import rerank
from sfumato.recommend._ranking import Seen, Shelf
from sfumato.retrieve._lift import Lift
from sfumato.retrieve.codes import tight_frame
from sfumato.retrieve.index import BinaryIndex
from sfumato.retrieve.tables import LshIndex
from sfumato.sketch._ids import places

__all__ = ["MOST_ROWS", "Codes", "Tables"]

MOST_ROWS = 64  # bits in the key of a band
CODE = 256  # bits of a code
BLOCK = 1 << 17  # items that are lifted at a time
BEYOND = 1 + 1e-6  # so that items all of one length are not long
ROOM = 1 << 20  # entries of the lists of one batch of users


class Settings(Protocol):
    """What of an `ItemIndex` says how items are found."""

    bits: int | None
    shortlist: int
    bands: int
    probes: int
    seed: int


class Codes:
    """Items found by the Hamming distance of codes, of vectors lifted to a sphere.

    The few beyond its radius, whose codes would not tell how long they are, are all scored: they
    are often the best of the catalogue.
    """

    def __init__(self, index: Settings, items: np.ndarray) -> None:
        self._shortlist, self._vectors, self._lift = index.shortlist, items, Lift.of(items)
        self._vectors.flags.writeable = False
        encoder = tight_frame(index.bits or CODE, seed=index.seed)
        self._codes = BinaryIndex(encoder=encoder)
        self._within = np.empty(len(items), bool)
        for at in range(0, len(items), BLOCK):
            part = items[at : at + BLOCK]
            within = self._lift.reach(part) <= BEYOND * self._lift.radius
            self._within[at : at + BLOCK] = within
            self._codes.add(at + np.flatnonzero(within), self._lift.points(part[within]))
        self._long = _Long(np.flatnonzero(~self._within), items)

    @property
    def nbytes(self) -> int:
        return self._vectors.nbytes + self._codes.nbytes + self._long.nbytes

    def touched(self, queries: np.ndarray) -> float:
        return 1.0 if len(queries) else 0.0

    def best(
        self,
        queries: np.ndarray,
        n: int,
        allowed: np.ndarray | None = None,
        seen: Seen | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `Shelf.best`, of long items and each row's short-list, longer by what was seen."""
        places = np.full((len(queries), n), -1, np.int64)
        scores = np.full((len(queries), n), -np.inf, np.float32)
        starts, unwanted = _by_row(seen, len(queries))
        lengths = np.minimum(max(self._shortlist, n) + np.diff(starts), max(len(self._codes), 1))
        mask = None if allowed is None else allowed[self._within]
        for part in _batches(lengths):
            asked, longest = self._lift.asked(queries[part]), int(lengths[part].max())
            found = self._codes.search(asked, longest, rerank=None, filter=mask)[1]
            # A batch is scanned for its longest list; each row has its own.
            found[np.arange(found.shape[1]) >= lengths[part, None]] = -1
            begins, rows = _left(found, starts[part.start : part.stop + 1], unwanted)
            rerank.products(self._vectors, queries[part], begins, rows, places[part], scores[part])
        return _merged((places, scores), self._long.best(queries, n, allowed, seen))


class _Long:
    """The items at some places of a catalogue, all scored."""

    def __init__(self, places: np.ndarray, items: np.ndarray) -> None:
        self._places, self._shelf = places, Shelf.of(items[places])

    @property
    def nbytes(self) -> int:
        return self._shelf.panels.nbytes + self._places.nbytes

    def best(
        self, queries: np.ndarray, n: int, allowed: np.ndarray | None, seen: Seen | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `Shelf.best`, of these items, by their places in the catalogue."""
        size = min(n, self._places.size)
        if not size:
            return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
        mask = None if allowed is None else allowed[self._places]
        found, scores = self._shelf.best(queries, size, mask, self._seen(seen))
        return np.where(found >= 0, self._places[found], -1), scores

    def _seen(self, seen: Seen | None) -> Seen | None:
        if seen is None:
            return None
        at = places(seen.places, self._places)
        before = np.concatenate(([0], np.cumsum(at >= 0)))
        return Seen(before[seen.starts], at[at >= 0], seen.rows)


def _merged(
    one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The best of two lists of places and scores a row, as long as the first; ties by place."""
    width = one[0].shape[1]
    places, scores = (np.concatenate(each, axis=1) for each in zip(one, other, strict=True))
    order = np.argsort(places, axis=1, kind="stable")
    ranked = np.argsort(-np.take_along_axis(scores, order, axis=1), axis=1, kind="stable")
    best = np.take_along_axis(order, ranked[:, :width], axis=1)
    return np.take_along_axis(places, best, axis=1), np.take_along_axis(scores, best, axis=1)


class Tables:
    """Items found in the buckets of an `LshIndex`."""

    def __init__(self, index: Settings, items: np.ndarray) -> None:
        rows = index.bits or min(max(round(np.log2(len(items))) - 3, 1), MOST_ROWS)
        tables = LshIndex(
            index.bands,
            rows,
            metric="inner",
            probes=index.probes,
            directions="super-bit",
            seed=index.seed,
        )
        self._tables = tables.add(np.arange(len(items)), items)

    @property
    def nbytes(self) -> int:
        return self._tables.nbytes

    def touched(self, queries: np.ndarray) -> float:
        parts = _batches(np.full(len(queries), len(self._tables)))
        found = sum(self._tables.candidates(queries[part])[1].size for part in parts)
        return found / max(len(queries), 1) / len(self._tables)

    def best(
        self,
        queries: np.ndarray,
        n: int,
        allowed: np.ndarray | None = None,
        seen: Seen | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `Shelf.best`, of the items in the buckets of each row."""
        places = np.empty((len(queries), n), np.int64)
        scores = np.empty((len(queries), n), np.float32)
        starts, unwanted = _by_row(seen, len(queries))
        for part in _batches(np.full(len(queries), n)):
            low, high = starts[part.start], starts[part.stop]
            without = starts[part.start : part.stop + 1] - low, unwanted[low:high]
            scores[part], places[part] = self._tables.search(
                queries[part], n, filter=allowed, without=without
            )
        return places, scores


def _by_row(seen: Seen | None, count: int) -> tuple[np.ndarray, np.ndarray]:
    """What each row has seen, at places[starts[r] : starts[r + 1]]."""
    if seen is None:
        return np.zeros(count + 1, np.int64), np.empty(0, np.int64)
    known = np.maximum(seen.rows, 0)
    sizes = np.where(seen.rows >= 0, np.diff(seen.starts)[known], 0)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    at = np.repeat(seen.starts[known] - starts[:-1], sizes) + np.arange(starts[-1])
    return starts, seen.places[at]


def _batches(lengths: np.ndarray) -> list[slice]:
    """Rows whose lists, all as long as the longest, fit into the room."""
    step = max(ROOM // int(lengths.max(initial=1)), 1)
    return [slice(at, min(at + step, lengths.size)) for at in range(0, lengths.size, step)]


def _left(
    found: np.ndarray, starts: np.ndarray, unwanted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The found places of each row that are not unwanted, ascending, and where each row starts."""
    found = np.sort(found, axis=1)
    size = int(found.max(initial=0)) + 1
    wide = np.arange(len(found))[:, None] * size
    sizes = np.diff(starts)
    bad = unwanted[starts[0] : starts[-1]]
    bad = (np.repeat(wide[:, 0], sizes) + bad)[bad < size]
    keep = found >= 0
    keep[keep] = ~np.isin((found + wide)[keep], bad)
    return np.concatenate(([0], np.cumsum(keep.sum(1)))), found[keep]
