"""Units that a guarantee is about, and relations of data sets that differ by one of them."""

__all__ = ["RELATIONS", "UNITS"]

UNITS = ("event", "item of a profile", "user", "basket", "adjacency list", "edge")
RELATIONS = ("add/remove", "replace")  # one unit more or less, or another in its place
