"""Ids of users and items: columns of integers or texts, found again by value, kept in files."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.interactions import as_ids
from sfumato.hashing import canonical_key
from sfumato.sketch._stored import Cells

__all__ = [
    "NO_ID",
    "distinct",
    "id_arrays",
    "id_layout",
    "ids_from",
    "ids_of",
    "is_one",
    "kind_of",
    "places",
    "places_by_text",
    "texts",
    "unique",
]

# What fills the places of a list that is too short: -1 as in every index of `retrieve`. It is told
# from an id of the same value by its score, which is -inf.
NO_ID: dict[str, Any] = {"integers": -1, "text": ""}


def is_one(ids: Any) -> bool:
    """True for one single id, False for a column of them."""
    return isinstance(ids, str | bytes | int | np.integer) and not isinstance(ids, bool)


def ids_of(ids: Any, name: str) -> np.ndarray:
    """A column of ids, or one id, as int64 or as an object array of texts.

    Errors name the column, the type and the position, never a value.

    >>> ids_of([3, 1], "users"), ids_of("ann", "users")
    (array([3, 1]), array(['ann'], dtype=object))
    """
    if isinstance(ids, np.ndarray) and ids.dtype == np.int64 and ids.ndim == 1:
        return ids
    column = as_ids(ids, name)
    return column if isinstance(column, np.ndarray) else _plain(column)


def kind_of(ids: np.ndarray) -> str:
    """What a column of ids is made of: "integers" or "text"."""
    return "integers" if ids.dtype == np.int64 else "text"


def places(ids: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Where each id stands in another column of distinct ids, -1 for one that is not there."""
    if ids.dtype != among.dtype or not among.size:
        return np.full(ids.size, -1, np.int64)
    found = pc.index_in(_arrow(ids), value_set=_arrow(among))
    return np.asarray(pc.fill_null(found, -1), np.int64)


def texts(ids: np.ndarray, at: np.ndarray | None = None) -> pa.Array:
    """Ids as Arrow texts, all of them or those at these places; integers as they are written.

    The text does not change when another row makes a column of integers one of floats or texts.

    >>> texts(np.array([7, -3])).to_pylist(), texts(np.array(["7.0", "tea"], object)).to_pylist()
    (['7', '-3'], ['7', 'tea'])
    """
    words = _arrow(ids).cast(pa.large_string())
    if ids.dtype == object and pc.any(pc.ends_with(words, ".0")).as_py():
        keys = [canonical_key(word) or b"" for word in words.to_pylist()]
        words = pa.array(keys, pa.large_binary()).cast(pa.large_string())
    return words if at is None else pa.DictionaryArray.from_arrays(pa.array(at), words)


def places_by_text(ids: np.ndarray, among: np.ndarray) -> np.ndarray:
    """As `places`, but integer 7 and text "7" are one id, so that no row moves another's place.

    >>> places_by_text(np.array(["7", "007", "tea"], object), np.array([5, 7]))
    array([ 1, -1, -1])
    """
    if ids.dtype == among.dtype == np.int64 or not among.size:
        return places(ids, among)
    found = pc.index_in(texts(ids), value_set=texts(among))
    return np.asarray(pc.fill_null(found, -1), np.int64)


def unique(ids: np.ndarray) -> np.ndarray:
    """The ids that occur, each once, in order of first appearance."""
    return _plain(pc.unique(_arrow(ids)))


def distinct(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ids that occur, in order of first appearance, and where each row's id stands there."""
    coded = _arrow(ids).dictionary_encode()
    return _plain(coded.dictionary), np.asarray(coded.indices, np.int64)


def id_arrays(name: str, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Ids as arrays of a file: integers, or the bytes of the texts and where each ends."""
    if kind_of(ids) == "integers":
        return {name: ids}
    words = _arrow(ids)
    ends = np.frombuffer(words.buffers()[1], np.int64)[: len(words) + 1]
    letters = np.frombuffer(words.buffers()[2] or b"", np.uint8)
    return {name: letters[: ends[-1]], f"{name}_ends": ends}


def id_layout(name: str, kind: str) -> dict[str, Cells]:
    """The arrays that a file must have for distinct ids of this kind."""
    if kind == "integers":
        return {name: Cells(np.int64, (-1,))}
    if kind != "text":
        raise ValueError(f"{name} is of no known kind.")
    return {name: Cells(np.uint8, (-1,)), f"{name}_ends": Cells(np.int64, (-1,))}


def ids_from(name: str, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The ids in the arrays of a file; ValueError where they are damaged or one occurs twice."""
    ids = arrays[name]
    if f"{name}_ends" in arrays:
        ids = _plain(_texts(name, ids, arrays[f"{name}_ends"]))
    if len(pc.unique(_arrow(ids))) != ids.size:
        raise ValueError(f"an id of {name} occurs twice.")
    return ids


def _arrow(column: np.ndarray) -> pa.Array:
    return pa.array(column, pa.large_string() if column.dtype == object else None)


def _plain(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.array(whole.to_numpy(zero_copy_only=False))


def _texts(name: str, letters: np.ndarray, ends: np.ndarray) -> pa.Array:
    fits = ends.size and ends[0] == 0 and ends[-1] == letters.size and (np.diff(ends) >= 0).all()
    if not fits:
        raise ValueError(f"the texts of {name} are damaged.")
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(letters)]
    words = pa.Array.from_buffers(pa.large_string(), ends.size - 1, buffers)
    words.validate(full=True)
    return words
