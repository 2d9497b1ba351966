"""Strata of ratings on an engine: groups of users that share no item and can learn at once."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from sfumato.core.ids import kind_of
from sfumato.data.interactions import Interactions
from sfumato.engine import Rows
from sfumato.recommend.engine_rows import (
    HALF,
    ODD,
    Batches,
    check_sum,
    gathered,
    interactions_of,
    sorted_batch,
)
from sfumato.recommend.factorization.damping import ROWS, BiasPrior

__all__ = ["RatingStrata", "RatingSummary", "by_group", "joined"]

SCHEMA = pa.schema(
    [
        ("group", pa.int32()),
        ("stratum", pa.int32()),
        ("user", pa.int64()),
        ("item", pa.int64()),
        ("rating", pa.float64()),
    ]
)
GROUPED = pa.schema([SCHEMA.field(name) for name in ("group", "user", "item", "rating")])
RATED = pa.schema([SCHEMA.field(name) for name in ("user", "item", "rating")])
USERS = pa.schema([SCHEMA.field(name) for name in ("group", "user")])


def joined(left: Any, right: Any) -> Any:
    """Add two changes of a table, either of which may be None."""
    if left is None or right is None:
        return right if left is None else left
    with np.errstate(all="ignore"):  # what diverges is reported by who adds the sum
        left += right
    return left


@dataclass(frozen=True)
class RatingSummary:
    """What training must know of all ratings before it begins.

    `check` is a sum of hashes of the rows, by which the same data are recognised in any order.
    """

    rows: int = 0
    total: float = 0.0
    low: float = np.inf
    high: float = -np.inf
    check: int = 0
    items: frozenset[Any] = frozenset()
    kinds: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(cls, rows: Rows, columns: tuple[str, str, str]) -> Self:
        """Summarise the rows of a source."""
        found: Self = rows.fold(_RatingSumming(cls, columns), cls.merged)
        return found

    @classmethod
    def one(cls, data: Interactions) -> Self:
        """Summarise some ratings."""
        ratings = data.ratings
        return cls(
            len(data),
            float(ratings.sum()),
            float(ratings.min()),
            float(ratings.max()),
            check_sum(data),
            frozenset(data.coded().item_ids.tolist()),
            frozenset([(kind_of(data.users), kind_of(data.items))]),
        )

    def merged(self, other: Self) -> Self:
        """Return the summary of both."""
        return type(self)(
            self.rows + other.rows,
            self.total + other.total,
            min(self.low, other.low),
            max(self.high, other.high),
            (self.check + other.check) % 2**64,
            self.items | other.items,
            self.kinds | other.kinds,
        )


@dataclass(frozen=True)
class _RatingSumming:
    """Fold of `RatingSummary`."""

    kind: Any
    columns: tuple[str, str, str]

    def __call__(self, batches: Batches) -> Any:
        found = self.kind()
        for data in interactions_of(batches, self.columns):
            found = found.merged(self.kind.one(data))
        return found


class RatingStrata:
    """Ratings in `groups` groups of users and as many strata.

    Users and items are numbered modulo `groups` by their hashes. A stratum has, of each group of
    users, the ratings of one group of items, and of no two groups of users the same; so the groups
    of a stratum share neither users nor items (Gemulla et al. 2011).

    Parameters
    ----------
    rows : Rows
        The source.
    columns : tuple of str
        Names of the columns of users, items and ratings.
    seed : int
        Seed of the hashes of users and items.
    groups : int
        Number of groups and of strata.
    """

    def __init__(self, rows: Rows, columns: tuple[str, str, str], seed: int, groups: int) -> None:
        hashed = rows.map(_StratumHashing(columns, seed, groups), SCHEMA)
        every = hashed.shuffle("group").persist()
        self.strata: list[Rows] = [
            every.map(_StratumSelection(at), GROUPED).persist() for at in range(groups)
        ]
        self.users: Rows = every.map(_distinct_users, USERS).persist()
        self._source = [every]

    def count_users(self) -> int:
        """Return the number of distinct users."""
        return int(self.users.fold(_count_rows, lambda a, b: a + b))

    def bias_prior(self, summary: RatingSummary, scale: float) -> BiasPrior:
        """Estimate the damping of biases from all ratings of a sample of users."""
        limit = min(1.0, ROWS / summary.rows)
        users, items, ratings = self._source[0].fold(_UserSampling(limit), _concatenated)
        order = np.lexsort((ratings, items, users))
        targets = (ratings[order] - summary.total / summary.rows) / scale
        who, what = (np.unique(ids[order], return_inverse=True)[1] for ids in (users, items))
        return BiasPrior.of_codes(who, what, targets.astype(np.float32))

    def unpersist_source(self) -> None:
        """Free the rows that strata were taken from, when every stratum has been used."""
        while self._source:
            self._source.pop().unpersist()

    def unpersist(self) -> None:
        """Free all rows."""
        self.unpersist_source()
        for rows in (self.users, *self.strata):
            rows.unpersist()


@dataclass(frozen=True)
class _StratumHashing:
    """Map from ratings to hashes with their group and stratum."""

    columns: tuple[str, str, str]
    seed: int
    groups: int

    def __call__(self, batches: Batches) -> Batches:
        for data in interactions_of(batches, self.columns):
            users, items = data.hashed(self.seed)
            groups, blocks = self._numbers(users), self._numbers(items)
            columns = [
                groups.astype(np.int32),
                ((blocks - groups) % self.groups).astype(np.int32),
                users.view(np.int64),
                items.view(np.int64),
                data.ratings,
            ]
            arrays = [pa.array(np.ascontiguousarray(column)) for column in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

    def _numbers(self, hashes: np.ndarray) -> np.ndarray:
        """Return the number of each hash modulo the groups, by bits that no table uses alone."""
        return ((hashes * ODD >> HALF) % np.uint64(self.groups)).astype(np.int64)


@dataclass(frozen=True)
class _StratumSelection:
    """Map to the rows of one stratum, ordered by group, user, item and rating."""

    stratum: int

    def __call__(self, batches: Batches) -> Batches:
        chosen = (batch.filter(self._mask(batch)) for batch in batches)
        yield sorted_batch(gathered(chosen, GROUPED), GROUPED)

    def _mask(self, batch: pa.RecordBatch) -> pa.Array:
        return pa.array(batch["stratum"].to_numpy(zero_copy_only=False) == self.stratum)


def _distinct_users(batches: Batches) -> Batches:
    """Each user of a partition once, with the group."""
    groups, users = gathered(batches, USERS)
    users, first = np.unique(users, return_index=True)
    yield pa.RecordBatch.from_arrays([pa.array(groups[first]), pa.array(users)], schema=USERS)


def _count_rows(batches: Batches) -> int:
    return sum(batch.num_rows for batch in batches)


@dataclass(frozen=True)
class _UserSampling:
    """Fold to all ratings of about a fraction of the users, chosen by their hashes."""

    fraction: float

    def __call__(self, batches: Batches) -> tuple[np.ndarray, ...]:
        users, items, ratings = gathered(batches, RATED)
        limit = np.uint64(round(self.fraction * 2.0**32))
        chosen = (users.view(np.uint64) * ODD * ODD >> HALF) < limit
        return users[chosen], items[chosen], ratings[chosen]


def _concatenated(
    left: tuple[np.ndarray, ...], right: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, ...]:
    return tuple(np.concatenate(pair) for pair in zip(left, right, strict=True))


def by_group(batches: Batches, names: list[str]) -> Iterator[tuple[int, list[np.ndarray]]]:
    """Yield each group of a partition with these columns, hashes as unsigned integers."""
    chosen = pa.schema([SCHEMA.field(name) for name in ["group", *names]])
    groups, *columns = gathered(batches, chosen)
    columns = [each.view(np.uint64) if each.dtype == np.int64 else each for each in columns]
    for group in np.unique(groups):
        own = np.flatnonzero(groups == group)
        yield int(group), [column[own] for column in columns]
