"""Ranking of the nodes of graphs by their links, and measures of graphs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sfumato.core.deprecation import on_demand

if TYPE_CHECKING:
    from sfumato.mine.rank.figure import plot_ranks
    from sfumato.mine.rank.graph.edge_files import read_graph
    from sfumato.mine.rank.graph.generated import rmat_graph
    from sfumato.mine.rank.graph.graph import Graph
    from sfumato.mine.rank.link_analysis.hubs import hits
    from sfumato.mine.rank.link_analysis.similarity import Similarities, simrank
    from sfumato.mine.rank.link_analysis.spam import (
        LinkFarm,
        SpamMass,
        link_farm,
        plant_link_farm,
        spam_mass,
        trustrank,
    )
    from sfumato.mine.rank.page_rank.disk_graph import DiskGraph
    from sfumato.mine.rank.page_rank.disk_page_rank import DiskCost, DiskRanks, pagerank_on_disk
    from sfumato.mine.rank.page_rank.flow import flow_equations, walk_distribution
    from sfumato.mine.rank.page_rank.page_rank import pagerank, random_walk_with_restart
    from sfumato.mine.rank.page_rank.ranks import Ranks
    from sfumato.mine.rank.private.degrees import PrivateDegreeHistogram
    from sfumato.mine.rank.private.released_degrees import ReleasedDegrees
    from sfumato.mine.rank.structure.neighbourhood import (
        NeighbourhoodFunction,
        neighbourhood_function,
    )
    from sfumato.mine.rank.structure.triangles import TriangleCounts, Triangles, count_triangles
    from sfumato.mine.rank.text_search import TextIndex

__all__ = [
    "DiskCost",
    "DiskGraph",
    "DiskRanks",
    "Graph",
    "LinkFarm",
    "NeighbourhoodFunction",
    "PrivateDegreeHistogram",
    "Ranks",
    "ReleasedDegrees",
    "Similarities",
    "SpamMass",
    "TextIndex",
    "TriangleCounts",
    "Triangles",
    "count_triangles",
    "flow_equations",
    "hits",
    "link_farm",
    "neighbourhood_function",
    "pagerank",
    "pagerank_on_disk",
    "plant_link_farm",
    "plot_ranks",
    "random_walk_with_restart",
    "read_graph",
    "rmat_graph",
    "simrank",
    "spam_mass",
    "trustrank",
    "walk_distribution",
]

# Names are imported on first use, so that a command loads no more than it needs.
__getattr__: Callable[..., Any] = on_demand(
    __name__,
    {
        "figure": ("plot_ranks",),
        "graph.edge_files": ("read_graph",),
        "graph.generated": ("rmat_graph",),
        "graph.graph": ("Graph",),
        "link_analysis.hubs": ("hits",),
        "link_analysis.similarity": (
            "Similarities",
            "simrank",
        ),
        "link_analysis.spam": (
            "LinkFarm",
            "SpamMass",
            "link_farm",
            "plant_link_farm",
            "spam_mass",
            "trustrank",
        ),
        "page_rank.disk_graph": ("DiskGraph",),
        "page_rank.disk_page_rank": (
            "DiskCost",
            "DiskRanks",
            "pagerank_on_disk",
        ),
        "page_rank.flow": (
            "flow_equations",
            "walk_distribution",
        ),
        "page_rank.page_rank": (
            "pagerank",
            "random_walk_with_restart",
        ),
        "page_rank.ranks": ("Ranks",),
        "private.degrees": ("PrivateDegreeHistogram",),
        "private.released_degrees": ("ReleasedDegrees",),
        "structure.neighbourhood": (
            "NeighbourhoodFunction",
            "neighbourhood_function",
        ),
        "structure.triangles": (
            "TriangleCounts",
            "Triangles",
            "count_triangles",
        ),
        "text_search": ("TextIndex",),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
