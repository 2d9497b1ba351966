"""Clusters: k-means, BFR and CURE of data larger than memory, hierarchies, private centres."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sfumato.core.deprecation import on_demand

if TYPE_CHECKING:
    from sfumato.mine.cluster.bfr.bfr import BFR
    from sfumato.mine.cluster.bfr.bfr_summary import BFRSummary
    from sfumato.mine.cluster.cure.cure import CURE
    from sfumato.mine.cluster.hierarchical.dendrogram import plot_dendrogram
    from sfumato.mine.cluster.hierarchical.hierarchical import Hierarchical
    from sfumato.mine.cluster.kmeans.elbow import ElbowCurve, choose_k
    from sfumato.mine.cluster.kmeans.figure import plot_clusters
    from sfumato.mine.cluster.kmeans.kmeans import KMeans
    from sfumato.mine.cluster.metrics import (
        adjusted_rand_index,
        entropy,
        neighbourhood_side,
        purity,
        rand_index,
    )
    from sfumato.mine.cluster.private.private_kmeans import PrivateBFR, PrivateKMeans
    from sfumato.mine.cluster.private.released import ReleasedBFR, ReleasedKMeans

__all__ = [
    "BFR",
    "CURE",
    "BFRSummary",
    "ElbowCurve",
    "Hierarchical",
    "KMeans",
    "PrivateBFR",
    "PrivateKMeans",
    "ReleasedBFR",
    "ReleasedKMeans",
    "adjusted_rand_index",
    "choose_k",
    "entropy",
    "neighbourhood_side",
    "plot_clusters",
    "plot_dendrogram",
    "purity",
    "rand_index",
]

# Names are imported on first use, so that commands which cluster nothing do not load scikit-learn.
__getattr__: Callable[..., Any] = on_demand(
    __name__,
    {
        "bfr.bfr": ("BFR",),
        "bfr.bfr_summary": ("BFRSummary",),
        "cure.cure": ("CURE",),
        "hierarchical.hierarchical": ("Hierarchical",),
        "hierarchical.dendrogram": ("plot_dendrogram",),
        "kmeans.kmeans": ("KMeans",),
        "kmeans.elbow": ("ElbowCurve", "choose_k"),
        "kmeans.figure": ("plot_clusters",),
        "metrics": (
            "adjusted_rand_index",
            "entropy",
            "neighbourhood_side",
            "purity",
            "rand_index",
        ),
        "private.private_kmeans": ("PrivateBFR", "PrivateKMeans"),
        "private.released": ("ReleasedBFR", "ReleasedKMeans"),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
