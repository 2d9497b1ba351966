"""Contribution bounding on an engine: each user's rows are sampled where they are together."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.core.hashing import KeyColumn, hash_column
from sfumato.core.validation import integer
from sfumato.engine.base import Rows
from sfumato.errors import ParameterError
from sfumato.privacy.mechanisms.contribution_bounding import bound_contributions

__all__ = ["bound_rows"]

OWNER = "bound_rows"
PLACE = "__sfumato_user"  # hash of the user, by which rows are shuffled; longer if it is taken
MOST, SEED = integer(1, 2**31 - 1), integer(0, 2**64 - 1)
ODD = np.uint64(0x9E3779B97F4A7C15)
INTERVAL = pa.month_day_nano_interval()
BITS = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}  # by the bits of a float or a time
Batches = Iterator[pa.RecordBatch]


def bound_rows(
    rows: Rows,
    schema: pa.Schema,
    *,
    user_column: str,
    item_column: str,
    order_column: str | None = None,
    per_user: int,
    per_item: int | None = None,
    seed: int,
) -> Rows:
    """Sample each user's rows down to a limit, on an engine.

    Parameters
    ----------
    rows : Rows
        Rows of an engine, in any partitions.
    schema : Schema
        Arrow schema of the rows: columns of numbers, texts, bytes, dates and times.
    user_column : str
        Name of the column of users: keys of any type, null included.
    item_column : str
        Name of the column of items: keys of any type, null included.
    order_column : str or None, default=None
        Name of a column, such as a time, whose smallest values are retained of the rows of one user
        and item; None chooses among them by a hash of the row.
    per_user : int
        Largest number of rows of a user, at least 1.
    per_item : int or None, default=None
        Largest number of rows of a (user, item), at least 1; `per_user` by default.
    seed : int
        Seed of the sample, from 0; it need not be secret.

    Returns
    -------
    Rows
        The retained rows, not yet computed.

    Raises
    ------
    ValueError
        If a parameter is invalid, or a column of a type that cannot be hashed or sorted; before any
        row is read. No row raises.

    Notes
    -----
    **Guarantee.** At most per_user rows of a user and per_item of a (user, item) are retained, and
    as many as these allow; adding or removing one row changes the retained rows by at most one in
    and one out, and adding or removing one user changes only that user's rows, as for
    `sfumato.privacy.mechanisms.bound_contributions`. Of each user and item as many rows are
    retained as that function retains with the same seed. They are the same rows on every engine and
    in every order of the source. That function retains the earliest rows of a user and item; so
    does this one with `order_column`, where no two of them are of one time.

    Examples
    --------
    >>> from sfumato.engine import LocalEngine
    >>> events = pa.table({"user": [7, 7, 8, 7], "item": [1, 1, 1, 1], "time": [3, 1, 1, 2]})
    >>> rows = LocalEngine(threads=2).rows(events, events.column_names)
    >>> names = {"user_column": "user", "item_column": "item", "order_column": "time"}
    >>> bounded = bound_rows(rows, events.schema, **names, per_user=2, seed=1)
    >>> sorted((row["user"], row["time"]) for b in bounded.batches() for row in b.to_pylist())
    [(7, 1), (7, 2), (8, 1)]
    """
    most = MOST.check(OWNER, "per_user", per_user)
    limits = most, most if per_item is None else MOST.check(OWNER, "per_item", per_item)
    named = {"user_column": user_column, "item_column": item_column}
    if order_column is not None:
        named["order_column"] = order_column
    for parameter, name in named.items():
        if name not in schema.names:
            raise ParameterError.of(OWNER, parameter, f"must be a column of schema, not {name!r}.")
    _check_types(schema, order_column)
    place = PLACE
    while place in schema.names:
        place += "_"
    bounding = _Bounding(
        place, user_column, item_column, order_column, *limits, _checked_seed(seed)
    )
    placed = rows.map(_Placing(place, user_column), schema.append(pa.field(place, pa.int64())))
    return placed.shuffle(place).map(bounding, schema)


def _check_types(schema: pa.Schema, order_column: str | None) -> None:
    """Raise for a type that no row could be hashed, taken or sorted by, whatever the rows are."""
    for field in schema:
        none = pa.nulls(1, field.type)
        try:
            _exact_hashes(none, 0)
            none.take(pa.array([0]))
        except (pa.ArrowException, TypeError):
            problem = f"must have columns of numbers, texts or times, not {field.type}"
            raise ParameterError.of(OWNER, "schema", f"{problem}, as {field.name!r} is.") from None
        try:
            if field.name == order_column:
                _sorted({"order": none, "tie": pa.array([0])})
        except (pa.ArrowException, TypeError):
            problem = f"must name a column that can be sorted, not one of {field.type}."
            raise ParameterError.of(OWNER, "order_column", problem) from None


def _checked_seed(seed: int) -> int:
    return int(SEED.check(OWNER, "seed", seed))


@dataclass(frozen=True)
class _Placing:
    """Map that appends the hash of each row's user, whatever the user is."""

    place: str
    user_column: str

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            place = pa.array(_hashes(batch.column(self.user_column), 0).view(np.int64))
            names = [*batch.schema.names, self.place]
            yield pa.RecordBatch.from_arrays([*batch.columns, place], names)


@dataclass(frozen=True)
class _Bounding:
    """Map from all rows of some users to those that are retained."""

    place: str
    user_column: str
    item_column: str
    order_column: str | None
    per_user: int
    per_item: int
    seed: int

    def __call__(self, batches: Batches) -> Batches:
        filled = [batch for batch in batches if batch.num_rows]
        if not filled:
            return
        table = pa.Table.from_batches(filled).drop_columns([self.place]).combine_chunks()
        table = table.take(self._order(table))
        keep = bound_contributions(
            table.column(self.user_column),
            table.column(self.item_column),
            per_user=self.per_user,
            per_item=self.per_item,
            seed=self.seed,
        )
        yield from table.filter(pa.array(keep)).to_batches()

    def _order(self, table: pa.Table) -> pa.Array:
        """Return rows by time, then by a hash of the whole row, so that no partition decides."""
        ties = np.zeros(table.num_rows, np.uint64)
        for column in table.columns:
            ties = (ties ^ _exact_hashes(column.combine_chunks(), self.seed)) * ODD
        keys = {"tie": pa.array(ties)}
        if self.order_column is not None:
            keys = {"order": table.column(self.order_column), **keys}
        return _sorted(keys)


def _sorted(keys: dict[str, pa.Array]) -> pa.Array:
    """Return rows in ascending order of these columns, the first before the others."""
    return pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])


def _exact_hashes(column: pa.Array, seed: int) -> np.ndarray:
    """Hashes of cells that differ if these do, even where they are one key, as "7" and "7.0"."""
    if isinstance(column, pa.ChunkedArray):  # too long for one array
        return np.concatenate([_exact_hashes(chunk, seed) for chunk in column.chunks])
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _exact_hashes(column.dictionary_decode(), seed)
    if pa.types.is_floating(kind) or (pa.types.is_temporal(kind) and kind != INTERVAL):
        column = column.view(BITS[kind.bit_width])
    found = _hashes(column, seed)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        lengths = pc.fill_null(pc.binary_length(column), -1)
        found = (found ^ np.asarray(lengths).astype(np.int64).view(np.uint64)) * ODD
    return found


def _hashes(column: pa.Array, seed: int) -> np.ndarray:
    return np.asarray(hash_column(KeyColumn(column, name=OWNER), seed))
