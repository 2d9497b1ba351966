"""Mining of data larger than memory: itemsets, similar documents, clusters, decompositions."""

from sfumato.mine import cluster, decompose, itemsets, similar

__all__ = ["cluster", "decompose", "itemsets", "similar"]
