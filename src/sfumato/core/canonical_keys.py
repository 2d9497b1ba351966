"""The canonical text of a key of any type: equal keys have equal texts."""

import datetime
import decimal
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc

__all__ = ["MISSING", "canonical_key", "digits", "plain_rows", "without_point"]

MISSING = b"\xff\xfe missing key"  # hashed for a missing key; not UTF-8, so no text is the same
INTEGRAL_FLOAT = re.compile(rb"(0|-?[1-9][0-9]{0,19})\.0")


def canonical_key(value: Any) -> bytes | None:
    """Return the canonical text of one key of any type.

    Parameters
    ----------
    value : object
        Integer, text, bytes, float, decimal, Boolean, complex number, date or time.

    Returns
    -------
    bytes or None
        The text, the same for equal keys: 7, "7", 7.0 and "7.0" all give ``b"7"``. None for a
        missing key: None, NaN, NaT, or a value of any other type.

    Examples
    --------
    >>> canonical_key(7.0), canonical_key("7.0"), canonical_key(True), canonical_key(float("nan"))
    (b'7', b'7', b'true', None)
    """
    try:
        return _canonical(value)
    except Exception:  # whatever a value's own type raises, as of a date beyond the calendar
        return None


def _canonical(value: Any) -> bytes | None:
    if isinstance(value, np.generic):
        value = value.item() if value.dtype.kind not in "mM" else _plain_date(value)
    if isinstance(value, str | bytes):
        text = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
        return text[:-2] if text[-2:] == b".0" and _is_integral_float(text) else text
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, complex) and not value.imag:
        value = value.real
    if isinstance(value, float | decimal.Decimal) and not math.isnan(value):
        return _number(value)
    if isinstance(value, int):
        value = int.__int__(value)  # an Enum of integers writes its name otherwise
        return str(value).encode() if abs(value) < 2**128 else hex(value).encode()
    if isinstance(value, complex) and not (math.isnan(value.real) or math.isnan(value.imag)):
        return str(value).encode()
    if isinstance(value, datetime.date | datetime.time | datetime.timedelta):
        return None if value != value else _date(value)
    return None


def plain_rows(chunk: pa.Array) -> list[Any]:
    """Convert an Arrow array of dates, times, Booleans or decimals to Python values.

    Parameters
    ----------
    chunk : Array
        The Arrow array.

    Returns
    -------
    list
        One value per row: timestamps in microseconds and UTC, times and durations as text, None
        for a null or a date that Python's calendar does not have.

    Examples
    --------
    >>> import pyarrow as pa
    >>> plain_rows(pa.array([True, None]))
    [True, None]
    """
    if pa.types.is_timestamp(chunk.type):
        unit = "us" if chunk.type.unit == "ns" else chunk.type.unit
        chunk = chunk.cast(pa.timestamp(unit, chunk.type.tz and "UTC"), safe=False)
    if pa.types.is_duration(chunk.type) or pa.types.is_time(chunk.type):
        chunk = chunk.cast(pa.string())
    try:
        return list(chunk.to_pylist())
    except (OverflowError, ValueError):  # a date beyond the calendar of Python
        return [_plain_row(value) for value in chunk]


def _plain_row(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return None


def _is_integral_float(text: bytes) -> bool:
    found = INTEGRAL_FLOAT.fullmatch(text)
    return found is not None and -(2**63) <= int(found[1]) < 2**64


def digits(names: pa.Array) -> pa.Array:
    """Convert integers to their decimal text; leave texts unchanged."""
    if not pa.types.is_integer(names.type):
        return names
    return names.cast(pa.large_string()).cast(pa.large_binary())


def without_point(texts: pa.Array) -> pa.Array:
    """Convert texts such as "7.0" to "7"; leave all others unchanged."""
    ends = pc.ends_with(texts, b".0")
    if not pc.any(ends).as_py():
        return texts
    shorter = pa.array([canonical_key(text) for text in texts.to_pylist()], pa.large_binary())
    return pc.if_else(ends, shorter, texts)


def _number(value: Any) -> bytes:
    """The digits of an integral number; for others the shortest decimal text that parses back."""
    if not math.isfinite(value):
        return b"inf" if value > 0 else b"-inf"
    if abs(value) < 2**64 and value == int(value):
        return str(int(value)).encode()
    return (repr(value) if isinstance(value, float) else str(value.normalize())).encode()


def _date(value: Any) -> bytes:
    """A date or time as ISO text, in UTC, without trailing zeros of its seconds."""
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        text = value.strftime("%Y-%m-%d %H:%M:%S.%f")
        value = text.rstrip("0").rstrip(".").removesuffix(" 00:00:00")
    return str(value).encode()


def _plain_date(value: np.generic) -> Any:
    """Convert a NumPy date to a Python one; None for NaT."""
    if np.isnat(value):
        return None
    return value.astype("datetime64[us]" if value.dtype.kind == "M" else "timedelta64[us]").item()
