"""Clustering: hierarchical under any distance, CURE for shapes, and measures of agreement."""

from typing import TYPE_CHECKING

from sfumato.core.deprecation import on_demand

if TYPE_CHECKING:
    from sfumato.mine.cluster.cure import CURE
    from sfumato.mine.cluster.hierarchical import Hierarchical
    from sfumato.mine.cluster.hierarchical_figure import plot_dendrogram
    from sfumato.mine.cluster.metrics import (
        adjusted_rand_index,
        entropy,
        neighbourhood_side,
        purity,
        rand_index,
    )

__all__ = [
    "CURE",
    "Hierarchical",
    "adjusted_rand_index",
    "entropy",
    "neighbourhood_side",
    "plot_dendrogram",
    "purity",
    "rand_index",
]

# Names are imported on first use, so that importing the room does not load scikit-learn.
__getattr__ = on_demand(
    __name__,
    {
        "cure": ("CURE",),
        "hierarchical": ("Hierarchical",),
        "hierarchical_figure": ("plot_dendrogram",),
        "metrics": (
            "adjusted_rand_index",
            "entropy",
            "neighbourhood_side",
            "purity",
            "rand_index",
        ),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
