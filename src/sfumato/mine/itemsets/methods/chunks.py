"""Chunks of coded baskets: gathered to a size, sampled, and mined in memory."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from sfumato.mine.itemsets.methods.eclat import eclat
from sfumato.mine.itemsets.methods.passes import Level
from sfumato.mine.itemsets.sources.baskets import BasketChunk, Baskets

__all__ = ["basket_bytes", "concatenated", "gathered", "mined", "sampled"]


def basket_bytes(baskets: Baskets, n: int) -> float:
    """Average bytes of a basket in a chunk that has the items below code n."""
    return 8 + 4 * float(baskets.item_counts[:n].sum()) / max(baskets.size, 1)


def concatenated(chunks: Sequence[BasketChunk]) -> BasketChunk:
    """All baskets of some chunks, in order."""
    if len(chunks) == 1:
        return chunks[0]
    sizes = [np.diff(chunk.offsets) for chunk in chunks]
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([np.empty(0, np.int64), *sizes]))])
    items = np.concatenate([np.empty(0, np.int32), *(chunk.items for chunk in chunks)])
    return BasketChunk(offsets, items)


def gathered(chunks: Iterable[BasketChunk], size: int) -> Iterator[BasketChunk]:
    """The same baskets in chunks of `size`, the last of up to twice as many: none is small."""
    waiting: list[BasketChunk] = []
    for chunk in chunks:
        waiting.append(chunk)
        if sum(each.offsets.size - 1 for each in waiting) >= 2 * size:
            whole = concatenated(waiting)
            last = (whole.offsets.size - 1) // size * size - size
            for first in range(0, last, size):
                yield _slice(whole, first, first + size)
            waiting = [_slice(whole, last, whole.offsets.size - 1)]
    if waiting:
        yield concatenated(waiting)


def _slice(chunk: BasketChunk, first: int, last: int) -> BasketChunk:
    start, stop = chunk.offsets[first], chunk.offsets[last]
    return BasketChunk(chunk.offsets[first : last + 1] - start, chunk.items[start:stop])


def sampled(
    chunks: Iterable[BasketChunk], fraction: float, rng: np.random.Generator
) -> BasketChunk:
    """Baskets taken independently, each with probability `fraction`."""
    return concatenated([_picked(chunk, fraction, rng) for chunk in chunks])


def _picked(chunk: BasketChunk, fraction: float, rng: np.random.Generator) -> BasketChunk:
    sizes = np.diff(chunk.offsets)
    taken = rng.random(sizes.size) < fraction
    offsets = np.concatenate([[0], np.cumsum(sizes[taken])])
    return BasketChunk(offsets, chunk.items[np.repeat(taken, sizes)])


def mined(
    chunk: BasketChunk, min_count: int, max_size: int | None, memory: int | None = None
) -> list[Level]:
    """Frequent itemsets of a chunk by Eclat, in the codes of the chunk, in lexicographic order."""
    local = Baskets((chunk.offsets, chunk.items))
    ids = local.items.astype(np.int32)
    levels = eclat(local, min_count, max_size=max_size, memory_limit=memory, explain=None)
    return [_ordered(np.sort(ids[codes], axis=1), counts) for codes, counts in levels]


def _ordered(codes: np.ndarray, counts: np.ndarray) -> Level:
    order = np.lexsort(codes.T[::-1])
    return np.ascontiguousarray(codes[order]), counts[order]
