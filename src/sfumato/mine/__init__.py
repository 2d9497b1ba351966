"""Mining of large data: itemsets, similar documents, clusters, decompositions, ranks of graphs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.mine import cluster, decompose, itemsets, rank, similar

__all__ = ["cluster", "decompose", "itemsets", "rank", "similar"]


def __getattr__(name: str) -> Any:
    # A room is imported on first use, so that miners of baskets do not load what graphs need.
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
