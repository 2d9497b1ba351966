"""Mining of data larger than memory: frequent itemsets, similar documents."""

from sfumato.mine import itemsets, similar

__all__ = ["itemsets", "similar"]
