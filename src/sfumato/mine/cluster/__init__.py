"""Clustering of data in memory and larger than memory: k-means, BFR, and their private forms."""

from typing import TYPE_CHECKING

from sfumato.core.deprecation import on_demand

if TYPE_CHECKING:
    from sfumato.mine.cluster.bfr import BFR
    from sfumato.mine.cluster.bfr_summary import BFRSummary
    from sfumato.mine.cluster.kmeans import KMeans
    from sfumato.mine.cluster.kmeans_elbow import ElbowCurve, choose_k
    from sfumato.mine.cluster.kmeans_figure import plot_clusters
    from sfumato.mine.cluster.private_kmeans import PrivateBFR, PrivateKMeans
    from sfumato.mine.cluster.private_released import ReleasedBFR, ReleasedKMeans

__all__ = [
    "BFR",
    "BFRSummary",
    "ElbowCurve",
    "KMeans",
    "PrivateBFR",
    "PrivateKMeans",
    "ReleasedBFR",
    "ReleasedKMeans",
    "choose_k",
    "plot_clusters",
]

# Names are imported on first use, so that commands which cluster nothing do not load scikit-learn.
__getattr__ = on_demand(
    __name__,
    {
        "bfr": ("BFR",),
        "bfr_summary": ("BFRSummary",),
        "kmeans": ("KMeans",),
        "kmeans_elbow": ("ElbowCurve", "choose_k"),
        "kmeans_figure": ("plot_clusters",),
        "private_kmeans": ("PrivateBFR", "PrivateKMeans"),
        "private_released": ("ReleasedBFR", "ReleasedKMeans"),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
