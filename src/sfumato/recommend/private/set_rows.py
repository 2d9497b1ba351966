"""Item sets of users as rows of an engine: only exact sums over all users reach the driver."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core.ids import positions_by_text, texts
from sfumato.data.interactions import Interactions
from sfumato.engine import Rows, bound_rows
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.engine_rows import Batches
from sfumato.recommend.private.user_sums import ItemSets

__all__ = ["EngineItemSets"]

SCHEMA = pa.schema([("user", pa.string()), ("item", pa.int32())])


class EngineItemSets:
    """Items of each user in partitions, as `ItemSets`; they are read when this is made, then kept.

    Parameters
    ----------
    rows : Rows
        The source.
    columns : tuple of str
        Names of the columns of users and items, and of ratings if rows need one.
    catalogue : Catalogue
        Public items.
    per_user : int or None, default=None
        Largest number of items of a user, which are sampled; None for all.
    seed : int, default=0
        Seed of the sample.
    """

    def __init__(
        self,
        rows: Rows,
        columns: tuple[str, ...],
        catalogue: Catalogue,
        per_user: int | None = None,
        seed: int = 0,
    ) -> None:
        most = len(catalogue) if per_user is None else per_user
        coded = rows.map(_SetCoding(columns, catalogue), SCHEMA)
        self._rows = bound_rows(
            coded,
            SCHEMA,
            user_column="user",
            item_column="item",
            per_user=most,
            per_item=1,
            seed=seed,
        ).persist()
        self._rows.fold(_read, max)  # before anything is charged, as it may fail

    def total(self, cells: Callable[[ItemSets], np.ndarray]) -> np.ndarray:
        """Return the exact sum of the integers that the function returns for all partitions."""
        sums: np.ndarray = self._rows.fold(_SetTotal(cells), np.add)
        return sums

    def counts(self, items: int, per_user: int) -> np.ndarray:
        """Return the weighted count of each item, then the number of users, times integers."""
        return self.total(lambda sets: sets.counts(items, per_user))

    def gram(self, head: np.ndarray, items: int) -> np.ndarray:
        """Return the Gram matrix of the head: its diagonal, then the triangle of its pairs."""
        return self.total(lambda sets: sets.gram(head, items))

    def unpersist(self) -> None:
        """Free the rows."""
        self._rows.unpersist()


def _read(batches: Batches) -> int:
    for _ in batches:
        pass
    return 0


@dataclass(frozen=True)
class _SetCoding:
    """Map from rows to users, as texts, and positions of items; no row raises."""

    columns: tuple[str, ...]
    catalogue: Catalogue

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            data = Interactions(*(batch.column(name) for name in self.columns), invalid="drop")
            coded = data.coded()
            what = positions_by_text(coded.item_ids, self.catalogue.ids)[coded.item_codes]
            inside = what >= 0
            users = texts(coded.user_ids, coded.user_codes[inside]).cast(pa.string())
            items = pa.array(what[inside].astype(np.int32))
            yield pa.RecordBatch.from_arrays([users, items], schema=SCHEMA)


@dataclass(frozen=True)
class _SetTotal:
    """Fold to the integers of a partition, which has all rows of its users."""

    cells: Callable[[ItemSets], np.ndarray]

    def __call__(self, batches: Batches) -> Any:
        table = pa.Table.from_batches(batches, SCHEMA)
        words = table.column("user").combine_chunks().dictionary_encode()
        users = words.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        order = np.argsort(users, kind="stable")
        items = table.column("item").to_numpy().astype(np.int64)[order]
        ends = np.cumsum(np.bincount(users, minlength=len(words.dictionary)))
        return self.cells(ItemSets(items, np.concatenate([[0], ends]).astype(np.int64)))
