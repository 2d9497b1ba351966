"""Input data: readers of files, data frames and streams, interactions, splits, synthetic data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.core.deprecation import on_demand

if TYPE_CHECKING:
    from sfumato.core.ids import as_ids
    from sfumato.data.actions import ratings_from_actions
    from sfumato.data.features import CategoryColumn, Features
    from sfumato.data.interactions import Coded, Interactions, item_seed
    from sfumato.data.readers.base import Piece, Reading, ReadingReport
    from sfumato.data.readers.batches import Batches, read_batches
    from sfumato.data.readers.features import read_features
    from sfumato.data.readers.ratings import read_interactions
    from sfumato.data.splits import (
        folds,
        leave_last_out,
        split_by_time,
        split_by_user,
        without_rare,
    )
    from sfumato.data.synthetic import World, generate_world

__all__ = [
    "Batches",
    "CategoryColumn",
    "Coded",
    "Features",
    "Interactions",
    "Piece",
    "Reading",
    "ReadingReport",
    "World",
    "as_ids",
    "folds",
    "generate_world",
    "item_seed",
    "leave_last_out",
    "ratings_from_actions",
    "read_batches",
    "read_features",
    "read_interactions",
    "split_by_time",
    "split_by_user",
    "without_rare",
]

# Names are imported on first use, so that callers who have columns already do not load DuckDB.
_imported = on_demand(
    __name__,
    {
        "actions": ("ratings_from_actions",),
        "readers.batches": ("Batches", "Piece", "Reading", "read_batches"),
        "features": ("CategoryColumn", "Features"),
        "readers.features": ("read_features",),
        "interactions": ("Coded", "Interactions", "as_ids", "item_seed"),
        "readers.ratings": ("ReadingReport", "read_interactions"),
        "splits": ("folds", "leave_last_out", "split_by_time", "split_by_user", "without_rare"),
        "synthetic": ("World", "generate_world"),
    },
)


def __getattr__(name: str) -> Any:
    if name == "DampedMeans":  # a model, which moved to the room of models
        import_module("warnings").warn(
            "sfumato.data.DampedMeans has moved to sfumato.recommend.",
            DeprecationWarning,
            stacklevel=2,
        )
        return import_module("sfumato.recommend").DampedMeans
    return _imported(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
