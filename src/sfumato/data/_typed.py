"""Texts as the numbers that the first rows were: each strictly, or an error, never another key."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["SAMPLE", "kind_of", "strict", "typed"]

SAMPLE = 20_000  # rows that decide the type of a column
IDENTIFIERS = r"^-?[0-9]+$"  # digits alone, yet no integer: with leading zeros, or too many
LEADING_ZERO = r"^-?0[0-9]"


def kind_of(sample: pa.ChunkedArray) -> pa.DataType:
    """The type of which all these texts are: integers, else numbers, else text."""
    values = sample.drop_null()
    if not len(values):
        return pa.string()
    for kind in (pa.int64(), pa.uint64()):
        if strict(values, kind) is not None:
            return kind
    digits = pc.all(pc.match_substring_regex(values, IDENTIFIERS)).as_py()
    zeros = pc.any(pc.match_substring_regex(values, LEADING_ZERO)).as_py()
    number = not digits and not zeros and strict(values, pa.float64()) is not None
    return pa.float64() if number else pa.string()


def typed(
    batches: Iterable[pa.RecordBatch], kinds: dict[str, pa.DataType], name: str
) -> Iterator[pa.RecordBatch]:
    """Batches of texts as batches of these types, of a source of this name; nulls stay nulls."""
    row = 0
    for batch in batches:
        for column, kind in kinds.items():
            if kind == pa.string():
                continue
            texts = batch.column(column)
            numbers = strict(texts, kind)
            if numbers is None:
                raise ValueError(
                    f"{name}: row {row + _first_misfit(texts, kind)}: column {column!r} is not of "
                    f"the type of the first {SAMPLE} rows; read it as text."
                )
            batch = batch.set_column(batch.schema.get_field_index(column), column, numbers)
        yield batch
        row += batch.num_rows


def strict(texts: Any, kind: pa.DataType) -> Any:
    """The values that the texts write, or None if one is not, or not so, of this type."""
    if pa.types.is_boolean(kind):
        true = pc.equal(texts, "true")
        known = pc.all(pc.or_(true, pc.equal(texts, "false"))).as_py()
        return None if known is False else true
    try:
        numbers = texts.cast(kind)
    except pa.ArrowInvalid:
        return None
    return None if pa.types.is_integer(kind) and _padded(texts) else numbers


def _padded(texts: Any) -> bool:
    """Whether one of these integers is 007, -0 or 0x1f: Arrow takes those, and loses how it was."""
    zeros = texts.filter(pc.or_(pc.starts_with(texts, "0"), pc.starts_with(texts, "-0")))
    return pc.all(pc.equal(zeros, "0")).as_py() is False


def _first_misfit(texts: pa.Array, kind: pa.DataType) -> int:
    """The first row, from 1, that is not of the type; halving finds it in a few casts."""
    rows = range(1, len(texts) + 1)
    return 1 + bisect_left(rows, True, key=lambda row: strict(texts.slice(0, row), kind) is None)
