"""Similar items: shingles, signatures, bands, near-duplicate documents and similarity joins.

Each name is imported when it is first used.
"""

from collections.abc import Callable
from typing import Any

from sfumato.core.deprecation import on_demand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sfumato.mine.similar.banding import SCurve, choose_bands
    from sfumato.mine.similar.deduplicator import Deduplicator
    from sfumato.mine.similar.document_signatures import (
        explicit_signatures,
        linear_hashes,
        permutation_ranks,
        signatures,
    )
    from sfumato.mine.similar.duplicate_search import (
        clusters,
        connected_components,
        near_duplicates,
    )
    from sfumato.mine.similar.figure import plot_s_curve
    from sfumato.mine.similar.joins import similarity_join
    from sfumato.mine.similar.row_distances import distances
    from sfumato.mine.similar.shingling import ShingleSets, shingles

__all__ = [
    "Deduplicator",
    "SCurve",
    "ShingleSets",
    "choose_bands",
    "clusters",
    "connected_components",
    "distances",
    "explicit_signatures",
    "linear_hashes",
    "near_duplicates",
    "permutation_ranks",
    "plot_s_curve",
    "shingles",
    "signatures",
    "similarity_join",
]

__getattr__: Callable[..., Any] = on_demand(
    __name__,
    {
        "banding": (
            "SCurve",
            "choose_bands",
        ),
        "deduplicator": ("Deduplicator",),
        "document_signatures": (
            "explicit_signatures",
            "linear_hashes",
            "permutation_ranks",
            "signatures",
        ),
        "duplicate_search": (
            "clusters",
            "connected_components",
            "near_duplicates",
        ),
        "figure": ("plot_s_curve",),
        "joins": ("similarity_join",),
        "row_distances": ("distances",),
        "shingling": (
            "ShingleSets",
            "shingles",
        ),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
