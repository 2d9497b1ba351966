"""ItemIndex: recommendations from candidates found by codes or buckets, not by a full scan."""

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.core.hashing import SEED
from sfumato.core.ids import positions
from sfumato.core.tables import described
from sfumato.core.typing import Ids
from sfumato.core.validation import integer, one_of, optional
from sfumato.data.interactions import Interactions
from sfumato.errors import StaleIndexError
from sfumato.kernels.retrieve import rerank
from sfumato.privacy.statement import PrivacyStatement
from sfumato.recommend.candidate_index import CandidateIndex
from sfumato.recommend.ranking import CatalogueVectors, ExcludedItems
from sfumato.retrieve.binary.index import BinaryIndex
from sfumato.retrieve.encoders.factories import tight_frame
from sfumato.retrieve.lsh.index import LshIndex
from sfumato.retrieve.metric import Lift

if TYPE_CHECKING:
    from sfumato.recommend.factorization.base import Factorization

__all__ = ["MOST_ROWS", "CodeSearch", "ItemIndex", "StaleIndexError", "Tables"]

MOST_ROWS = 64  # bits in the key of a band
CODE = 256  # bits of a code
BLOCK = 1 << 17  # items that are lifted at a time
BEYOND = 1 + 1e-6  # so that rounding makes no item long where all have one length
ROOM = 1 << 20  # entries of the lists of one batch of users


class IndexSettings(Protocol):
    """Parameters of an `ItemIndex` that its candidate search reads."""

    bits: int | None
    shortlist: int
    bands: int
    probes: int
    seed: int


class CodeSearch:
    """Candidates by the Hamming distance of binary codes of vectors lifted to a sphere.

    Items longer than the sphere's radius, whose length the codes cannot express, are always scored:
    they are often the best of the catalogue.
    """

    def __init__(self, index: IndexSettings, items: np.ndarray) -> None:
        self._shortlist, self._vectors, self._lift = index.shortlist, items, Lift.of(items)
        self._vectors.flags.writeable = False
        encoder = tight_frame(index.bits or CODE, seed=index.seed)
        self._codes = BinaryIndex(encoder=encoder)
        self._within = np.empty(len(items), bool)
        for at in range(0, len(items), BLOCK):
            part = items[at : at + BLOCK]
            within = self._lift.scales(part) <= BEYOND * self._lift.radius
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
        excluded: ExcludedItems | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rank each query's short-list, extended by its exclusions, and all long items."""
        positions = np.full((len(queries), n), -1, np.int64)
        scores = np.full((len(queries), n), -np.inf, np.float32)
        starts, unwanted = _by_row(excluded, len(queries))
        lengths = np.minimum(max(self._shortlist, n) + np.diff(starts), max(len(self._codes), 1))
        mask = None if allowed is None else allowed[self._within]
        for part in _batches(lengths):
            lifted, longest = self._lift.lifted_queries(queries[part]), int(lengths[part].max())
            found = self._codes.search(lifted, longest, rerank=None, filter=mask)[1]
            # A batch is scanned for its longest list; each row has its own.
            found[np.arange(found.shape[1]) >= lengths[part, None]] = -1
            begins, rows = _remaining(found, starts[part.start : part.stop + 1], unwanted)
            rerank.products(
                self._vectors, queries[part], begins, rows, positions[part], scores[part]
            )
        return _merged((positions, scores), self._long.best(queries, n, allowed, excluded))


class _Long:
    """A subset of the catalogue whose items are all scored."""

    def __init__(self, positions: np.ndarray, items: np.ndarray) -> None:
        self._positions, self._items = positions, CatalogueVectors.of(items[positions])

    @property
    def nbytes(self) -> int:
        return self._items.panels.nbytes + self._positions.nbytes

    def best(
        self,
        queries: np.ndarray,
        n: int,
        allowed: np.ndarray | None,
        excluded: ExcludedItems | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rank these items; positions are those in the catalogue."""
        size = min(n, self._positions.size)
        if not size:
            return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
        mask = None if allowed is None else allowed[self._positions]
        found, scores = self._items.best(queries, size, mask, self._own(excluded))
        return np.where(found >= 0, self._positions[found], -1), scores

    def _own(self, excluded: ExcludedItems | None) -> ExcludedItems | None:
        """Return the exclusions as positions among these items."""
        if excluded is None:
            return None
        at = positions(excluded.positions, self._positions)
        before = np.concatenate(([0], np.cumsum(at >= 0)))
        return ExcludedItems(before[excluded.starts], at[at >= 0], excluded.rows)


def _merged(
    one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Merge two ranked lists per row into one as wide as the first; ties by position."""
    width = one[0].shape[1]
    positions, scores = (np.concatenate(each, axis=1) for each in zip(one, other, strict=True))
    order = np.argsort(positions, axis=1, kind="stable")
    ranked = np.argsort(-np.take_along_axis(scores, order, axis=1), axis=1, kind="stable")
    best = np.take_along_axis(order, ranked[:, :width], axis=1)
    return np.take_along_axis(positions, best, axis=1), np.take_along_axis(scores, best, axis=1)


class Tables:
    """Candidates from the buckets of an `LshIndex`."""

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
        excluded: ExcludedItems | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rank the items in the buckets of each query."""
        positions = np.empty((len(queries), n), np.int64)
        scores = np.empty((len(queries), n), np.float32)
        starts, unwanted = _by_row(excluded, len(queries))
        for part in _batches(np.full(len(queries), n)):
            low, high = starts[part.start], starts[part.stop]
            without = starts[part.start : part.stop + 1] - low, unwanted[low:high]
            positions[part], scores[part] = self._tables.search(
                queries[part], n, filter=allowed, without=without
            )
        return positions, scores


def _by_row(excluded: ExcludedItems | None, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return offsets and positions of the excluded items of each query."""
    if excluded is None:
        return np.zeros(count + 1, np.int64), np.empty(0, np.int64)
    known = np.maximum(excluded.rows, 0)
    sizes = np.where(excluded.rows >= 0, np.diff(excluded.starts)[known], 0)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    at = np.repeat(excluded.starts[known] - starts[:-1], sizes) + np.arange(starts[-1])
    return starts, excluded.positions[at]


def _batches(lengths: np.ndarray) -> list[slice]:
    """Return slices of queries whose lists, at the longest's length, fit into ROOM entries."""
    step = max(ROOM // int(lengths.max(initial=1)), 1)
    return [slice(at, min(at + step, lengths.size)) for at in range(0, lengths.size, step)]


def _remaining(
    found: np.ndarray, starts: np.ndarray, unwanted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the candidates of each row without excluded ones, ascending, and the row offsets."""
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


class ItemIndex(CandidateIndex):
    """Index of a model's items: finds candidates fast and ranks them by their exact scores.

    Use it where scoring the entire catalogue for every user is too slow. Usually made by
    `Factorization.index`.

    Parameters
    ----------
    model : Factorization
        A fitted model.
    kind : {"codes", "bands"}, default="codes"
        How candidates are found. "codes" compares the user's vector with a binary code of every
        item and scores the `shortlist` nearest, and the longest hundredth of all item vectors; it
        suits any catalogue. "bands" scores the items that share a hash bucket with the user's
        vector, a few percent of the catalogue (see `touched`); it suits large catalogues and takes
        more memory.
    bits : int or None, default=None
        For "codes", the length of a code in bits, from 1 to 4096 (None: 256). For "bands", the
        length of a bucket's key, from 1 to 64 (None: about one bucket per eight items).
    shortlist : int, default=1000
        Candidates per user for "codes", at least 1.
    bands : int, default=16
        Hash tables for "bands", from 1 to 4096.
    probes : int, default=128
        Buckets probed in each table for "bands", from 1 to 4096.
    seed : int, default=0
        Seed of the hash functions.

    Notes
    -----
    **Guarantee.** `recommend` returns the model's own results, with bitwise equal scores,
    restricted to the candidates found; `recall` measures how many of the model's results that
    includes. The result for one user does not depend on the other users of the call. Excluded and
    filtered items take no slot of the short-list. The index is computed from the model's factors
    alone, so the model's privacy statement covers it.

    The index belongs to one fitted state: once the model has learned more, `stale` is True and
    queries raise `StaleIndexError`.

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
    _model: "Factorization"

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
        self._model = model
        self._learned = self._state()
        items = model._in_blocks(model._scored_vectors, model.catalogue_.ids)
        self._items: CodeSearch | Tables = (
            CodeSearch(self, items) if kind == "codes" else Tables(self, items)
        )

    def __repr__(self) -> str:
        facts = {name: getattr(self, name) for name in LIMITS}
        return described(self, **facts, model=type(self._model).__name__, stale=self.stale)

    @property
    def statement(self) -> PrivacyStatement | None:
        """Privacy statement of the model; the index is computed from what it released."""
        return self._model.statement

    @property
    def nbytes(self) -> int:
        """Size of codes or hash tables and of the item vectors, in bytes."""
        return self._items.nbytes

    def touched(self, users: Ids) -> float:
        """Measure the mean fraction of the catalogue examined per user.

        Parameters
        ----------
        users : array_like or scalar
            User ids to measure on.

        Returns
        -------
        float
            A fraction from 0 to 1; always 1 for "codes", which compares every code.
        """
        self._check_fresh()
        model = self._model
        vectors = model._in_blocks(model._user_vectors, model._user_ids(users))
        vectors[:, -1] = 1  # beside the items' biases
        return self._items.touched(vectors)

    def _state(self) -> Any:
        return self._model._vector_cache

    def _listed(
        self, users: Ids, n: int, exclude: Interactions | None, filter: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        return self._model._recommended(users, n, exclude, filter, self._items)
