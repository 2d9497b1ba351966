"""What comes in: files, frames and streams become Arrow batches, ratings and generated worlds."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.data.batches import Batches, Piece, Reading, read_batches
    from sfumato.data.interactions import Coded, Interactions, as_ids, item_seed
    from sfumato.data.means import DampedMeans
    from sfumato.data.ratings import ReadingReport, read_interactions
    from sfumato.data.splits import folds, split_by_time, split_by_user, without_rare
    from sfumato.data.world import World, generate_world

__all__ = [
    "Batches",
    "Coded",
    "DampedMeans",
    "Interactions",
    "Piece",
    "Reading",
    "ReadingReport",
    "World",
    "as_ids",
    "folds",
    "generate_world",
    "item_seed",
    "read_batches",
    "read_interactions",
    "split_by_time",
    "split_by_user",
    "without_rare",
]

# Names are fetched when first used, so that who has columns already does not load DuckDB.
_HOMES = {
    "batches": ("Batches", "Piece", "Reading", "read_batches"),
    "interactions": ("Coded", "Interactions", "as_ids", "item_seed"),
    "means": ("DampedMeans",),
    "ratings": ("ReadingReport", "read_interactions"),
    "splits": ("folds", "split_by_time", "split_by_user", "without_rare"),
    "world": ("World", "generate_world"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
