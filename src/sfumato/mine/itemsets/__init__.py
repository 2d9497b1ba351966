"""Frequent itemsets of baskets, in memory or read from disk pass by pass.

Each name is imported when it is first used.
"""

from collections.abc import Callable
from typing import Any

from sfumato.core.deprecation import on_demand

TYPE_CHECKING = False
if TYPE_CHECKING:
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

__getattr__: Callable[..., Any] = on_demand(
    __name__,
    {
        "mining": ("frequent_itemsets",),
        "private.private_itemsets": ("PrivateItemsets",),
        "private.released": ("ReleasedItemsets",),
        "results": ("Itemsets",),
        "rules": (
            "Rules",
            "association_rules",
        ),
        "sources.baskets": (
            "BasketChunk",
            "Baskets",
        ),
        "sources.files": ("read_baskets",),
        "streams.frequent": (
            "FrequentItems",
            "FrequentPairs",
        ),
        "streams.popular_now": ("PopularNow",),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
