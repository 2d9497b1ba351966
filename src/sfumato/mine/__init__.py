"""Mining of large data: itemsets, similar documents, clusters, decompositions, ranks of graphs."""

from sfumato.mine import cluster, decompose, itemsets, rank, similar

__all__ = ["cluster", "decompose", "itemsets", "rank", "similar"]
