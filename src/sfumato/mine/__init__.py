"""Mining of data larger than memory: frequent itemsets, similar documents, ranks of graphs."""

from sfumato.mine import itemsets, rank, similar

__all__ = ["itemsets", "rank", "similar"]
