"""Events of a private factorization as rows of an engine: only their exact sums reach the driver.

A row is read by itself, and none raises. At user level the rows of a user come together and are
sampled where they are; the noise is added by whoever takes the sums, once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core.ids import positions_by_text, texts
from sfumato.data.interactions import Interactions
from sfumato.engine import Rows, bound_rows
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.engine_rows import Batches, gathered, number_columns
from sfumato.recommend.private.inputs import Accounts, Events, events_of, on_rating_grid, ordered

__all__ = ["EventRows"]

RATED = [("item", pa.int32()), ("rating", pa.int64())]
BY_POSITION = pa.schema([("user", pa.int32()), *RATED])
BY_TEXT = pa.schema([("user", pa.string()), *RATED])


class EventRows:
    """Events in partitions, as `EventSums`; they are read when this is made, and then kept.

    Parameters
    ----------
    rows : Rows
        The source.
    columns : tuple of str
        Names of the columns of users, items and ratings.
    plain : dict
        Parameters of the model: unit, bounds, per_user and seed.
    items : Catalogue
        Public items.
    accounts : Accounts
        Public rows of users; not used for unit "user".
    """

    def __init__(
        self,
        rows: Rows,
        columns: tuple[str, str, str],
        plain: dict[str, Any],
        items: Catalogue,
        accounts: Accounts,
    ) -> None:
        self.sizes: dict[str, int] = {"users": len(accounts), "items": len(items)}
        self._by_text = plain["unit"] == "user"
        schema = BY_TEXT if self._by_text else BY_POSITION
        by = None if self._by_text else accounts
        coded = rows.map(_EventCoding(columns, items, by, plain["bounds"]), schema)
        if self._by_text:
            limits = {"per_user": plain["per_user"], "per_item": 1, "seed": plain["seed"]}
            coded = bound_rows(coded, schema, user_column="user", item_column="item", **limits)
        self._rows = coded.persist()
        self._rows.fold(_read, max)  # before anything is charged, as it may fail

    def total(self, cells: Callable[[Events], np.ndarray]) -> np.ndarray:
        """Return the exact sum of the integers that the function returns for all partitions."""
        sums: np.ndarray = self._rows.fold(_EventTotal(cells, self.sizes, self._by_text), np.add)
        return sums

    def unpersist(self) -> None:
        """Free the rows."""
        self._rows.unpersist()


def _read(batches: Batches) -> int:
    for _ in batches:
        pass
    return 0


@dataclass(frozen=True)
class _EventCoding:
    """Map from rows to events on the public lists; users as texts where no list is given."""

    columns: tuple[str, str, str]
    items: Catalogue
    accounts: Accounts | None
    bounds: tuple[float, float]

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            data = Interactions(*(batch.column(name) for name in self.columns), invalid="drop")
            yield self._by_text(data) if self.accounts is None else self._by_position(data)

    def _by_position(self, data: Interactions) -> pa.RecordBatch:
        assert self.accounts is not None
        found = events_of(data, self.items, self.accounts, self.bounds)
        arrays = [pa.array(each) for each in (found.users, found.items, found.ratings)]
        return pa.RecordBatch.from_arrays(arrays, schema=BY_POSITION)

    def _by_text(self, data: Interactions) -> pa.RecordBatch:
        coded = data.coded()
        what = positions_by_text(coded.item_ids, self.items.ids)[coded.item_codes]
        inside = what >= 0
        users = texts(coded.user_ids, coded.user_codes[inside]).cast(pa.string())
        ratings = on_rating_grid(data.ratings[inside], self.bounds)
        arrays = [users, pa.array(what[inside].astype(np.int32)), pa.array(ratings)]
        return pa.RecordBatch.from_arrays(arrays, schema=BY_TEXT)


@dataclass(frozen=True)
class _EventTotal:
    """Fold to the integers of a partition."""

    cells: Callable[[Events], np.ndarray]
    sizes: dict[str, int]
    by_text: bool

    def __call__(self, batches: Batches) -> np.ndarray:
        if self.by_text:
            return self.cells(self._users_events(batches))
        total = self.cells(self._events(gathered(iter(()), BY_POSITION)))
        for batch in batches:
            total += self.cells(self._events(number_columns(batch, BY_POSITION.names)))
        return total

    def _events(self, columns: list[np.ndarray]) -> Events:
        users, items, ratings = columns
        return Events(users, items, ratings, self.sizes)

    def _users_events(self, batches: Batches) -> Events:
        """Return all events of the partition, whose users are numbered by their texts."""
        table = pa.Table.from_batches(batches, BY_TEXT)
        words = table.column("user").combine_chunks().dictionary_encode()
        users = words.indices.to_numpy(zero_copy_only=False).astype(np.int32)
        items, ratings = (table.column(name).to_numpy() for name in ("item", "rating"))
        return ordered(users, items, ratings, {**self.sizes, "users": len(words.dictionary)})
