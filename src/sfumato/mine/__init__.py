"""Mining of data larger than memory: frequent itemsets, similar documents, clusters."""

from sfumato.mine import cluster, itemsets, similar

__all__ = ["cluster", "itemsets", "similar"]
