"""What the SQL functions of every engine compute: bytes of sketches from keys, and answers.

``sfumato_hll(column)``, ``sfumato_count_min(column)``, ``sfumato_count_sketch(column)``,
``sfumato_bloom(column)`` and ``sfumato_min_hash(column)`` aggregate a column of keys to the bytes
of a sketch (of the parameters in `MAKERS`), nulls left out. ``sfumato_merge(sketch)`` aggregates
such bytes. ``sfumato_estimate(sketch)`` is the number of distinct keys or the total of counts, and
``sfumato_estimate(sketch, key)`` that of a key.
"""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from sfumato.core.storage import load
from sfumato.sketch import BloomFilter, CountMin, CountSketch, HyperLogLog, MinHash

__all__ = ["MAKERS", "built_bytes", "estimates_of", "merged_bytes"]


MAKERS: dict[str, Callable[[], Any]] = {
    "sfumato_hll": HyperLogLog,
    "sfumato_count_min": lambda: CountMin(1 << 14),
    "sfumato_count_sketch": lambda: CountSketch(1 << 14),
    "sfumato_bloom": lambda: BloomFilter(1 << 20),
    "sfumato_min_hash": lambda: MinHash(128),
}
"""Aggregates by name, and the empty sketch that each fills."""


def built_bytes(name: str, keys: pa.Array) -> bytes:
    """Build the sketch of a column of keys.

    Parameters
    ----------
    name : str
        Name of the aggregate, one of `MAKERS`.
    keys : Array
        The column; nulls are left out, as SQL's aggregates do.

    Returns
    -------
    bytes
        Bytes of the sketch.

    Examples
    --------
    >>> made = load(built_bytes("sfumato_count_min", pa.array(["tea", None])))
    >>> made.total
    1
    """
    return bytes(MAKERS[name]().update(keys.drop_null()).to_bytes())


def merged_bytes(sketches: Iterable[bytes | None]) -> bytes | None:
    """Merge the bytes of sketches of one kind.

    Parameters
    ----------
    sketches : iterable of bytes or None
        Bytes of sketches; None is left out, as SQL's aggregates do.

    Returns
    -------
    bytes or None
        Bytes of the merged sketch, None if there was none.

    Examples
    --------
    >>> from sfumato.sketch import HyperLogLog
    >>> one, two = (HyperLogLog().update([key]).to_bytes() for key in "ab")
    >>> merged_bytes([one, None, two]) == HyperLogLog().update(["a", "b"]).to_bytes()
    True
    """
    merged = None
    for each in sketches:
        if each is None:
            continue
        sketch = load(bytes(each))
        merged = sketch if merged is None else merged.merge(sketch)
    return None if merged is None else bytes(merged.to_bytes())


def estimates_of(sketches: Iterable[Any], keys: Iterable[Any] | None = None) -> list[float | None]:
    """Estimate of every sketch: of all its keys, or of one key each.

    Parameters
    ----------
    sketches : iterable of bytes or None
        Bytes of sketches.
    keys : iterable of object or None, default=None
        One key per sketch; None for the estimate of all keys: the number of distinct keys, or the
        total of counts.

    Returns
    -------
    list of float or None
        Estimates, None where there is no sketch.

    Examples
    --------
    >>> from sfumato.sketch import CountMin
    >>> made = CountMin(64).update(["tea", "tea"]).to_bytes()
    >>> estimates_of([made, None]), estimates_of([made], ["tea"])
    ([2.0, None], [2.0])
    """
    pairs = zip(sketches, keys, strict=True) if keys is not None else ((s, _ALL) for s in sketches)
    return [None if each is None else _estimate(load(bytes(each)), key) for each, key in pairs]


_ALL = object()


def _estimate(sketch: Any, key: Any) -> float:
    if key is not _ALL:
        return float(sketch.estimate(key))
    if isinstance(sketch, HyperLogLog):
        return float(sketch.estimate())
    total = getattr(sketch, "total", None)
    if total is None:
        raise ValueError(
            f"sfumato_estimate: {type(sketch).__name__} has no estimate of all keys; give a key as "
            "well."
        )
    return float(total)
