"""What comes in: files, frames and streams become Arrow batches, ratings and generated worlds."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.core.ids import as_ids
    from sfumato.data.interactions import Coded, Interactions, item_seed
    from sfumato.data.readers.base import Piece, Reading, ReadingReport
    from sfumato.data.readers.batches import Batches, read_batches
    from sfumato.data.readers.ratings import read_interactions
    from sfumato.data.splits import folds, split_by_time, split_by_user, without_rare
    from sfumato.data.synthetic import World, generate_world

__all__ = [
    "Batches",
    "Coded",
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
    "sfumato.data.readers.batches": ("Batches", "Piece", "Reading", "read_batches"),
    "sfumato.data.interactions": ("Coded", "Interactions", "as_ids", "item_seed"),
    "sfumato.data.readers.ratings": ("ReadingReport", "read_interactions"),
    "sfumato.data.splits": ("folds", "split_by_time", "split_by_user", "without_rare"),
    "sfumato.data.synthetic": ("World", "generate_world"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    if name == "DampedMeans":  # a model, which moved to the room of models
        import_module("warnings").warn(
            "sfumato.data.DampedMeans has moved to sfumato.recommend.",
            DeprecationWarning,
            stacklevel=2,
        )
        return import_module("sfumato.recommend").DampedMeans
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
