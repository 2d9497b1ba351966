"""Clustering of data in memory and larger than memory: k-means, BFR, and their private forms."""

from typing import TYPE_CHECKING

from sfumato.core.deprecation import on_demand

if TYPE_CHECKING:
    from sfumato.mine.cluster.kmeans import KMeans

__all__ = ["KMeans"]

# Names are imported on first use, so that commands which cluster nothing do not load scikit-learn.
__getattr__ = on_demand(__name__, {"kmeans": ("KMeans",)})


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
