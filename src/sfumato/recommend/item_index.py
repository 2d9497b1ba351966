"""An index of the items of a model: recommendations that need not score the whole catalogue.

Finding the items of a catalogue that are worth scoring: by codes, or in buckets.
"""

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.core.ids import positions
from sfumato.core.tables import described
from sfumato.core.typing import Ids
from sfumato.core.validation import integer, one_of, optional
from sfumato.data.interactions import Interactions
from sfumato.errors import StaleIndexError
from sfumato.kernels.retrieve import rerank
from sfumato.privacy.statement import PrivacyStatement
from sfumato.recommend.ranking import ExcludedItems, Shelf
from sfumato.retrieve.binary.index import BinaryIndex
from sfumato.retrieve.encoders.factories import tight_frame
from sfumato.retrieve.lsh.index import LshIndex
from sfumato.retrieve.metric import Lift
from sfumato.sketch.base import SEED

if TYPE_CHECKING:
    from sfumato.recommend.factorization.base import Factorization

__all__ = ["MOST_ROWS", "CodeSearch", "ItemIndex", "Ranking", "StaleIndexError", "Tables"]

MOST_ROWS = 64  # bits in the key of a band
CODE = 256  # bits of a code
BLOCK = 1 << 17  # items that are lifted at a time
BEYOND = 1 + 1e-6  # so that items all of one length are not long
ROOM = 1 << 20  # entries of the lists of one batch of users


class IndexSettings(Protocol):
    """What of an `ItemIndex` says how items are found."""

    bits: int | None
    shortlist: int
    bands: int
    probes: int
    seed: int


class CodeSearch:
    """Items found by the Hamming distance of codes, of vectors lifted to a sphere.

    The few beyond its radius, whose codes would not tell how long they are, are all scored: they
    are often the best of the catalogue.
    """

    def __init__(self, index: IndexSettings, items: np.ndarray) -> None:
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
        seen: ExcludedItems | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `Shelf.best`, of long items and each row's short-list, longer by what was seen."""
        positions = np.full((len(queries), n), -1, np.int64)
        scores = np.full((len(queries), n), -np.inf, np.float32)
        starts, unwanted = _by_row(seen, len(queries))
        lengths = np.minimum(max(self._shortlist, n) + np.diff(starts), max(len(self._codes), 1))
        mask = None if allowed is None else allowed[self._within]
        for part in _batches(lengths):
            asked, longest = self._lift.lifted_queries(queries[part]), int(lengths[part].max())
            found = self._codes.search(asked, longest, rerank=None, filter=mask)[1]
            # A batch is scanned for its longest list; each row has its own.
            found[np.arange(found.shape[1]) >= lengths[part, None]] = -1
            begins, rows = _left(found, starts[part.start : part.stop + 1], unwanted)
            rerank.products(
                self._vectors, queries[part], begins, rows, positions[part], scores[part]
            )
        return _merged((positions, scores), self._long.best(queries, n, allowed, seen))


class _Long:
    """The items at some places of a catalogue, all scored."""

    def __init__(self, positions: np.ndarray, items: np.ndarray) -> None:
        self._positions, self._shelf = positions, Shelf.of(items[positions])

    @property
    def nbytes(self) -> int:
        return self._shelf.panels.nbytes + self._positions.nbytes

    def best(
        self, queries: np.ndarray, n: int, allowed: np.ndarray | None, seen: ExcludedItems | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `Shelf.best`, of these items, by their places in the catalogue."""
        size = min(n, self._positions.size)
        if not size:
            return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
        mask = None if allowed is None else allowed[self._positions]
        found, scores = self._shelf.best(queries, size, mask, self._seen(seen))
        return np.where(found >= 0, self._positions[found], -1), scores

    def _seen(self, seen: ExcludedItems | None) -> ExcludedItems | None:
        if seen is None:
            return None
        at = positions(seen.positions, self._positions)
        before = np.concatenate(([0], np.cumsum(at >= 0)))
        return ExcludedItems(before[seen.starts], at[at >= 0], seen.rows)


def _merged(
    one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The best of two lists of places and scores a row, as long as the first; ties by place."""
    width = one[0].shape[1]
    positions, scores = (np.concatenate(each, axis=1) for each in zip(one, other, strict=True))
    order = np.argsort(positions, axis=1, kind="stable")
    ranked = np.argsort(-np.take_along_axis(scores, order, axis=1), axis=1, kind="stable")
    best = np.take_along_axis(order, ranked[:, :width], axis=1)
    return np.take_along_axis(positions, best, axis=1), np.take_along_axis(scores, best, axis=1)


class Tables:
    """Items found in the buckets of an `LshIndex`."""

    def __init__(self, index: IndexSettings, items: np.ndarray) -> None:
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
        seen: ExcludedItems | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `Shelf.best`, of the items in the buckets of each row."""
        positions = np.empty((len(queries), n), np.int64)
        scores = np.empty((len(queries), n), np.float32)
        starts, unwanted = _by_row(seen, len(queries))
        for part in _batches(np.full(len(queries), n)):
            low, high = starts[part.start], starts[part.stop]
            without = starts[part.start : part.stop + 1] - low, unwanted[low:high]
            positions[part], scores[part] = self._tables.search(
                queries[part], n, filter=allowed, without=without
            )
        return positions, scores


def _by_row(seen: ExcludedItems | None, count: int) -> tuple[np.ndarray, np.ndarray]:
    """What each row has seen, at places[starts[r] : starts[r + 1]]."""
    if seen is None:
        return np.zeros(count + 1, np.int64), np.empty(0, np.int64)
    known = np.maximum(seen.rows, 0)
    sizes = np.where(seen.rows >= 0, np.diff(seen.starts)[known], 0)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    at = np.repeat(seen.starts[known] - starts[:-1], sizes) + np.arange(starts[-1])
    return starts, seen.positions[at]


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


OWNER = "ItemIndex"
LIMITS: dict[str, Any] = {
    "kind": one_of(("codes", "bands")),
    "bits": optional(integer(1, 4096)),
    "shortlist": integer(1),
    "bands": integer(1, 4096),
    "probes": integer(1, 4096),
    "seed": SEED,
}


class Ranking(Protocol):
    """What finds the best items of a catalogue for rows of vectors (see `Shelf.best`)."""

    def best(
        self,
        queries: np.ndarray,
        n: int,
        allowed: np.ndarray | None = None,
        seen: ExcludedItems | None = None,
    ) -> tuple[np.ndarray, np.ndarray]: ...


class ItemIndex:
    """The items of a model, found by short codes or in buckets, and ranked by their true scores.

    Guarantee: `recommend` answers as the model's does, with the same scores bit for bit, for the
    items that were found; `recall` measures how many of the model's own answers are. An answer does
    not depend on who else is asked about. Items that a user has seen or the filter leaves out take
    no place of others. The index is of the model as it was: once that has learned more, asking
    raises `StaleIndexError`, and `stale` tells beforehand. It is made of the model's factors alone,
    so the model's privacy statement holds for it too.
    Parameters: model, a fitted `Factorization`; kind, how items are found:
    - "codes", all short codes are compared with the user's vector, and the best `shortlist` and the
      longest hundredth of all items are scored: for any catalogue;
    - "bands", items that share a bucket with the user's vector are scored, a few in a hundred of
      the catalogue (`touched`): for large catalogues, at more memory;
    bits, of a code (None: 256), up to 4096, or of the key of a bucket, up to 64 (None: there are an
    eighth as many keys as items); shortlist, from 1 up, for "codes"; bands and probes, for "bands":
    tables, and buckets looked into in each, from 1 to 4096; seed, of all hashes.

    Parameters
    ----------
    model : Factorization
        TODO.
    kind : str, default="codes"
        TODO.
    bits : int or None, default=None
        TODO.
    shortlist : int, default=1000
        TODO.
    bands : int, default=16
        TODO.
    probes : int, default=128
        TODO.
    seed : int, default=0
        TODO.

    Examples
    --------
    >>> from sfumato.data import generate_world
    >>> from sfumato.recommend import DenseFactorization
    >>> world = generate_world(users=60, items=40, ratings=900, random_state=1).interactions
    >>> model = DenseFactorization(factors=8).fit(world)
    >>> index = model.index("codes", bits=64, shortlist=20)
    >>> index.recommend([3, 5], n=4, exclude=world)[0].shape, index.recall(range(60), n=4) > 0.9
    ((2, 4), True)
    """

    kind: str
    bits: int | None
    shortlist: int
    bands: int
    probes: int
    seed: int

    def __init__(
        self,
        model: "Factorization",
        kind: str = "codes",
        *,
        bits: int | None = None,
        shortlist: int = 1000,
        bands: int = 16,
        probes: int = 128,
        seed: int = 0,
    ) -> None:
        given = dict(zip(LIMITS, (kind, bits, shortlist, bands, probes, seed), strict=True))
        for name, limit in LIMITS.items():
            setattr(self, name, limit.check(OWNER, name, given[name]))
        if self.kind == "bands" and self.bits is not None and self.bits > MOST_ROWS:
            raise ValueError(
                f"{OWNER}: bits of a bucket's key must be at most 64, not {self.bits}."
            )
        self._model, self._learned = model, _learned(model)
        items = model._in_blocks(model._item_vectors, model.catalogue_.ids)
        self._items: CodeSearch | Tables = (
            CodeSearch(self, items) if kind == "codes" else Tables(self, items)
        )

    def __repr__(self) -> str:
        facts = {name: getattr(self, name) for name in LIMITS}
        return described(self, **facts, model=type(self._model).__name__, stale=self.stale)

    @property
    def stale(self) -> bool:
        """Whether the model has learned since the index was made."""
        return _learned(self._model) is not self._learned

    @property
    def statement(self) -> PrivacyStatement | None:
        """What the model promises about privacy; the index is computed from what it released."""
        return self._model.statement

    @property
    def nbytes(self) -> int:
        """Bytes of codes or tables and of the items' vectors."""
        return self._items.nbytes

    def recommend(
        self, users: Ids, n: int = 10, *, exclude: Interactions | None = None, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The n best items that are found for each user, and their scores, best first.

        Parameters and answers are those of the model's `recommend`.

        Parameters
        ----------
        users : array_like or scalar
            TODO.
        n : int, default=10
            TODO.
        exclude : Interactions or None, default=None
            TODO.
        filter : object, default=None
            TODO.

        Returns
        -------
        tuple
            The n best items that are found for each user, and their scores, best first.
        """
        return self._fresh()._recommended(users, n, exclude, filter, self._items)

    def recall(
        self, users: Ids, n: int = 10, *, exclude: Interactions | None = None, filter: Any = None
    ) -> float:
        """The share of the model's own n best items of each of these users that the index finds.

        Of items whose score equals that of the last, any counts. A filter that leaves only items of
        low scores makes buckets miss most of them: measure with it.

        Parameters
        ----------
        users : array_like or scalar
            TODO.
        n : int, default=10
            TODO.
        exclude : Interactions or None, default=None
            TODO.
        filter : object, default=None
            TODO.

        Returns
        -------
        float
            The share of the model's own n best items of each of these users that the index finds.
        """
        model = self._fresh()
        users = model._user_ids(users)
        true = model.recommend(users, n, exclude=exclude, filter=filter)[1]
        mine = self.recommend(users, n, exclude=exclude, filter=filter)[1]
        there = true > -np.inf
        worst = np.where(there, true, np.inf).min(axis=1, keepdims=True)
        return float((mine >= worst).sum() / max(there.sum(), 1))

    def touched(self, users: Ids) -> float:
        """The share of the catalogue that is looked at for one of these users, on average.

        Parameters
        ----------
        users : array_like or scalar
            TODO.

        Returns
        -------
        float
            The share of the catalogue that is looked at for one of these users, on average.
        """
        model = self._fresh()
        vectors = model._in_blocks(model._user_vectors, model._user_ids(users))
        vectors[:, -1] = 1  # beside the items' biases
        return self._items.touched(vectors)

    def _fresh(self) -> "Factorization":
        if self.stale:
            raise StaleIndexError(
                f"{OWNER}: the model has learned since the index was made; call index again."
            )
        return self._model


def _learned(model: "Factorization") -> Any:
    """What the model keeps as long as it learns nothing more."""
    return model.__dict__.setdefault("_shelves", {})
