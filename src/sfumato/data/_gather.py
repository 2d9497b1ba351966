"""Batches of ratings gathered into columns; rows that hold none are left out and counted."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data._columns import as_ids, numbers
from sfumato.data._typed import strict

__all__ = ["Gathered", "joined_ids"]

NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
DATE = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9:]+)?)?$"
)
BAD_RATING = "the rating is not a finite number"
BAD_TIME = "the time is neither a number nor a date (times=False reads none)"


class Gathered:
    """Columns of one source: users, items, ratings and, where asked, times, batch after batch.

    Parameters: texts, whether all fields come as texts, so that ids that are all written as
    integers become integers (007 is none). `fault` is the first bad row, from 0, and its reason.
    """

    def __init__(self, *, texts: bool) -> None:
        self.texts = texts
        self.columns: tuple[list[Any], ...] = ([], [], [], [])
        self.rows = 0
        self.skipped: Counter[str] = Counter()
        self.fault: tuple[int, str] | None = None

    def take(self, batches: Iterable[pa.RecordBatch]) -> "Gathered":
        """All batches, each of users, items, ratings and perhaps times, in this order."""
        for batch in batches:
            self._add([_decoded(column) for column in batch.columns])
        return self

    def _add(self, columns: list[pa.Array]) -> None:
        ratings, rated = _measured(columns[2], "ratings")
        faults = [
            (_empty(columns[0]), "the user is empty"),
            (_empty(columns[1]), "the item is empty"),
            (~rated, BAD_RATING),
        ]
        parts: list[Any] = [*columns[:2], ratings]
        if len(columns) > 3:
            times, timed = _measured(columns[3], "times")
            faults.append((~timed, BAD_TIME))
            parts.append(times)
        if any(bad.any() for bad, _ in faults):
            keep = pa.array(self._count(faults))
            parts = [pa.array(part).filter(keep) for part in parts]
        self._keep(parts)
        self.rows += len(columns[0])

    def _count(self, faults: list[tuple[np.ndarray, str]]) -> np.ndarray:
        """Count every bad row once, by its first reason; return the rows that are good."""
        good = np.ones(faults[0][0].size, bool)
        for bad, reason in faults:
            new = bad & good
            self.skipped[reason] += int(new.sum())
            if new.any():
                row = self.rows + int(np.flatnonzero(new)[0])
                self.fault = min(self.fault or (row, reason), (row, reason))
            good &= ~bad
        self.skipped = +self.skipped
        return good

    def _keep(self, parts: list[Any]) -> None:
        for chunks, ids, name in zip(self.columns, parts[:2], ("users", "items"), strict=False):
            chunks.append(self._ids(chunks, ids, name))
        for chunks, values in zip(self.columns[2:], parts[2:], strict=False):
            chunks.append(np.asarray(values))

    def _ids(self, before: list[Any], ids: pa.Array, name: str) -> Any:
        still_integers = not before or isinstance(before[-1], np.ndarray)
        integers = strict(ids, pa.int64()) if self.texts and still_integers else None
        return as_ids(ids if integers is None else integers, name)


def joined_ids(chunks: list[Any]) -> Any:
    """Chunks as one column: integers if all are, else texts, which integers are written as."""
    filled = [chunk for chunk in chunks if len(chunk)]
    if all(isinstance(chunk, np.ndarray) for chunk in filled):
        return np.concatenate([np.empty(0, np.int64), *filled])
    arrays = [pa.chunked_array([pa.array(c)]) if isinstance(c, np.ndarray) else c for c in filled]
    return pa.chunked_array([part for a in arrays for part in a.cast(pa.string()).chunks])


def _decoded(column: pa.Array) -> pa.Array:
    """Categories as their values, and any kind of text as plain text."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    return column.cast(pa.string()) if _is_text(column.type) else column


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _empty(ids: pa.Array) -> np.ndarray:
    missing = ids.is_null()
    if _is_text(ids.type):
        missing = pc.or_(missing, pc.equal(pc.ascii_trim_whitespace(ids.fill_null("")), ""))
    return np.asarray(missing)


def _measured(column: pa.Array, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Numbers, and which rows hold one; the others read 0."""
    if _is_text(column.type):
        column = pc.ascii_trim_whitespace(column)
        column = _dates(column) if name == "times" and _dated(column) else _parsed(column)
    there = column.drop_null()
    if not len(there):
        return np.zeros(len(column), np.int64), np.zeros(len(column), bool)
    valid = np.asarray(column.is_valid())
    if column.null_count:
        column = column.fill_null(there[0])
    if pa.types.is_floating(column.type):
        plain = np.asarray(column)
        valid &= np.isfinite(plain)
        column = np.where(valid, plain, 0.0)
    return numbers(column, name), valid


def _parsed(texts: pa.Array) -> pa.Array:
    """Texts as numbers, whole ones where all are; null where a text is none."""
    for kind in (pa.int64(), pa.float64()):
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            pass
    looks = pc.match_substring_regex(texts, NUMBER)
    return pc.if_else(looks, texts, pa.scalar(None, pa.string())).cast(pa.float64())


def _dated(texts: pa.Array) -> bool:
    """Whether the first text there is, is a date."""
    first = texts.drop_null().slice(0, 1)
    return len(first) == 1 and _dates(first).null_count == 0


def _dates(texts: pa.Array) -> pa.Array:
    """Texts as moments, those without a zone in UTC; null where a text is none."""
    looks = pc.match_substring_regex(texts, DATE)
    texts = pc.if_else(looks, texts, pa.scalar(None, pa.string()))
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            pass
    # One of them is no day of the calendar: now one by one, to the second.
    plain = pc.replace_substring_regex(pc.utf8_slice_codeunits(texts, 0, 19), "T", " ")
    day = pc.strptime(plain, format="%Y-%m-%d", unit="us", error_is_null=True)
    second = pc.strptime(plain, format="%Y-%m-%d %H:%M:%S", unit="us", error_is_null=True)
    return pc.coalesce(second, day)
