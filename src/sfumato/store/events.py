"""Batches of events: validated columns on their way into the log and out of it."""

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa

from sfumato.errors import NullValueError, ParameterError, ParameterTypeError

__all__ = ["EventBatch", "as_batch", "check_text", "new_event_ids"]

LONGEST = 256  # characters of an id
COLUMNS = ("users", "items", "values", "times", "event_ids")


class EventBatch:
    """Columns of events: who, what, how much, when, and the id that makes a retry harmless.

    Parameters
    ----------
    users, items : array_like
        Ids, text or integers; an integer is stored as its decimal text. 1 to 256 characters.
    values : array_like or None, default=None
        Finite numbers, such as ratings; None is 1 for every event.
    times : array_like or None, default=None
        Seconds since 1970 in UTC; None is now.
    event_ids : array_like or None, default=None
        Text of 1 to 256 characters, unique per event; an id that is in the log already is a
        duplicate. None makes new ones, so that a retry of the same object is harmless. Ids that
        begin with the time (as UUID version 7) are stored several times faster than random ones.

    Attributes
    ----------
    users, items, event_ids : pyarrow.StringArray
        Text columns.
    values, times : ndarray of shape (n,)
        Float64 columns.
    sequence : ndarray of shape (n,) or None
        Sequence numbers, increasing, of events that were read from a log; None before.

    Examples
    --------
    >>> batch = EventBatch(["ann", "bob"], [7, 9], values=[5, 3], times=[0, 0])
    >>> len(batch), batch.users.to_pylist(), batch.items.to_pylist(), batch.values
    (2, ['ann', 'bob'], ['7', '9'], array([5., 3.]))
    """

    def __init__(
        self,
        users: Any,
        items: Any,
        values: Any = None,
        times: Any = None,
        event_ids: Any = None,
    ) -> None:
        self._users = _texts("users", users)
        n = len(self._users)
        self._items = _sized("items", _texts("items", items), n)
        self._values = (
            [1.0] * n if values is None else _sized("values", _numbers("values", values), n)
        )
        self._times = (
            [time.time()] * n if times is None else _sized("times", _numbers("times", times), n)
        )
        given = new_event_ids(n) if event_ids is None else _texts("event_ids", event_ids)
        self._event_ids = _sized("event_ids", given, n)
        self.sequence: np.ndarray | None = None

    @classmethod
    def _from_rows(cls, rows: Sequence[tuple[Any, ...]]) -> Self:
        """Build from rows of the log: sequence number, then the columns in order."""
        batch = cls.__new__(cls)
        columns = list(map(list, zip(*rows, strict=True))) if rows else [[] for _ in range(6)]
        batch.sequence = np.array(columns[0], np.int64)
        batch._users, batch._items, batch._values, batch._times, batch._event_ids = columns[1:]
        return batch

    def __len__(self) -> int:
        return len(self._users)

    def __repr__(self) -> str:
        where = ""
        if self.sequence is not None and len(self):
            where = f", sequence {self.sequence[0]} to {self.sequence[-1]}"
        return f"EventBatch({len(self)} events{where})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EventBatch):
            return NotImplemented
        return self.lists() == other.lists()

    @cached_property
    def users(self) -> pa.StringArray:
        """User ids."""
        return pa.array(self._users, pa.string())

    @cached_property
    def items(self) -> pa.StringArray:
        """Item ids."""
        return pa.array(self._items, pa.string())

    @cached_property
    def values(self) -> np.ndarray:
        """Values."""
        return np.array(self._values, np.float64)

    @cached_property
    def times(self) -> np.ndarray:
        """Times, seconds since 1970 in UTC."""
        return np.array(self._times, np.float64)

    @cached_property
    def event_ids(self) -> pa.StringArray:
        """Ids of the events."""
        return pa.array(self._event_ids, pa.string())

    @property
    def position(self) -> int:
        """Sequence number of the last event, 0 if there is none or it is not known."""
        return int(self.sequence[-1]) if self.sequence is not None and len(self) else 0

    def lists(self) -> tuple[list[str], list[str], list[float], list[float], list[str]]:
        """Return the columns as lists of plain Python values.

        Returns
        -------
        tuple
            Users, items, values, times and event ids.
        """
        return self._users, self._items, self._values, self._times, self._event_ids

    def rows(self) -> Iterator[tuple[str, str, float, float, str]]:
        """Iterate over the events.

        Returns
        -------
        iterator
            Tuples of user, item, value, time and event id.
        """
        return zip(*self.lists(), strict=True)

    def interactions(self) -> Any:
        """Return the events as `sfumato.data.Interactions`, the values as ratings.

        Returns
        -------
        Interactions
            What `fit` and `partial_fit` of models take.
        """
        from sfumato.data import Interactions

        return Interactions(self.users, self.items, self.values, self.times)


def as_batch(events: Any) -> EventBatch:
    """Return events as a batch: one already, or a mapping of its columns."""
    if isinstance(events, EventBatch):
        return events
    if isinstance(events, Mapping):
        unknown = sorted(set(map(str, events)) - set(COLUMNS))
        if unknown:
            raise ParameterError.of(
                "Store", "events", f"has columns that are none: {', '.join(COLUMNS)} are."
            )
        missing = [name for name in ("users", "items") if name not in events]
        if missing:
            raise ParameterError.of("Store", "events", f"needs the column {missing[0]}.")
        return EventBatch(**events)
    given = type(events).__name__
    raise ParameterTypeError.of(
        "Store", "events", f"must be an EventBatch or a mapping of columns, not {given}."
    )


def new_event_ids(n: int) -> list[str]:
    """Make event ids that begin with the time, so that the log finds duplicates fast.

    Parameters
    ----------
    n : int
        How many.

    Returns
    -------
    list of str
        32 hexadecimal digits each: 64 bits of time in nanoseconds and order, 64 random bits.

    Examples
    --------
    >>> first, second = new_event_ids(2)
    >>> len(first), first < second
    (32, True)
    """
    now, random = time.time_ns(), os.urandom(8 * n).hex()
    return [f"{now + k:016x}{random[16 * k : 16 * k + 16]}" for k in range(n)]


def check_text(owner: str, name: str, value: Any, longest: int = LONGEST) -> str:
    """Return a text that both databases store unchanged, of 1 to `longest` characters."""
    if not isinstance(value, str):
        raise ParameterTypeError.of(owner, name, f"must be text, not {type(value).__name__}.")
    if not 1 <= len(value) <= longest or not _storable(value):
        raise ParameterError.of(
            owner, name, f"must be 1 to {longest} characters of text without NUL."
        )
    return value


def _texts(name: str, column: Any) -> list[str]:
    """Return a column of ids as a list of texts; errors name the row, never the id."""
    values = list(column) if type(column) is list else _listed(name, column)
    if set(map(type, values)) - {str}:
        values = [_text(name, row, value) for row, value in enumerate(values)]
    if values and (
        not all(values) or max(map(len, values)) > LONGEST or not _storable("".join(values))
    ):
        row = next(
            k for k, v in enumerate(values) if not 1 <= len(v) <= LONGEST or not _storable(v)
        )
        raise ParameterError.of(
            "EventBatch",
            name,
            f"must be 1 to {LONGEST} characters of text without NUL; row {row} is not.",
        )
    return values


def _text(name: str, row: int, value: Any) -> str:
    if value is None:
        raise NullValueError(f"EventBatch: {name}: row {row} is null; leave such events out.")
    if isinstance(value, bool) or not isinstance(value, str | int | np.integer):
        raise ParameterTypeError.of(
            "EventBatch", name, f"must be text or integers; row {row} is {type(value).__name__}."
        )
    return str(value)


def _listed(name: str, column: Any) -> list[Any]:
    if isinstance(column, str | bytes | Mapping):
        raise ParameterTypeError.of("EventBatch", name, "must be a column, not one value.")
    for method in ("to_pylist", "tolist", "to_list"):
        if hasattr(column, method):
            column = getattr(column, method)()
            break
    try:
        return list(column)
    except TypeError:
        given = type(column).__name__
        raise ParameterTypeError.of("EventBatch", name, f"must be a column, not {given}.") from None


def _numbers(name: str, column: Any) -> list[float]:
    """Return a column of finite numbers as floats."""
    values = list(column) if type(column) is list else _listed(name, column)
    if set(map(type, values)) - {float}:
        values = [_number(name, row, value) for row, value in enumerate(values)]
    if not all(map(math.isfinite, values)):
        row = next(k for k, value in enumerate(values) if not math.isfinite(value))
        raise ParameterError.of("EventBatch", name, f"must be finite numbers; row {row} is not.")
    return values


def _number(name: str, row: int, value: Any) -> float:
    if value is None:
        raise NullValueError(f"EventBatch: {name}: row {row} is null; leave such events out.")
    try:
        if isinstance(value, bool | str | bytes):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ParameterTypeError.of(
            "EventBatch", name, f"must be finite numbers; row {row} is not."
        ) from None


def _sized(name: str, values: list[Any], n: int) -> list[Any]:
    if len(values) != n:
        raise ParameterError.of(
            "EventBatch", name, f"must have {n} rows as users has, not {len(values)}."
        )
    return values


def _storable(text: str) -> bool:
    """Return whether both databases store a text: no NUL, no lone surrogates."""
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
