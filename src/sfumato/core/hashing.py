"""One seeded, stable 64-bit hash for columns of keys of any type.

A key is hashed by its value, row by row: integer 7, text "7", float 7.0 and text "7.0" are the same
key, in every container, so no row changes how another is read. A missing value (None, NaN, NaT,
masked, or neither number nor text nor date) is the one reserved key `MISSING`. The hash never
changes between versions, machines or runs (kernels/hash.py states the formulas). It is not
cryptographic: an adversary can construct long texts that collide for most seeds, so the
probabilities stated by sketches hold for keys that were not chosen against the hash.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.arrow_arrays import text_array
from sfumato.core.canonical_keys import MISSING, canonical_key, digits, plain_rows, without_point
from sfumato.core.few_keys import few_hashes, key_hash
from sfumato.core.tables import described
from sfumato.core.validation import integer
from sfumato.errors import NullValueError
from sfumato.kernels import hash as kernels
from sfumato.kernels import key_texts

__all__ = [
    "BLOCK",
    "MISSING",
    "PLAIN",
    "HashedKeys",
    "KeyColumn",
    "canonical_key",
    "hash_column",
    "hashed_keys",
    "plain_rows",
]

FEW_TEXTS = 1 << 12  # hashed one after the other: the kernel for many is slow to compile
BLOCK = 1 << 16  # rows hashed at a time: half a MiB, still in the cache for the kernel after
SEED = integer(0, 2**64 - 1)
TEXT = (pa.types.is_string, pa.types.is_binary, pa.types.is_fixed_size_binary)
LARGE = (pa.types.is_large_string, pa.types.is_large_binary)
VIEW = (pa.types.is_string_view, pa.types.is_binary_view)
PLAIN = (int, str, bytes, np.integer, type(None))  # what Arrow reads as it is, or refuses


def hash_column(column: Any, seed: int = 0, *, name: str = "keys") -> np.ndarray:
    """Hash every key of a column to 64 bits.

    Parameters
    ----------
    column : array_like of shape (n,)
        Keys as a NumPy array, Arrow array, pandas or polars column, or list; types may be mixed.
    seed : int, default=0
        Seed of the hash, from 0 to 2**64 - 1.
    name : str, default="keys"
        Name of the column in error messages.

    Returns
    -------
    ndarray of shape (n,)
        Hashes, uint64.

    Notes
    -----
    **Guarantee.** The hash of a row depends only on that row and the seed, and no value raises an
    error. Only inputs that are not a column (a table, a mapping, a single text) are refused.

    Examples
    --------
    >>> hash_column(["tea", "milk"], seed=1)
    array([11989998076931344876, 11455680201658527236], dtype=uint64)
    >>> len(set(hash_column([7, "7", 7.0, "7.0"]).tolist()))
    1
    """
    seed = SEED.check("hash", "seed", seed)
    if type(column) is np.ndarray and column.dtype == np.int64 and column.ndim == 1:
        out = np.empty(column.size, np.uint64)  # the usual case, of any length
        _hash_integers(column, seed, out)
        return out
    size, blocks = hashed_keys(column, seed, name=name)
    out = np.empty(size, np.uint64)
    for rows, hashes in blocks:
        out[rows] = hashes
    return out


class HashedKeys(NamedTuple):
    """The hashes of a column of keys, block by block; made by `hashed_keys`.

    Parameters
    ----------
    size : int
        Number of keys.
    blocks : iterable of tuple
        For every block its rows, as a slice, and their hashes, uint64.

    Examples
    --------
    >>> for rows, hashes in hashed_keys(["tea", "milk"], 1).blocks:
    ...     print(rows, hashes)
    slice(0, 2, None) [11989998076931344876 11455680201658527236]
    """

    size: int
    blocks: Iterable[tuple[slice, np.ndarray]]

    def __repr__(self) -> str:
        return f"HashedKeys({self.size} keys)"


def hashed_keys(column: Any, seed: int, *, name: str = "keys") -> HashedKeys:
    """Hash a column in blocks, few keys without the overhead of an Arrow column.

    Parameters
    ----------
    column : array_like of shape (n,)
        Keys as in `hash_column`, or a `KeyColumn`.
    seed : int
        Seed of the hash, from 0 to 2**64 - 1.
    name : str, default="keys"
        Name of the column in error messages.

    Returns
    -------
    HashedKeys
        Number of keys, and an iterable of blocks that is read once; the hashes of a block may be
        overwritten by the next one.

    Examples
    --------
    >>> hashed_keys(["tea", "milk"], 1).size
    2
    """
    kind = type(column)
    if kind is list or kind is tuple:
        if len(column) > BLOCK:
            return HashedKeys(len(column), _list_blocks(column, seed))
        few = few_hashes(column, seed)
    else:
        few = few_hashes(column, seed) if kind is np.ndarray and column.size <= BLOCK else None
    if few is not None:
        return HashedKeys(few.size, ((slice(0, few.size), few),))
    keys = column if isinstance(column, KeyColumn) else KeyColumn(column, name=name)
    return HashedKeys(keys.size, _column_blocks(keys, seed))


def _list_blocks(column: Any, seed: int) -> Iterator[tuple[slice, np.ndarray]]:
    """A long list in parts: no row changes how another is read, and none is refused."""
    for start in range(0, len(column), BLOCK):
        part = column[start : start + BLOCK]
        yield slice(start, start + len(part)), hash_column(part, seed)


def _column_blocks(keys: "KeyColumn", seed: int) -> Iterator[tuple[slice, np.ndarray]]:
    for start, hashes in keys.blocks(seed):
        yield slice(start, start + hashes.size), hashes


class KeyColumn:
    """A column of keys, hashed block by block without copying it.

    Parameters
    ----------
    column : array_like of shape (n,)
        Keys, as in `hash_column`.
    name : str, default="keys"
        Name of the column in error messages.
    strict : bool, default=False
        Accept only integers or only text. Nulls, floats and mixed types then raise TypeError or
        ValueError with the column, the type and the first offending row, never a value. Use it for
        columns that are not private, or that must be of one type.

    Attributes
    ----------
    size : int
        Number of keys.
    kind : str
        How the keys are stored: "integers" or "text"; "" if there are none.

    Examples
    --------
    >>> keys = KeyColumn([7, "tea", None])
    >>> keys.size, keys.kind
    (3, 'text')
    """

    def __init__(self, column: Any, *, name: str = "keys", strict: bool = False) -> None:
        self.pieces: list[_Piece] = _pieces(column, name, strict)
        kinds = {piece.kind for piece in self.pieces}
        if strict and len(kinds) > 1:
            raise TypeError(f"{name}: integers and text are mixed; give one type of key.")
        self.kind = "" if not kinds else "integers" if kinds == {"integers"} else "text"
        self.size: int = sum(piece.size for piece in self.pieces)

    def __repr__(self) -> str:
        return described(self, size=self.size, kind=self.kind)

    def blocks(self, seed: int, rows: int = BLOCK) -> Iterator[tuple[int, np.ndarray]]:
        """Hash the column in blocks.

        Parameters
        ----------
        seed : int
            Seed of the hash, from 0 to 2**64 - 1.
        rows : int, default=65536
            Maximum number of rows per block.

        Yields
        ------
        tuple[int, np.ndarray]
            First row of the block, and the uint64 hashes of its rows. The array is overwritten by
            the next block.
        """
        seed = SEED.check("hash", "seed", seed)
        buffer = np.empty(min(rows, self.size), np.uint64)
        begin = 0
        for piece in self.pieces:
            for start in range(0, piece.size, rows):
                out = buffer[: min(rows, piece.size - start)]
                piece.hash(start, seed, out)
                yield begin + start, out
            begin += piece.size

    def take(self, rows: np.ndarray) -> list[Any]:
        """Return the keys at some rows.

        Parameters
        ----------
        rows : ndarray
            Row numbers, from 0.

        Returns
        -------
        list
            The keys as Python values: integers, the bytes of texts, None for a missing key.
        """
        return [self._at(int(row)) for row in rows]

    def names(self) -> pa.Array:
        """Return one canonical value per key, equal for equal keys.

        Returns
        -------
        Array
            Integers if all keys are integers below 2**63, else binary texts; null for a missing
            key.
        """
        if not self.pieces:
            return pa.array([], pa.int64())
        if all(piece.simple for piece in self.pieces):
            return pa.array(np.concatenate([piece.values for piece in self.pieces]))
        return pa.concat_arrays([piece.names() for piece in self.pieces])

    def _at(self, row: int) -> Any:
        for piece in self.pieces:
            if row < piece.size:
                return piece.at(row)
            row -= piece.size
        raise IndexError(f"row {row} is past the end of the column")


class _Piece:
    """A contiguous run of keys: NumPy integers or Arrow text, and a mask of missing rows."""

    def __init__(
        self, values: np.ndarray | pa.Array, name: str, missing: np.ndarray | None = None
    ) -> None:
        self.values, self.size = values, len(values)
        self.missing = None if missing is None or not missing.any() else missing
        self.dictionary: tuple[np.ndarray, int] | None = None
        self.kind = "integers" if isinstance(values, np.ndarray) else "text"
        if isinstance(values, pa.DictionaryArray):
            self.words = KeyColumn(values.dictionary, name=f"{name} (its dictionary)")
            self.kind, self.indices = self.words.kind or "text", _integers(values.indices)
            unsigned = self.indices.view(f"u{self.indices.itemsize}")  # a negative one is large
            if int(unsigned.max()) >= self.words.size:
                raise ValueError(f"{name}: an index of the dictionary is out of its range.")

    @property
    def simple(self) -> bool:
        """Whether all keys are integers below 2**63 and none is missing."""
        if not isinstance(self.values, np.ndarray) or self.missing is not None:
            return False
        return self.values.dtype != np.uint64 or int(self.values.max()) < 2**63

    def hash(self, start: int, seed: int, out: np.ndarray) -> None:
        if isinstance(self.values, np.ndarray):
            _hash_integers(self.values[start : start + out.size], seed, out)
        elif isinstance(self.values, pa.DictionaryArray):
            kernels.gather(self._words(seed), self.indices[start : start + out.size], out)
        else:
            _hash_text(self.values.slice(start, out.size), seed, out)
        if self.missing is not None:
            out[self.missing[start : start + out.size]] = _missing_hash(seed)

    def at(self, row: int) -> Any:
        if self.missing is not None and self.missing[row]:
            return None
        value = self.values[row]
        if isinstance(value, pa.DictionaryScalar):
            return self.words._at(int(self.indices[row]))
        if hasattr(value, "as_buffer"):
            return value.as_buffer().to_pybytes()  # as it is, even if it is not UTF-8
        return int(value.as_py() if isinstance(value, pa.Scalar) else value)

    def names(self) -> pa.Array:
        """The canonical texts of the keys; null for a missing key."""
        if isinstance(self.values, pa.DictionaryArray):
            found = digits(self.words.names()).take(pa.array(self.indices))
        elif isinstance(self.values, np.ndarray):
            found = digits(pa.array(self.values))
        else:
            found = without_point(self.values.cast(pa.large_binary()))
        if self.missing is None:
            return found
        return pc.if_else(pa.array(self.missing), pa.scalar(None, pa.large_binary()), found)

    def _words(self, seed: int) -> np.ndarray:
        known = self.dictionary  # read once: another thread may set it for another seed
        if known is None or known[1] != seed:
            known = self.dictionary = _word_hashes(self.values, self.words, seed), seed
        return known[0]


SHORT = 4 << 20  # bytes of a dictionary that is remembered
_last = threading.local()  # of each thread: where a short dictionary is, its seed, itself, hashes


def _word_hashes(column: Any, words: KeyColumn, seed: int) -> np.ndarray:
    """The hashes of a column's dictionary; batches of a file share theirs, which is hashed once."""
    where, known = _fixed_memory(column.dictionary), getattr(_last, "dictionary", None)
    if known is not None and known[:2] == (where, seed):
        return np.asarray(known[3])
    hashes = hash_column(words, seed)
    if where is not None:
        _last.dictionary = where, seed, words, hashes  # no other array takes its memory
    return hashes


def _fixed_memory(words: pa.Array) -> tuple[Any, ...] | None:
    """What tells a dictionary from all others in memory; None if it is long or may change."""
    buffers = [each for each in words.buffers() if each is not None]
    flat = pa.types.is_integer(words.type) or any(is_kind(words.type) for is_kind in VIEW)
    size = sum(each.size for each in buffers)
    if not flat or size > SHORT or any(each.is_mutable for each in buffers):
        return None
    return (words.type, words.offset, len(words), *((each.address, each.size) for each in buffers))


def _hash_integers(values: np.ndarray, seed: int, out: np.ndarray) -> None:
    hashing = kernels.unsigned if values.dtype == np.uint64 else kernels.integers
    hashing(values, kernels.key_of(seed), out)


def _hash_text(values: pa.Array, seed: int, out: np.ndarray) -> None:
    buffers, kind, first = values.buffers(), values.type, values.offset
    settings = np.uint64(seed), np.empty((3, kernels.ROOM), np.uint64)
    if any(is_kind(kind) for is_kind in VIEW):
        addresses = np.array([b.address for b in buffers[2:]] or [0], np.uint64)
        kernels.views(np.uint64(buffers[1].address + 16 * first), addresses, *settings, out)
        return
    if pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        offsets = width * np.arange(first, first + out.size + 1)
        data = buffers[1]
    else:
        wide = np.int64 if any(is_kind(kind) for is_kind in LARGE) else np.int32
        offsets = np.frombuffer(buffers[1], wide)[first : first + out.size + 1]
        data = buffers[2]
    start = np.uint64(data.address if data else 0)
    if out.size <= FEW_TEXTS:
        key_texts.text_keys(start, offsets.astype(np.int64), settings[0], out)
    else:
        kernels.strings(start, offsets, *settings, out)


def _missing_hash(seed: int) -> np.uint64:
    return np.uint64(key_hash(None, seed)[0])


def _pieces(column: Any, name: str, strict: bool) -> list[_Piece]:
    """Split the column into runs of NumPy integers or Arrow text."""
    if isinstance(column, range):
        dtype: Any = np.uint64 if max(column.start, column.stop) > 2**63 else np.int64
        column = np.arange(column.start, column.stop, column.step, dtype=dtype)
    mask = None
    if isinstance(column, np.ma.MaskedArray) and not strict:
        mask, column = np.ma.getmaskarray(column), np.ma.getdata(column)
    _refuse_others(column, name)
    if isinstance(column, np.ndarray):
        if column.ndim != 1:
            raise ValueError(f"{name}: one column is expected, not {column.ndim} dimensions.")
        if column.dtype.kind in "iu":
            native = np.ascontiguousarray(column, column.dtype.newbyteorder("="))
            return [_Piece(native, name, mask)] if native.size else []
        if column.dtype.kind == "f" and not strict:
            return [_of_floats(column, name, mask)] if column.size else []
    arrow = _arrow(column, name) if strict else _any_arrow(column, name, mask)
    pieces, row = [], 0
    for chunk in arrow.chunks if isinstance(arrow, pa.ChunkedArray) else [arrow]:
        if len(chunk):
            read = _Piece(_typed(chunk, name, row), name) if strict else _of_arrow(chunk, name)
            pieces.append(read)
        row += len(chunk)
    return pieces


def _of_floats(values: np.ndarray, name: str, mask: np.ndarray | None = None) -> _Piece:
    """A piece of floats: all integral ones as integers, otherwise each as its shortest text."""
    with np.errstate(all="ignore"):  # of a long double beyond the range, or a signalling NaN
        wide = np.asarray(values, np.float64)
        missing = np.isnan(wide) if mask is None else np.isnan(wide) | mask
        integral = (wide == np.rint(wide)) & (np.abs(wide) < 2.0**63)
    if (integral | missing).all():
        return _Piece(np.where(integral, wide, 0).astype(np.int64), name, missing)
    return _of_rows(np.ma.masked_array(wide, missing).tolist(), name)


def _of_rows(values: Iterable[Any], name: str) -> _Piece:
    """A piece of values of any types, converted one by one."""
    texts = [canonical_key(value) for value in values]
    missing = np.array([text is None for text in texts], np.bool_)
    return _Piece(pa.array([text or b"" for text in texts], pa.large_binary()), name, missing)


def _of_arrow(chunk: pa.Array, name: str) -> _Piece:
    kind = chunk.type
    missing = np.asarray(chunk.is_null()) if chunk.null_count else None
    if pa.types.is_integer(kind):
        return _Piece(_integers(chunk if missing is None else chunk.fill_null(0)), name, missing)
    if isinstance(chunk, pa.DictionaryArray):
        if missing is not None:
            if missing.all():
                return _Piece(np.zeros(len(chunk), np.int64), name, missing)
            indices = chunk.indices.fill_null(chunk.indices.drop_null()[0])
            chunk = pa.DictionaryArray.from_arrays(indices, chunk.dictionary)
        return _Piece(chunk, name, missing)
    if any(test(kind) for test in (*TEXT, *LARGE, *VIEW)):
        return _Piece(chunk, name, missing)
    if pa.types.is_floating(kind):
        return _of_floats(chunk.cast(pa.float64()).to_numpy(zero_copy_only=False), name)
    if pa.types.is_nested(kind) or pa.types.is_union(kind):
        raise TypeError(f"{name}: integers or text are expected, not {kind}; name one column.")
    return _of_rows(plain_rows(chunk), name)


def _any_arrow(column: Any, name: str, mask: np.ndarray | None) -> Any:
    """The column as Arrow reads it if that changes no value; else each row on its own."""
    if isinstance(column, Iterator):
        column = list(column)
    found = None
    try:
        if isinstance(column, pa.Array | pa.ChunkedArray):
            found = column
        elif _is_untyped(column):  # to let Arrow guess a type of decimals may take hours
            kinds = set(map(type, column))
            plain = all(issubclass(kind, PLAIN) for kind in kinds)
            found = pa.array(column, mask=mask) if plain else None
        elif hasattr(column, "__arrow_c_stream__"):
            found = None if is_polars_object(column) else pa.chunked_array(column)
        else:
            found = pa.array(column, mask=mask) if mask is not None else pa.array(column)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    typed = isinstance(column, pa.Array | pa.ChunkedArray) or (
        isinstance(column, np.ndarray) and column.dtype.kind != "O"
    )
    if found is not None and (typed or _keeps_values(found.type)):
        return found
    try:
        # A date beyond Python's calendar would raise, or panic, in the column's own list.
        dated = found is not None and pa.types.is_temporal(found.type)
        chunks = found.chunks if isinstance(found, pa.ChunkedArray) else [found]
        rows = [row for each in chunks for row in plain_rows(each)] if dated else list(column)
    except TypeError:
        kind = type(column).__name__
        raise TypeError(f"{name}: a column of integers or text is expected, not {kind}.") from None
    if mask is not None:
        rows = [None if hidden else value for value, hidden in zip(rows, mask, strict=True)]
    return pa.array([canonical_key(value) for value in rows], pa.large_binary())


def is_polars_object(column: Any) -> bool:
    """Whether a polars column has Python objects, of which Arrow gets the addresses in memory."""
    return str(getattr(column, "dtype", "")) == "Object"


def _is_untyped(column: Any) -> bool:
    """Whether rows may be of any type: lists, and arrays or series of objects."""
    return isinstance(column, list | tuple) or getattr(column, "dtype", None) == np.dtype(object)


def _keeps_values(kind: pa.DataType) -> bool:
    """Whether Arrow reads values of mixed types into this one without changing any."""
    texts = (*TEXT, *LARGE, *VIEW, pa.types.is_integer, pa.types.is_null, pa.types.is_dictionary)
    return any(test(kind) for test in texts)


def _refuse_others(column: Any, name: str) -> None:
    """Raise for inputs that look like a column but are not."""
    if isinstance(column, np.ma.MaskedArray):
        raise TypeError(f"{name}: a masked array is not a column; drop or fill what is masked.")
    if isinstance(column, Mapping):
        raise TypeError(f"{name}: a column is expected, not a mapping; give its keys and weights.")
    if isinstance(column, str | bytes):
        kind = type(column).__name__
        raise TypeError(f"{name}: a whole column is expected, not one {kind}; put it into a list.")
    if isinstance(column, pa.Table | pa.RecordBatch) or hasattr(column, "columns"):
        raise TypeError(f"{name}: one column is expected, not a table; name the column.")


def _arrow(column: Any, name: str) -> Any:
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    if hasattr(column, "__arrow_c_stream__"):
        return pa.chunked_array(column)
    try:
        array = _from_python(column)
    except UnicodeEncodeError:
        raise ValueError(
            f"{name}: text must be valid Unicode; half of a pair stands alone."
        ) from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError):
        raise TypeError(_first_misfit(column, name)) from None
    if isinstance(column, list | tuple) and pa.types.is_floating(array.type):
        raise TypeError(_first_misfit(column, name))
    return array


def _from_python(column: Any) -> pa.Array:
    if isinstance(column, list | tuple) and set(map(type, column)) == {str}:
        return text_array(column)
    try:
        return pa.array(column)
    except (OverflowError, pa.ArrowInvalid):
        pass
    if not all(isinstance(value, int | np.integer) for value in column):
        raise TypeError("Arrow would truncate floats next to large integers.")
    try:
        return pa.array(column, pa.uint64())  # integers of 2**63 and more
    except OverflowError as error:
        raise TypeError(str(error)) from None


def _first_misfit(column: Any, name: str) -> str:
    try:
        types = [type(value) for value in column]
    except TypeError:
        return f"{name}: a column of integers or text is expected, not {type(column).__name__}."
    for at, kind in enumerate(types):
        if kind is not types[0] or not issubclass(kind, int | str | bytes | np.integer):
            wanted = "integers or text of one type are expected"
            return f"{name}: {wanted}, not {kind.__name__} at row {at}."
    outside = [at for at, value in enumerate(column) if not -(2**63) <= value < 2**64]
    if outside:
        return f"{name}: integers from -2**63 to 2**64 - 1 are expected; row {outside[0]} is not."
    return f"{name}: integers of 2**63 and more cannot stand beside negative ones in one column."


def _typed(chunk: pa.Array, name: str, row: int) -> Any:
    kind = chunk.type
    if chunk.null_count:
        row += chunk.is_null().index(True).as_py()
        raise NullValueError(f"{name}: row {row} is null (type {kind}); drop or fill nulls first.")
    if pa.types.is_integer(kind):
        return _integers(chunk)
    if isinstance(chunk, pa.DictionaryArray) or any(test(kind) for test in (*TEXT, *LARGE, *VIEW)):
        return chunk
    hint = "round it to integers" if pa.types.is_floating(kind) else "cast it"
    raise TypeError(
        f"{name}: integers or text are expected, not {kind} at row {row}; {hint} first."
    )


def _integers(chunk: pa.Array) -> np.ndarray:
    return np.asarray(chunk.to_numpy(zero_copy_only=True))
