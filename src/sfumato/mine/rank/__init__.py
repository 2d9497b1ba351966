"""Ranking of the nodes of graphs by their links."""

from sfumato.mine.rank.flow import flow_equations, walk_distribution
from sfumato.mine.rank.graph import Graph
from sfumato.mine.rank.page_rank import pagerank, random_walk_with_restart
from sfumato.mine.rank.ranks import Ranks

__all__ = [
    "Graph",
    "Ranks",
    "flow_equations",
    "pagerank",
    "random_walk_with_restart",
    "walk_distribution",
]
