"""Mining of data larger than memory: frequent itemsets, similar documents, decompositions."""

from sfumato.mine import decompose, itemsets, similar

__all__ = ["decompose", "itemsets", "similar"]
