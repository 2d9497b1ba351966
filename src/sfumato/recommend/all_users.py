"""Lists for all users of a source, made on an engine by a model that every partition gets."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core.ids import ids_of, kind_of
from sfumato.core.validation import integer
from sfumato.data.interactions import Interactions
from sfumato.engine import Engine, Rows
from sfumato.recommend.base import NotFittedError
from sfumato.recommend.engine_rows import Batches

__all__ = ["recommend_all"]

OWNER = "recommend_all"
COUNT = integer(1)
BLOCK = 4096  # users whose lists are made at a time
TYPES = {"integers": pa.int64(), "text": pa.string()}


def recommend_all(
    model: Any,
    source: Any,
    *,
    engine: Engine,
    user_column: str = "user",
    item_column: str | None = None,
    n: int = 10,
    filter: Any = None,
) -> Rows:
    """Recommend the n best items to every user of a source.

    Parameters
    ----------
    model : object
        A fitted recommender with `catalogue_` and `recommend`. Every partition gets a copy.
    source : object
        What the engine reads: users, or events of users, who may be in any number of rows.
    engine : Engine
        Where the work runs: `sfumato.engine.LocalEngine` or `sfumato.engine.SparkEngine`.
    user_column : str, default="user"
        Name of the column of users.
    item_column : str or None, default=None
        Name of the column of items, if the rows are events whose items are not to be recommended
        to their users again; None excludes none.
    n : int, default=10
        Number of items per user, at least 1.
    filter : array_like of bool or None, default=None
        Mask over `model.catalogue_`; only items with True are recommended.

    Returns
    -------
    Rows
        Rows of user, item, score and rank (from 1, the best), not yet computed; `Rows.write`
        writes them as Parquet.

    Raises
    ------
    NotFittedError
        If the model is not fitted.

    Notes
    -----
    **Guarantee.** Each user of the source has the list of `model.recommend` once, with `exclude` of
    the user's own rows if `item_column` is given. Where fewer than n items remain, there are fewer
    rows. Lists do not depend on the partitions.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.engine import LocalEngine
    >>> from sfumato.recommend import Popular
    >>> events = {"user": [1, 1, 2], "item": ["tea", "milk", "tea"]}
    >>> model = Popular().fit(Interactions(events["user"], events["item"]))
    >>> engine = LocalEngine(threads=1)
    >>> rows = recommend_all(model, events, engine=engine, item_column="item")
    >>> [row for batch in rows.batches() for row in batch.drop_columns("score").to_pylist()]
    [{'user': 2, 'item': 'milk', 'rank': 1}]
    """
    if not hasattr(model, "catalogue_"):
        raise NotFittedError(f"{type(model).__name__}: not fitted yet; call fit first.")
    n = COUNT.check(OWNER, "n", n)
    columns = [user_column] if item_column is None else [user_column, item_column]
    rows = engine.rows(source, columns).shuffle(user_column)
    kind = getattr(model, "user_kind_", "") or _kind_of_users(rows, user_column)
    schema = _schema(kind, model.catalogue_.kind)
    return rows.map(_Listing(model, user_column, item_column, n, filter, schema), schema)


def _schema(users: str, items: str) -> pa.Schema:
    """Return the schema of lists for ids of these kinds."""
    ids = [("user", TYPES[users]), ("item", TYPES[items])]
    return pa.schema([*ids, ("score", pa.float64()), ("rank", pa.int32())])


def _kind_of_users(rows: Rows, column: str) -> str:
    """Return the kind of a source's users, of a model that does not say it."""
    kinds = rows.fold(_UserKinds(column), lambda a, b: a | b)
    if len(kinds) > 1:
        raise TypeError(f"{OWNER}: some users are integers and others text; convert them.")
    return next(iter(kinds), "integers")


@dataclass(frozen=True)
class _UserKinds:
    """Fold to the kinds of users in a partition."""

    column: str

    def __call__(self, batches: Batches) -> frozenset[str]:
        filled = (batch.column(self.column) for batch in batches if batch.num_rows)
        return frozenset(kind_of(ids_of(users, "users")) for users in filled)


@dataclass(frozen=True)
class _Listing:
    """Map from users, or events, of a partition to their lists."""

    model: Any
    user_column: str
    item_column: str | None
    n: int
    filter: Any
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        table = [batch for batch in batches if batch.num_rows]
        if not table:
            return
        rows = pa.Table.from_batches(table)
        users = ids_of(rows.column(self.user_column).combine_chunks(), "users")
        exclude = None
        if self.item_column is not None:
            exclude = Interactions(users, rows.column(self.item_column).combine_chunks())
        who = np.unique(users)
        for start in range(0, who.size, BLOCK):
            yield from self._lists(who[start : start + BLOCK], exclude)

    def _lists(self, users: np.ndarray, exclude: Interactions | None) -> Iterator[pa.RecordBatch]:
        """Yield the lists of some users as one batch."""
        options = {} if self.filter is None else {"filter": self.filter}
        items, scores = self.model.recommend(users, self.n, exclude=exclude, **options)
        there = scores > -np.inf
        at, rank = np.nonzero(there)
        columns = users[at], items[there], scores[there], rank + 1
        arrays = [
            pa.array(each, field.type) for each, field in zip(columns, self.schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)
