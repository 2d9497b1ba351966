"""PCY, multistage and multihash: hashed pairs prune candidate pairs before they are counted."""

from typing import Any, NamedTuple

import numpy as np

from sfumato.core.validation import Limit, integer, optional
from sfumato.kernels.mine.itemsets import pair_counts as kernels
from sfumato.mine.itemsets.methods.apriori import count_pairs
from sfumato.mine.itemsets.methods.candidates import add_larger
from sfumato.mine.itemsets.methods.pair_counters import Bitmaps, Triples, shortened
from sfumato.mine.itemsets.methods.passes import LONGEST, OWNER, ItemsetLevels, Passes
from sfumato.mine.itemsets.sources.baskets import BasketChunk, Baskets

__all__ = ["BucketCounts", "multihash", "multistage", "pcy"]

BUCKETS, MOST_BUCKETS = 1 << 20, 1 << 26  # by default
ROWS = 2048  # of the triangle of pairs that are tried on the bitmaps for a report
LIMITS: dict[str, Limit] = {
    "buckets": optional(integer(1, 2**32 - 1)),
    "stages": integer(2, 16),
    "tables": integer(2, 16),
    "seed": integer(0, 2**63 - 1),
}


def pcy(
    baskets: Baskets,
    min_count: int,
    *,
    max_size: int | None,
    memory_limit: int | None,
    explain: list[dict[str, Any]] | None,
    buckets: int | None = None,
    longest: int = LONGEST,
    seed: int = 0,
) -> ItemsetLevels:
    """Mine by PCY: count only pairs in buckets that are frequent."""
    passes = Passes("pcy", baskets, memory_limit, explain, longest)
    return _mine(passes, min_count, max_size, _Hashing(buckets, 1, 1, seed))


def multistage(
    baskets: Baskets,
    min_count: int,
    *,
    max_size: int | None,
    memory_limit: int | None,
    explain: list[dict[str, Any]] | None,
    buckets: int | None = None,
    stages: int = 2,
    longest: int = LONGEST,
    seed: int = 0,
) -> ItemsetLevels:
    """Mine by multistage: each further pass hashes the surviving pairs anew."""
    passes = Passes("multistage", baskets, memory_limit, explain, longest)
    stages = LIMITS["stages"].check(OWNER, "stages", stages)
    return _mine(passes, min_count, max_size, _Hashing(buckets, stages, 1, seed))


def multihash(
    baskets: Baskets,
    min_count: int,
    *,
    max_size: int | None,
    memory_limit: int | None,
    explain: list[dict[str, Any]] | None,
    buckets: int | None = None,
    tables: int = 2,
    longest: int = LONGEST,
    seed: int = 0,
) -> ItemsetLevels:
    """Mine by multihash: several smaller tables of buckets are filled in one pass."""
    passes = Passes("multihash", baskets, memory_limit, explain, longest)
    tables = LIMITS["tables"].check(OWNER, "tables", tables)
    return _mine(passes, min_count, max_size, _Hashing(buckets, 1, tables, seed))


class _Hashing(NamedTuple):
    """Buckets in all, passes that hash, tables that share the buckets in each, the seed."""

    buckets: int | None
    stages: int
    tables: int
    seed: int


def _mine(passes: Passes, min_count: int, max_size: int | None, plan: _Hashing) -> ItemsetLevels:
    n, items = passes.frequent_items(min_count)
    levels = ItemsetLevels([items])
    if n < 2 or max_size == 1:
        return levels
    filters = _hashed(passes, n, min_count, plan)
    count_pairs(passes, levels, Triples(passes, filters), min_count)
    return add_larger(passes, levels, min_count, max_size)


def _hashed(passes: Passes, n: int, min_count: int, plan: _Hashing) -> Bitmaps:
    """One pass per stage; the bitmaps of all."""
    buckets = _bucket_count(passes, n, min_count, plan)
    rng = np.random.default_rng(LIMITS["seed"].check(OWNER, "seed", plan.seed))
    filters, total = Bitmaps.none(n), n * (n - 1) // 2
    for stage in range(plan.stages):
        # The bitmaps of earlier stages take 1/32 of the memory each.
        width = max(1, (buckets - buckets * stage // 32) // plan.tables)
        with passes.record(f"hash pairs{'' if stage == 0 else ' again'}") as facts:
            tables = [BucketCounts(width, min_count, rng, filters) for _ in range(plan.tables)]
            for chunk in passes.read(n):
                chunk, _ = shortened(chunk, passes.longest)
                for table in tables:
                    table.add(chunk)
            filters = _joined(filters, tables)
            facts.update(buckets=width * plan.tables, buckets_above=sum(t.above for t in tables))
            facts.update(bitmap_bytes=filters.bitmap.nbytes, memory=sum(t.nbytes for t in tables))
            if passes.explain is not None:
                share = _surviving_share(filters)
                facts.update(candidates=round(share * total), eliminated=1 - share)
    return filters


def _bucket_count(passes: Passes, n: int, min_count: int, plan: _Hashing) -> int:
    """Buckets as given, else enough for an average count of min_count / 4, if they fit."""
    wanted = LIMITS["buckets"].check(OWNER, "buckets", plan.buckets)
    size = np.dtype(_counter_type(min_count)).itemsize
    if wanted is not None:
        passes.reserve("buckets", wanted * size)
        return int(wanted)
    baskets = passes.baskets
    length = min(baskets.item_counts[:n].sum() / baskets.size, passes.longest)
    pairs = baskets.size * length * length / 2
    enough = max(BUCKETS, min(MOST_BUCKETS, int(4 * pairs / min_count)))
    return int(max(1, min(enough, passes.budget // 2 // size)))


class BucketCounts:
    """Counts of pairs by bucket, which stop at `min_count`; then the bitmap of those that reach it.

    Parameters
    ----------
    width : int
        Number of buckets.
    min_count : int
        Count at which a bucket is frequent.
    rng : numpy.random.Generator
        Draws the hash function.
    filters : Bitmaps
        Only pairs that survive them are counted.
    """

    def __init__(
        self, width: int, min_count: int, rng: np.random.Generator, filters: Bitmaps
    ) -> None:
        kind = _counter_type(min_count)
        self.width, self._cap, self._filters = np.uint64(width), kind(min_count), filters
        self.hashes: Any = rng.integers(0, 2**32, filters.hashes.shape[1], np.uint32)
        self._counts = np.zeros(width, kind)

    def add(self, chunk: BasketChunk) -> None:
        """Count the pairs of a chunk."""
        own = self.width, self._cap, self._counts
        if not self._filters.widths.size:
            kernels.hash_pairs(chunk.offsets, self.hashes[chunk.items], *own)
            return
        _, *bitmaps = self._filters
        hashes = np.vstack([self._filters.hashes, self.hashes])[:, chunk.items]
        kernels.hash_surviving(chunk.offsets, hashes, *bitmaps, *own)

    @property
    def frequent(self) -> np.ndarray:
        """Whether each bucket is frequent."""
        return np.asarray(self._counts >= self._cap)

    @property
    def above(self) -> int:
        """Number of frequent buckets."""
        return int(np.count_nonzero(self.frequent))

    @property
    def nbytes(self) -> int:
        return self._counts.nbytes


def _counter_type(min_count: int) -> Any:
    """The smallest type that can count to min_count: small tables stay in cache."""
    return next(
        t for t in (np.uint8, np.uint16, np.uint32, np.uint64) if min_count <= np.iinfo(t).max
    )


def _joined(filters: Bitmaps, tables: list[BucketCounts]) -> Bitmaps:
    """Earlier bitmaps and those of new tables; each begins at a byte of its own."""
    bitmaps = [np.packbits(table.frequent, bitorder="little") for table in tables]
    ends = filters.bitmap.nbytes + np.cumsum([0, *(each.nbytes for each in bitmaps)])
    return Bitmaps(
        np.vstack([filters.hashes, *(table.hashes for table in tables)]),
        np.concatenate([filters.widths, [table.width for table in tables]]),
        np.concatenate([filters.starts, np.uint64(8) * ends[:-1].astype(np.uint64)]),
        np.concatenate([filters.bitmap, *bitmaps]),
    )


def _surviving_share(filters: Bitmaps) -> float:
    """Fraction of the pairs of items that survive: of all pairs, or those of about 2048 items."""
    step = max(1, filters.hashes.shape[1] // ROWS)
    survivors, pairs = kernels.surviving_share(step, *filters)
    return float(survivors / max(pairs, 1))
