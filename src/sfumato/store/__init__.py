"""Durable state of a service on SQLite or PostgreSQL: events, snapshots, ledger, releases, keys.

Each name is imported when it is first used.
"""

from collections.abc import Callable
from typing import Any

from sfumato.core.deprecation import on_demand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sfumato.errors import StoreDamaged, StoreUnavailable, StoreVersionError
    from sfumato.store.events import EventBatch, new_event_ids
    from sfumato.store.opening import migrate_store, open_store, restore_store
    from sfumato.store.records import (
        SCOPES,
        ApiKey,
        Appended,
        Erasure,
        ErasureRecord,
        Snapshot,
        StoredRelease,
        StoreInfo,
    )
    from sfumato.store.store import Store

__all__ = [
    "SCOPES",
    "ApiKey",
    "Appended",
    "Erasure",
    "ErasureRecord",
    "EventBatch",
    "Snapshot",
    "Store",
    "StoreDamaged",
    "StoreInfo",
    "StoreUnavailable",
    "StoreVersionError",
    "StoredRelease",
    "migrate_store",
    "new_event_ids",
    "open_store",
    "restore_store",
]

__getattr__: Callable[..., Any] = on_demand(
    __name__,
    {
        "sfumato.errors": ("StoreDamaged", "StoreUnavailable", "StoreVersionError"),
        "events": ("EventBatch", "new_event_ids"),
        "opening": ("migrate_store", "open_store", "restore_store"),
        "records": (
            "SCOPES",
            "ApiKey",
            "Appended",
            "Erasure",
            "ErasureRecord",
            "Snapshot",
            "StoreInfo",
            "StoredRelease",
        ),
        "store": ("Store",),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
