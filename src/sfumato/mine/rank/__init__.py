"""Ranking of the nodes of graphs by their links, in memory and on disk."""

from sfumato.mine.rank.disk_graph import DiskGraph
from sfumato.mine.rank.disk_page_rank import DiskCost, DiskRanks, pagerank_on_disk
from sfumato.mine.rank.edge_files import read_graph
from sfumato.mine.rank.figure import plot_ranks
from sfumato.mine.rank.flow import flow_equations, walk_distribution
from sfumato.mine.rank.generated import rmat_graph
from sfumato.mine.rank.graph import Graph
from sfumato.mine.rank.page_rank import pagerank, random_walk_with_restart
from sfumato.mine.rank.ranks import Ranks
from sfumato.mine.rank.text_search import TextIndex

__all__ = [
    "DiskCost",
    "DiskGraph",
    "DiskRanks",
    "Graph",
    "Ranks",
    "TextIndex",
    "flow_equations",
    "pagerank",
    "pagerank_on_disk",
    "plot_ranks",
    "random_walk_with_restart",
    "read_graph",
    "rmat_graph",
    "walk_distribution",
]
