"""Apriori: one pass per size of itemsets, whose candidates have only frequent subsets."""

from typing import Any

from sfumato.mine.itemsets.methods.candidates import Supports, add_larger
from sfumato.mine.itemsets.methods.pair_counters import PairCounter, pair_counter, shortened
from sfumato.mine.itemsets.methods.passes import LONGEST, ItemsetLevels, Passes
from sfumato.mine.itemsets.sources.baskets import Baskets

__all__ = ["apriori", "count_pairs"]


def apriori(
    baskets: Baskets,
    min_count: int,
    *,
    max_size: int | None,
    memory_limit: int | None,
    explain: list[dict[str, Any]] | None,
    longest: int = LONGEST,
) -> ItemsetLevels:
    """Mine by Apriori; pairs in a triangular matrix or as triples, by what takes less memory."""
    passes = Passes("apriori", baskets, memory_limit, explain, longest)
    n, items = passes.frequent_items(min_count)
    levels = ItemsetLevels([items])
    if n < 2 or max_size == 1:
        return levels
    count_pairs(passes, levels, pair_counter(passes, n), min_count)
    return add_larger(passes, levels, min_count, max_size)


def count_pairs(
    passes: Passes,
    levels: ItemsetLevels,
    counter: PairCounter,
    min_count: int,
    larger: Supports | None = None,
) -> None:
    """Append the frequent pairs: one pass over the pairs of frequent items.

    The same pass can count larger candidates.
    """
    n, long = levels[0][1].size, 0
    with passes.record("count pairs") as facts:
        for chunk in passes.read(n):
            chunk, many = shortened(chunk, passes.longest)
            counter.add(chunk)
            long += many
            if larger is not None:
                larger.add(chunk)
        levels.append(counter.frequent(min_count))
        facts.update(counter=counter.name, candidates=counter.pairs, frequent=levels[1][1].size)
        facts.update(share_occurring=counter.pairs / (n * (n - 1) / 2), memory=counter.nbytes)
    if long:
        levels.exact, levels.warning = False, _of_long(long, passes.longest)


def _of_long(baskets: int, longest: int) -> str:
    return (
        f"{baskets} baskets have more than {longest} frequent items; only pairs of their {longest} "
        "most frequent ones were counted, so counts may be too low; raise `longest`, or take "
        "method 'eclat' or 'son', which count them all."
    )
