"""Ranking of the nodes of graphs by their links."""

from sfumato.mine.rank.graph import Graph

__all__ = ["Graph"]
