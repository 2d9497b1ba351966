"""Ranking of the nodes of graphs by their links, and measures of graphs."""

from sfumato.mine.rank.flow import flow_equations, walk_distribution
from sfumato.mine.rank.graph import Graph
from sfumato.mine.rank.hubs import hits
from sfumato.mine.rank.page_rank import pagerank, random_walk_with_restart
from sfumato.mine.rank.private.degrees import PrivateDegreeHistogram
from sfumato.mine.rank.private.released_degrees import ReleasedDegrees
from sfumato.mine.rank.ranks import Ranks
from sfumato.mine.rank.similarity import Similarities, simrank
from sfumato.mine.rank.spam import (
    LinkFarm,
    SpamMass,
    link_farm,
    plant_link_farm,
    spam_mass,
    trustrank,
)
from sfumato.mine.rank.structure.neighbourhood import NeighbourhoodFunction, neighbourhood_function
from sfumato.mine.rank.structure.triangles import TriangleCounts, Triangles, count_triangles

__all__ = [
    "Graph",
    "LinkFarm",
    "NeighbourhoodFunction",
    "PrivateDegreeHistogram",
    "Ranks",
    "ReleasedDegrees",
    "Similarities",
    "SpamMass",
    "TriangleCounts",
    "Triangles",
    "count_triangles",
    "flow_equations",
    "hits",
    "link_farm",
    "neighbourhood_function",
    "pagerank",
    "plant_link_farm",
    "random_walk_with_restart",
    "simrank",
    "spam_mass",
    "trustrank",
    "walk_distribution",
]
