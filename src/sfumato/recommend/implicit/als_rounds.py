"""Alternating least squares on an engine: partitions solve their users, then their items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy

from sfumato.core.ids import kind_of
from sfumato.core.linear_algebra import one_blas_thread
from sfumato.data.interactions import Interactions
from sfumato.engine import Rows
from sfumato.kernels.alignment import aligned
from sfumato.kernels.recommend import als
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.checkpoints import Checkpoint
from sfumato.recommend.engine_rows import (
    Batches,
    check_sum,
    gathered,
    interactions_of,
    number_columns,
    sorted_batch,
)
from sfumato.recommend.implicit.als_training import ConfidenceRows, initial, padded, solve

__all__ = ["EngineAlternation", "PreferenceReading", "PreferenceRows", "PreferenceSummary"]

SAMPLE = 1 << 20  # rows from which a regularization is chosen
BY_USER = pa.schema([("user", pa.int64()), ("item", pa.int64()), ("weight", pa.float32())])
BY_ITEM = pa.schema([BY_USER.field(name) for name in ("item", "user", "weight")])


@dataclass(frozen=True)
class PreferenceReading:
    """How rows are read: their columns, the smallest relevant rating, and the items that count."""

    columns: Sequence[str]
    weighting: str
    relevant_from: float | None
    catalogue: Catalogue | None  # None: all items

    def used(self, data: Interactions) -> np.ndarray:
        """Return which rows are preferences for items of the catalogue."""
        used = np.ones(len(data), np.bool_)
        if self.catalogue is not None:
            used &= self.catalogue.positions(data.items) >= 0
        return used if self.relevant_from is None else used & (data.ratings >= self.relevant_from)

    def weights(self, data: Interactions) -> np.ndarray:
        """Return the weights of rows before they are scaled to a mean of 1."""
        if self.weighting == "equal":
            return np.ones(len(data))
        return np.asarray(np.log1p(np.maximum(data.ratings, 0)))


class PreferenceSummary(NamedTuple):
    """Distinct users with a preference, distinct items, the sum and number of weights, and a check.

    check: a sum of hashes of the rows, by which the same data are recognised in any order.
    """

    users: list[np.ndarray]
    items: list[np.ndarray]
    total: float
    used: int
    check: int

    @classmethod
    def of(cls, rows: Rows, reading: PreferenceReading) -> PreferenceSummary:
        """Summarise the rows of a source."""
        found: PreferenceSummary = rows.fold(_PreferenceSumming(reading), _both_summaries)
        return found

    @property
    def user_ids(self) -> np.ndarray:
        """The users, sorted."""
        return _distinct(self.users)

    @property
    def item_ids(self) -> np.ndarray:
        """The items, sorted."""
        return _distinct(self.items)

    @property
    def mean_weight(self) -> float:
        """What weights are divided by."""
        mean = self.total / max(self.used, 1)
        return mean if mean > 0 else 1.0


def _distinct(ids: list[np.ndarray]) -> np.ndarray:
    """Return the distinct ids, sorted; TypeError if some are integers and others text."""
    if len({kind_of(each) for each in ids}) > 1:
        raise TypeError("ALS: ids are integers in some rows and text in others; convert them.")
    return np.unique(np.concatenate(ids)) if ids else np.empty(0, np.int64)


def _both_summaries(left: PreferenceSummary, right: PreferenceSummary) -> PreferenceSummary:
    users, items = left.users + right.users, left.items + right.items
    check = (left.check + right.check) % 2**64
    total, used = left.total + right.total, left.used + right.used
    return PreferenceSummary(users, items, total, used, check)


@dataclass(frozen=True)
class _PreferenceSumming:
    """Fold of `PreferenceSummary`."""

    reading: PreferenceReading

    def __call__(self, batches: Batches) -> PreferenceSummary:
        users, items, total, used, check = [], [], 0.0, 0, 0
        for data in interactions_of(batches, self.reading.columns):
            items.append(data.coded().item_ids)
            check = (check + check_sum(data)) % 2**64
            data = data.filter(self.reading.used(data))
            if len(data):
                users.append(data.coded().user_ids)
                total, used = total + float(self.reading.weights(data).sum()), used + len(data)
        who, what = ([_distinct(ids)] if ids else [] for ids in (users, items))
        return PreferenceSummary(who, what, total, used, check)


class PreferenceRows:
    """Weights of users and items by position, once by user and once by item.

    Parameters
    ----------
    rows : Rows
        The source.
    reading : PreferenceReading
        How its rows are read.
    users, items : Catalogue
        What positions stand for.
    scale : float
        Factor from weights to confidences less 1.
    """

    def __init__(
        self,
        rows: Rows,
        reading: PreferenceReading,
        users: Catalogue,
        items: Catalogue,
        scale: float,
    ) -> None:
        coded = rows.map(_PreferenceCoding(reading, users, items, scale), BY_USER)
        merging = _PairMerging(reading.weighting == "equal")
        self.by_user: Rows = coded.shuffle("user").map(merging, BY_USER).persist()
        self.by_item: Rows = self.by_user.shuffle("item").map(_sorted_by_item, BY_ITEM).persist()
        self.shape: tuple[int, int] = len(users), len(items)

    def columns(self) -> ItemTotals:
        """Return how many rows and what total weight each item has."""
        found: ItemTotals = self.by_user.fold(_ColumnSums(self.shape[1]), _added)
        return found

    def noise_level(self, columns: ItemTotals) -> float:
        """Return `als_training.noise_level` of all rows."""
        totals = self.shape[0] + columns.weights
        folding = _NoiseSums(self.shape[1], totals)
        squares, sums, by_column = self.by_user.fold(folding, _added)
        by_column = by_column / totals
        return float((np.sqrt(squares) + np.sqrt(by_column @ by_column)) / np.sqrt(sums))

    def sample(self, rows: int) -> scipy.sparse.csr_matrix:
        """Return the weights of every k-th user, so that at most about SAMPLE rows remain."""
        every = -(-rows // SAMPLE)
        parts = self.by_user.fold(_EveryUser(every), lambda a, b: a + b)
        users, items, weights = (np.concatenate(each) for each in zip(*parts, strict=True))
        shape = -(-self.shape[0] // every), self.shape[1]
        matrix = scipy.sparse.csr_matrix((weights, (users, items)), shape)
        matrix.sort_indices()
        return matrix

    def unpersist(self) -> None:
        """Free all rows."""
        self.by_item.unpersist()
        self.by_user.unpersist()


class ItemTotals(NamedTuple):
    """Number of users and total weight of each item."""

    counts: np.ndarray
    weights: np.ndarray


def _added(left: Any, right: Any) -> Any:
    sums = [a + b for a, b in zip(left, right, strict=True)]
    return ItemTotals(*sums) if isinstance(left, ItemTotals) else tuple(sums)


@dataclass(frozen=True)
class _PreferenceCoding:
    """Map from ids to positions, and from ratings to weights."""

    reading: PreferenceReading
    users: Catalogue
    items: Catalogue
    scale: float

    def __call__(self, batches: Batches) -> Batches:
        for data in interactions_of(batches, self.reading.columns):
            data = data.filter(self.reading.used(data))
            weights = (self.reading.weights(data) * self.scale).astype(np.float32)
            pair = self.users.positions(data.users), self.items.positions(data.items)
            arrays = [pa.array(each) for each in (*pair, weights)]
            yield pa.RecordBatch.from_arrays(arrays, schema=BY_USER)


@dataclass(frozen=True)
class _PairMerging:
    """Map to rows ordered by user and item, each pair once: of equal weights one, else the sum."""

    equal: bool

    def __call__(self, batches: Batches) -> Batches:
        ordered = sorted_batch(gathered(batches, BY_USER), BY_USER)
        users, items, weights = map(np.array, number_columns(ordered, BY_USER.names))
        first = np.ones(users.size, np.bool_)
        first[1:] = (np.diff(users) != 0) | (np.diff(items) != 0)
        starts = np.flatnonzero(first)
        if not self.equal and starts.size:
            weights[starts] = np.add.reduceat(weights, starts)
        arrays = [pa.array(each[starts]) for each in (users, items, weights)]
        yield pa.RecordBatch.from_arrays(arrays, schema=BY_USER)


def _sorted_by_item(batches: Batches) -> Batches:
    yield sorted_batch(gathered(batches, BY_ITEM), BY_ITEM)


@dataclass(frozen=True)
class _ColumnSums:
    """Fold to `ItemTotals`."""

    items: int

    def __call__(self, batches: Batches) -> ItemTotals:
        _, items, weights = gathered(batches, BY_USER)
        counts = np.bincount(items, minlength=self.items)
        return ItemTotals(counts, np.bincount(items, weights, self.items))


@dataclass(frozen=True)
class _NoiseSums:
    """Fold to the parts of `noise_level`: squares and sums of rows, and the sums of columns."""

    items: int
    totals: np.ndarray

    def __call__(self, batches: Batches) -> tuple[float, float, np.ndarray]:
        users, items, weights = gathered(batches, BY_USER)
        own = np.unique(users, return_inverse=True)[1]
        squares = np.asarray((1 + weights) ** 2, np.float64)
        totals = self.items + np.bincount(own, weights)
        rows = np.bincount(own, squares / self.totals[items]) / totals
        columns = np.bincount(items, squares / totals[own], self.items)
        return float(rows @ rows), float(rows.sum()), columns


@dataclass(frozen=True)
class _EveryUser:
    """Fold to the rows of every k-th user."""

    every: int

    def __call__(self, batches: Batches) -> list[tuple[np.ndarray, ...]]:
        users, items, weights = gathered(batches, BY_USER)
        chosen = users % self.every == 0
        return [(users[chosen] // self.every, items[chosen], weights[chosen])]


@dataclass
class EngineAlternation:
    """Vectors of users and items that are solved in turn, as in `ImplicitAlternation`.

    The other side's vectors, and for conjugate gradient those to be improved, are in the closure of
    a half step; the vectors that partitions solve are gathered.
    """

    rows: PreferenceRows
    plain: dict[str, Any]
    random: np.random.Generator
    users: np.ndarray = field(init=False)
    items: np.ndarray = field(init=False)
    _losses: float = field(default=np.inf, init=False)

    def __post_init__(self) -> None:
        self.plain = self.plain | {"threads": 1}
        self.users = initial(self.rows.shape[0], self.plain["factors"], self.random)
        self.items = aligned((self.rows.shape[1], self.users.shape[1]), np.float32)

    def resume(self, checkpoint: Checkpoint) -> list[Any]:
        """Take over the vectors of a checkpoint, if it is there; return its history."""
        table = np.concatenate([self.users, self.items])
        _, history = checkpoint.load(table)
        self.users[:], self.items[:] = table[: len(self.users)], table[len(self.users) :]
        return history

    def epoch(self, ridge: float) -> None:
        """Solve all items, then all users, with this penalty per unit of confidence."""
        lengths, _ = self._solve(self.rows.by_item, BY_ITEM, ridge, self.users, self.items)
        own_lengths, losses = self._solve(self.rows.by_user, BY_USER, ridge, self.items, self.users)
        self._losses = losses + ridge * (lengths + own_lengths)

    def loss(self, ridge: float) -> float:
        """Return the loss over all pairs after the latest epoch, whose penalty this must be."""
        p, q = self.users, self.items
        return float(self._losses + np.vdot(np.float64(p.T @ p), np.float64(q.T @ q)))

    def _solve(
        self, rows: Rows, schema: pa.Schema, ridge: float, table: np.ndarray, out: np.ndarray
    ) -> tuple[float, float]:
        """Write the solutions of one side to `out`; return weighted squared lengths and losses."""
        with one_blas_thread:
            gram = table.T @ table
        own = None if self.plain["solver"] == "cholesky" else out
        solving = _Solving(self.plain, schema, ridge, table, gram, own)
        lengths = losses = 0.0
        for part in rows.fold(solving, lambda a, b: a + b):
            out[part.positions] = part.vectors
            lengths, losses = lengths + part.lengths, losses + part.losses
        return lengths, losses


class _Solved(NamedTuple):
    """Solutions of a partition, their squared lengths times confidences, and their losses."""

    positions: np.ndarray
    vectors: np.ndarray
    lengths: float
    losses: float


@dataclass(frozen=True)
class _Solving:
    """Fold to the solutions of the users, or items, of a partition."""

    plain: dict[str, Any]
    schema: pa.Schema
    ridge: float
    table: np.ndarray
    gram: np.ndarray
    own: np.ndarray | None

    def __call__(self, batches: Batches) -> list[_Solved]:
        ids, others, weights = gathered(batches, self.schema)
        if not ids.size:
            return []
        positions, starts = np.unique(ids, return_index=True)
        side = self._side(np.append(starts, ids.size), others, weights)
        table = _realigned(self.table)
        out = aligned((positions.size, table.shape[1]), np.float32)
        if self.own is not None:
            out[:] = self.own[positions]
        solve(self.plain, side, self.ridge * side.totals, table, out, self.gram)
        losses = np.empty(positions.size)
        als.losses(*side[:3], out.reshape(-1), table.reshape(-1), losses)
        lengths = side.totals @ np.einsum("ij,ij->i", out, out, dtype=np.float64)
        return [_Solved(positions, np.array(out), float(lengths), float(losses.sum()))]

    def _side(self, starts: np.ndarray, others: np.ndarray, weights: np.ndarray) -> ConfidenceRows:
        totals = len(self.table) + np.add.reduceat(weights, starts[:-1], dtype=np.float64)
        return ConfidenceRows(starts, others.astype(np.int32), weights, totals)


def _realigned(table: np.ndarray) -> np.ndarray:
    """Return the table at a cache line, where kernels read it; a copied one may lie anywhere."""
    return table if table.ctypes.data % 64 == 0 else padded(table)
