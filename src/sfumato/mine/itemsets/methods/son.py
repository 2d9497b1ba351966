"""SON: mine each chunk in memory, then count the union of what is frequent in some chunk.

Both passes are a map over chunks and a reduction (`local_candidates` and `merged`, `local_counts`
and a sum), functions of arrays alone, which any engine can carry to where the chunks are.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from sfumato.core.validation import integer, optional
from sfumato.mine.itemsets.methods.candidates import Supports, candidate_bytes, union
from sfumato.mine.itemsets.methods.chunks import basket_bytes, gathered, mined
from sfumato.mine.itemsets.methods.passes import ItemsetLevels, Passes, level_of
from sfumato.mine.itemsets.sources.baskets import BasketChunk, Baskets

__all__ = ["local_candidates", "local_counts", "local_threshold", "merged", "son"]

LEAST_COUNT = 8  # local threshold of chunks: at 1, all subsets of all their baskets are candidates
COPIES = 24  # of a chunk, at most: the last one is of double size, gathered, coded, and in Eclat
CHUNK_BASKETS = optional(integer(1))
Candidates = list[np.ndarray]  # codes of itemsets of 2, 3, ... items, in lexicographic order


def son(
    baskets: Baskets,
    min_count: int,
    *,
    max_size: int | None,
    memory_limit: int | None,
    explain: list[dict[str, Any]] | None,
    chunk_baskets: int | None = None,
    mapper: Callable[..., Iterable[Any]] = map,
) -> ItemsetLevels:
    """Mine by SON, in chunks that fit into memory; `mapper` may be the map of an engine."""
    passes = Passes("son", baskets, memory_limit, explain)
    n, items = passes.frequent_items(min_count)
    levels = ItemsetLevels([items])
    if n < 2 or max_size == 1:
        return levels
    candidates = _first_pass(passes, n, min_count, max_size, chunk_baskets, mapper)
    with passes.record("count candidates of all chunks") as facts:
        counts = [np.zeros(each.shape[0], np.int64) for each in candidates]
        for found in mapper(lambda chunk: local_counts(chunk, candidates, n), passes.read(n)):
            counts = [mine + theirs for mine, theirs in zip(counts, found, strict=True)]
        pairs = zip(candidates, counts, strict=True)
        levels.extend(level_of(codes, count, min_count) for codes, count in pairs)
        facts.update(candidates=sum(each.shape[0] for each in candidates))
        facts.update(frequent=sum(count.size for _, count in levels[1:]))
        facts.update(memory=candidate_bytes(candidates))
    return levels


def _first_pass(
    passes: Passes,
    n: int,
    min_count: int,
    max_size: int | None,
    chunk_baskets: int | None,
    mapper: Callable[..., Iterable[Any]],
) -> Candidates:
    size, candidates, chunks = passes.size, Candidates(), 0
    each = _chunk_baskets(passes, n, min_count, chunk_baskets)
    with passes.record("mine chunks") as facts:
        for found in mapper(
            lambda chunk: local_candidates(chunk, min_count, size, max_size, passes.tables),
            gathered(passes.read(n), each),
        ):
            candidates, chunks = merged(candidates, found), chunks + 1
            passes.reserve("candidates of all chunks", candidate_bytes(candidates))
        facts.update(
            chunks=chunks, chunk_baskets=each, threshold=local_threshold(min_count, each, size)
        )
        facts.update(candidates=sum(rows.shape[0] for rows in candidates))
        memory = int(COPIES / 2 * min(2 * each, size) * basket_bytes(passes.baskets, n))
        facts.update(memory=memory + candidate_bytes(candidates))
    return candidates


def _chunk_baskets(passes: Passes, n: int, min_count: int, wanted: int | None) -> int:
    """Baskets of a chunk: as the memory allows, and enough for a local threshold above 1."""
    wanted = CHUNK_BASKETS.check("frequent_itemsets", "chunk_baskets", wanted)
    if wanted is not None:
        return wanted
    baskets, each = passes.baskets, basket_bytes(passes.baskets, n)
    least = min(baskets.size, -(-LEAST_COUNT * baskets.size // min_count))
    passes.reserve(
        f"chunks of {least} baskets, fewer of which would make most itemsets candidates,",
        int(COPIES * least * each),
    )
    fitting = int(passes.budget / (COPIES * each))
    return max(least, min(baskets.size, fitting))


def local_threshold(min_count: int, chunk_size: int, size: int) -> int:
    """Smallest count in a chunk that is not below its share of min_count.

    An itemset that is below it in every chunk is below min_count in all.
    """
    return max(1, -(-min_count * min(chunk_size, size) // max(size, 1)))


def local_candidates(
    chunk: BasketChunk,
    min_count: int,
    size: int,
    max_size: int | None,
    memory: int | None = None,
) -> Candidates:
    """Itemsets of two items or more that are frequent in a chunk of `size` baskets."""
    threshold = local_threshold(min_count, chunk.offsets.size - 1, size)
    return [codes for codes, _ in mined(chunk, threshold, max_size, memory)[1:]]


def merged(left: Candidates, right: Candidates) -> Candidates:
    """The union of candidates, size by size."""
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    both = zip(longer, shorter, strict=False)
    return [union([mine, theirs]) for mine, theirs in both] + longer[len(shorter) :]


def local_counts(chunk: BasketChunk, candidates: Candidates, n: int) -> list[np.ndarray]:
    """Counts of candidates in a chunk with items below code n."""
    supports = Supports(candidates, n)
    supports.add(chunk)
    return supports.counts
