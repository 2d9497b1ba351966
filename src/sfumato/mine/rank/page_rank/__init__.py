"""PageRank in memory and on disk."""
