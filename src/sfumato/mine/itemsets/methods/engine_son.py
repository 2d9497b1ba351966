"""SON on an engine: three passes over baskets in partitions, none of which leaves its place.

The first counts the items, the second mines each partition in chunks, and the third counts the
candidates. What travels are counts and candidates, and of a partition too small to be mined its
baskets.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from sfumato.core.ids import positions
from sfumato.kernels.mine.itemsets import basket_rows as kernels
from sfumato.mine.itemsets.methods.candidates import Supports
from sfumato.mine.itemsets.methods.chunks import concatenated, gathered
from sfumato.mine.itemsets.methods.passes import OWNER, ItemsetLevels, level_of
from sfumato.mine.itemsets.methods.son import (
    CHUNK_BASKETS,
    LEAST_COUNT,
    Candidates,
    local_candidates,
    merged,
)
from sfumato.mine.itemsets.sources.baskets import BasketChunk
from sfumato.mine.itemsets.sources.columns import of_arrow
from sfumato.mine.itemsets.sources.vocabulary import codes_for, rising

if TYPE_CHECKING:
    from sfumato.engine import Engine

__all__ = ["ItemCounts", "count_items", "engine_son"]

CHUNK_BYTES = 32 << 20  # of a chunk that is mined in memory, where Eclat takes several times that
Explain = list[dict[str, Any]] | None


@dataclass(frozen=True)
class ItemCounts:
    """Number of baskets, and of those with each item: by decreasing count, ties by id."""

    items: np.ndarray
    counts: np.ndarray
    size: int

    def frequent(self, min_count: int) -> int:
        """Number of items in at least so many baskets; they are the first ones."""
        return int(np.searchsorted(-self.counts, -min_count, side="right"))

    def ranked(self) -> "ItemCounts":
        """The same with items in the order of their codes."""
        order = rising(self.items)
        order = order[np.argsort(-self.counts[order], kind="stable")]
        return ItemCounts(self.items[order], self.counts[order], self.size)


def count_items(engine: "Engine", source: Any, column: str) -> ItemCounts:
    """Count the items of all baskets, in one pass."""
    return engine.fold(source, partial(_item_counts, column), _added, columns=[column]).ranked()


def engine_son(
    engine: "Engine",
    source: Any,
    column: str,
    items: ItemCounts,
    min_count: int,
    *,
    max_size: int | None,
    explain: Explain,
    chunk_baskets: int | None = None,
) -> ItemsetLevels:
    """Mine the baskets of an engine, in two passes after that of `count_items`."""
    n = items.frequent(min_count)
    levels = ItemsetLevels([(np.arange(n, dtype=np.int32)[:, None], items.counts[:n])])
    if n < 2 or max_size == 1:
        return levels
    reader = _Reader(column, items.items[:n])
    plan = _Plan.of(items, n, min_count, max_size, chunk_baskets)
    start = time.perf_counter()
    mined = engine.fold(source, partial(_mined, reader, plan), _Mined.merge, columns=[column])
    candidates = mined.finish()
    _record(explain, 2, "mine partitions", candidates, None, start)
    start = time.perf_counter()
    size, counts = engine.fold(
        source, partial(_supports, reader, candidates), _summed, columns=[column]
    )
    if size != items.size:
        raise ValueError(f"{OWNER}: the source has changed since the items were counted.")
    pairs = zip(candidates, counts, strict=True)
    levels.extend(level_of(codes, count, min_count) for codes, count in pairs)
    _record(explain, 3, "count candidates of all partitions", candidates, levels, start)
    return levels


def _record(
    explain: Explain,
    number: int,
    step: str,
    candidates: Candidates,
    levels: ItemsetLevels | None,
    start: float,
) -> None:
    if explain is None:
        return
    facts: dict[str, Any] = {"candidates": sum(each.shape[0] for each in candidates)}
    if levels is not None:
        facts["frequent"] = sum(count.size for _, count in levels[1:])
    seconds = round(time.perf_counter() - start, 6)
    explain.append({"pass": number, "step": step, **facts, "seconds": seconds})


def _item_counts(column: str, batches: Iterator[pa.RecordBatch]) -> ItemCounts:
    """The counts of a partition, items in any order."""
    vocabulary, counts, size = None, np.zeros(0, np.int64), 0
    for batch in batches:
        rows = of_arrow(batch.column(column), OWNER)
        size += rows.offsets.size - 1
        if not len(rows.ids):
            continue
        vocabulary = codes_for(rows.ids) if vocabulary is None else vocabulary
        codes = vocabulary.encode(rows.ids)
        counts = np.concatenate([counts, np.zeros(vocabulary.known - counts.size, np.int64)])
        kernels.tally(rows.offsets, codes, np.full(counts.size, -1, np.int32), counts)
    ids = np.empty(0, np.int64) if vocabulary is None else np.array(vocabulary.ids)
    return ItemCounts(ids, counts, size)


def _added(left: ItemCounts, right: ItemCounts) -> ItemCounts:
    """The counts of two partitions; the type of items of one without any does not matter."""
    size = left.size + right.size
    if not left.items.size or not right.items.size:
        more = left if left.items.size else right
        return ItemCounts(more.items, more.counts, size)
    at = positions(right.items, left.items)
    counts = left.counts.copy()
    counts[at[at >= 0]] += right.counts[at >= 0]
    return ItemCounts(
        np.concatenate([left.items, right.items[at < 0]]),
        np.concatenate([counts, right.counts[at < 0]]),
        size,
    )


@dataclass(frozen=True)
class _Reader:
    """Batches of a column of lists as chunks of frequent items, coded by position in `items`."""

    column: str
    items: np.ndarray

    def chunks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[BasketChunk]:
        n = self.items.size
        ranks = np.arange(n + 1, dtype=np.int32)
        for batch in batches:
            rows = of_arrow(batch.column(self.column), OWNER)
            at = positions(_plain(rows.ids), self.items)
            codes = np.where(at < 0, n, at).astype(np.int32)
            offsets, items = np.empty(rows.offsets.size, np.int64), np.empty(at.size, np.int32)
            end = kernels.arrange(rows.offsets, codes, ranks, n, offsets, items)
            yield BasketChunk(offsets, items[:end].copy())


def _plain(ids: Any) -> np.ndarray:
    if isinstance(ids, np.ndarray):
        return ids
    return np.array(ids.to_numpy(zero_copy_only=False), object)


@dataclass(frozen=True)
class _Plan:
    """What a chunk is mined for; fewer baskets than `least` would make most itemsets candidates."""

    min_count: int
    size: int
    max_size: int | None
    least: int
    chunk: int

    @classmethod
    def of(
        cls, items: ItemCounts, n: int, min_count: int, max_size: int | None, wanted: int | None
    ) -> Self:
        wanted = CHUNK_BASKETS.check(OWNER, "chunk_baskets", wanted)
        if wanted is not None:
            return cls(min_count, items.size, max_size, wanted, wanted)
        least = min(items.size, -(-LEAST_COUNT * items.size // min_count))
        fitting = int(CHUNK_BYTES / (8 + 4 * items.counts[:n].sum() / items.size))
        return cls(min_count, items.size, max_size, least, max(least, fitting))

    def candidates(self, chunk: BasketChunk) -> Candidates:
        return local_candidates(chunk, self.min_count, self.size, self.max_size)


@dataclass
class _Mined:
    """Candidates of a partition, and baskets that wait to be mined with those of another.

    `plan.least` baskets always wait if there are as many, so that the last chunk of all, which
    `finish` mines, is not smaller either.
    """

    plan: _Plan
    candidates: Candidates = field(default_factory=list)
    waiting: list[BasketChunk] = field(default_factory=list)
    baskets: int = 0

    def add(self, chunk: BasketChunk) -> None:
        self.waiting.append(chunk)
        self.baskets += chunk.offsets.size - 1
        if self.baskets >= self.plan.chunk + self.plan.least:
            self.mine()

    def mine(self) -> None:
        """Mine what waits, except the last baskets."""
        offsets, items = concatenated(self.waiting)
        cut = self.baskets - self.plan.least
        end = offsets[cut]
        for chunk in gathered([BasketChunk(offsets[: cut + 1], items[:end])], self.plan.chunk):
            self.candidates = merged(self.candidates, self.plan.candidates(chunk))
        self.waiting = [BasketChunk(offsets[cut:] - end, items[end:].copy())]
        self.baskets = self.plan.least

    def merge(self, other: "_Mined") -> "_Mined":
        self.candidates = merged(self.candidates, other.candidates)
        self.waiting, self.baskets = self.waiting + other.waiting, self.baskets + other.baskets
        if self.baskets >= 2 * self.plan.least:
            self.mine()
        return self

    def finish(self) -> Candidates:
        """Mine all that waits; the candidates of each size, none of them empty."""
        if self.baskets:
            last = self.plan.candidates(concatenated(self.waiting))
            self.candidates = merged(self.candidates, last)
        return [each for each in self.candidates if each.size]


def _mined(reader: _Reader, plan: _Plan, batches: Iterator[pa.RecordBatch]) -> _Mined:
    """Candidates of a partition."""
    found = _Mined(plan)
    for chunk in reader.chunks(batches):
        found.add(chunk)
    if found.baskets >= 2 * plan.least:
        found.mine()
    return found


Counted = tuple[int, list[np.ndarray]]


def _supports(
    reader: _Reader, candidates: Candidates, batches: Iterator[pa.RecordBatch]
) -> Counted:
    """Number of baskets of a partition, and counts of the candidates in them."""
    supports, size = Supports(candidates, reader.items.size), 0
    for chunk in reader.chunks(batches):
        supports.add(chunk)
        size += chunk.offsets.size - 1
    return size, supports.counts


def _summed(left: Counted, right: Counted) -> Counted:
    both = zip(left[1], right[1], strict=True)
    return left[0] + right[0], [mine + theirs for mine, theirs in both]
