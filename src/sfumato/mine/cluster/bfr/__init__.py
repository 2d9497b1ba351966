"""BFR: clusters as sums, in one pass."""
