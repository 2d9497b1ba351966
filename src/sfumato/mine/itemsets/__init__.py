"""Frequent itemsets of baskets, in memory or read from disk pass by pass."""

from sfumato.mine.itemsets.mining import frequent_itemsets
from sfumato.mine.itemsets.private.private_itemsets import PrivateItemsets
from sfumato.mine.itemsets.private.released import ReleasedItemsets
from sfumato.mine.itemsets.results import Itemsets
from sfumato.mine.itemsets.rules import Rules, association_rules
from sfumato.mine.itemsets.sources.baskets import BasketChunk, Baskets
from sfumato.mine.itemsets.sources.files import read_baskets
from sfumato.mine.itemsets.streams.frequent import FrequentItems, FrequentPairs
from sfumato.mine.itemsets.streams.popular_now import PopularNow

__all__ = [
    "BasketChunk",
    "Baskets",
    "FrequentItems",
    "FrequentPairs",
    "Itemsets",
    "PopularNow",
    "PrivateItemsets",
    "ReleasedItemsets",
    "Rules",
    "association_rules",
    "frequent_itemsets",
    "read_baskets",
]
