"""One keyed, stable 64-bit hash for whole columns of integers, strings or bytes.

The same integer hashes alike in every integer type, the same text alike as string and as bytes; the
hash never changes between versions, machines or runs (kernels/hash.py states the formulas). It is
not cryptographic: who chooses long texts to collide succeeds for most seeds, so the probabilities
that sketches state hold for keys that were not chosen against the hash.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato._require import whole
from sfumato.kernels import hash as kernels

__all__ = ["BLOCK", "KeyColumn", "hash_column"]

BLOCK = 1 << 16  # rows hashed at a time: half a MiB, still in the cache for the kernel after
SEED = whole(0, 2**64 - 1)
TEXT = (pa.types.is_string, pa.types.is_binary, pa.types.is_fixed_size_binary)
LARGE = (pa.types.is_large_string, pa.types.is_large_binary)
VIEW = (pa.types.is_string_view, pa.types.is_binary_view)


def hash_column(column: Any, seed: int = 0, *, name: str = "keys") -> np.ndarray:
    """The 64-bit hash of every key of a column.

    Parameters: column, integers or text as NumPy, Arrow, pandas, polars or a list; seed, of the
    hash; name, of the column in error messages.

    >>> hash_column(["tea", "milk"], seed=1)
    array([11989998076931344876, 11455680201658527236], dtype=uint64)
    """
    keys = column if isinstance(column, KeyColumn) else KeyColumn(column, name=name)
    out = np.empty(keys.size, np.uint64)
    for start, hashes in keys.blocks(seed):
        out[start : start + hashes.size] = hashes
    return out


class KeyColumn:
    """A column of keys checked as a whole, then hashed block by block without copying it.

    Parameters: column and name as for `hash_column`. `kind` is "integers", "text", or "" when the
    column is empty and has no type. Nulls, floats and mixed types raise TypeError or ValueError
    that names the column, the type and the first offending position, never a value.
    """

    def __init__(self, column: Any, *, name: str = "keys") -> None:
        self.pieces = _pieces(column, name)
        kinds = {piece.kind for piece in self.pieces}
        if len(kinds) > 1:
            raise TypeError(f"{name}: integers and text are mixed; give one type of key.")
        self.kind = kinds.pop() if kinds else ""
        self.size = sum(piece.size for piece in self.pieces)

    def blocks(self, seed: int, rows: int = BLOCK) -> Iterator[tuple[int, np.ndarray]]:
        """Pairs of a start row and the hashes from there on; the array is reused by the next."""
        seed = SEED.check("hash", "seed", seed)
        buffer = np.empty(min(rows, self.size), np.uint64)
        begin = 0
        for piece in self.pieces:
            for start in range(0, piece.size, rows):
                out = buffer[: min(rows, piece.size - start)]
                piece.hash(start, seed, out)
                yield begin + start, out
            begin += piece.size

    def take(self, rows: np.ndarray) -> list[int] | list[bytes]:
        """The keys at these rows, as plain integers or as the bytes of the text."""
        return [self._at(int(row)) for row in rows]

    def _at(self, row: int) -> Any:
        for piece in self.pieces:
            if row < piece.size:
                return piece.at(row)
            row -= piece.size
        raise IndexError(f"row {row} is past the end of the column")


class _Piece:
    """One contiguous run of keys: a NumPy integer array or an Arrow array of text."""

    def __init__(self, values: np.ndarray | pa.Array, name: str) -> None:
        self.values, self.size = values, len(values)
        self.dictionary: tuple[np.ndarray, int] | None = None
        self.kind = "integers" if isinstance(values, np.ndarray) else "text"
        if isinstance(values, pa.DictionaryArray):
            self.words = KeyColumn(values.dictionary, name=f"{name} (its dictionary)")
            self.kind, self.indices = self.words.kind, _integers(values.indices)
            if self.indices.min() < 0 or self.indices.max() >= self.words.size:
                raise ValueError(f"{name}: an index of the dictionary is out of its range.")

    def hash(self, start: int, seed: int, out: np.ndarray) -> None:
        if isinstance(self.values, np.ndarray):
            _hash_integers(self.values[start : start + out.size], seed, out)
        elif isinstance(self.values, pa.DictionaryArray):
            kernels.gather(self._words(seed), self.indices[start : start + out.size], out)
        else:
            _hash_text(self.values.slice(start, out.size), seed, out)

    def at(self, row: int) -> Any:
        value = self.values[row]
        if isinstance(value, pa.DictionaryScalar):
            value = value.value
        if hasattr(value, "as_buffer"):
            return value.as_buffer().to_pybytes()  # as it is, even if it is not UTF-8
        return int(value.as_py() if isinstance(value, pa.Scalar) else value)

    def _words(self, seed: int) -> np.ndarray:
        known = self.dictionary  # one reading: another thread may ask with another seed
        if known is None or known[1] != seed:
            known = self.dictionary = hash_column(self.words, seed), seed
        return known[0]


def _hash_integers(values: np.ndarray, seed: int, out: np.ndarray) -> None:
    hashing = kernels.unsigned if values.dtype == np.uint64 else kernels.integers
    hashing(values, kernels.key_of(seed), out)


def _hash_text(values: pa.Array, seed: int, out: np.ndarray) -> None:
    buffers, kind, first = values.buffers(), values.type, values.offset
    if any(is_kind(kind) for is_kind in VIEW):
        addresses = np.array([b.address for b in buffers[2:]] or [0], np.uint64)
        kernels.views(np.uint64(buffers[1].address + 16 * first), addresses, np.uint64(seed), out)
        return
    if pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        offsets = width * np.arange(first, first + out.size + 1)
        data = buffers[1]
    else:
        wide = np.int64 if any(is_kind(kind) for is_kind in LARGE) else np.int32
        offsets = np.frombuffer(buffers[1], wide)[first : first + out.size + 1]
        data = buffers[2]
    kernels.strings(np.uint64(data.address if data else 0), offsets, np.uint64(seed), out)


def _pieces(column: Any, name: str) -> list[_Piece]:
    """The column as runs of NumPy integers or Arrow text."""
    if isinstance(column, range):
        dtype: Any = np.uint64 if max(column.start, column.stop) > 2**63 else np.int64
        column = np.arange(column.start, column.stop, column.step, dtype=dtype)
    _refuse_others(column, name)
    if isinstance(column, np.ndarray):
        if column.ndim != 1:
            raise ValueError(f"{name}: one column is expected, not {column.ndim} dimensions.")
        if column.dtype.kind in "iu":
            native = np.ascontiguousarray(column, column.dtype.newbyteorder("="))
            return [_Piece(native, name)] if native.size else []
    arrow = _arrow(column, name)
    pieces, row = [], 0
    for chunk in arrow.chunks if isinstance(arrow, pa.ChunkedArray) else [arrow]:
        if len(chunk):
            pieces.append(_Piece(_typed(chunk, name, row), name))
        row += len(chunk)
    return pieces


def _refuse_others(column: Any, name: str) -> None:
    """Raise where something could be taken for a column that is none."""
    if isinstance(column, np.ma.MaskedArray):
        raise TypeError(f"{name}: a masked array is not a column; drop or fill what is masked.")
    if isinstance(column, Mapping):
        raise TypeError(f"{name}: a column is expected, not a mapping; give its keys and weights.")
    if isinstance(column, str | bytes):
        raise TypeError(f"{name}: a whole column is expected, not one {type(column).__name__}.")
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
    try:
        return pa.array(column)
    except (OverflowError, pa.ArrowInvalid):
        pass
    if not all(isinstance(value, int | np.integer) for value in column):
        raise TypeError("Arrow would cut floats that stand beside large integers.")
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
        raise ValueError(f"{name}: row {row} is null (type {kind}); drop or fill nulls first.")
    if pa.types.is_integer(kind):
        return _integers(chunk)
    if isinstance(chunk, pa.DictionaryArray) or any(test(kind) for test in (*TEXT, *LARGE, *VIEW)):
        return chunk
    hint = "round it to whole numbers" if pa.types.is_floating(kind) else "cast it"
    raise TypeError(
        f"{name}: integers or text are expected, not {kind} at row {row}; {hint} first."
    )


def _integers(chunk: pa.Array) -> np.ndarray:
    return np.asarray(chunk.to_numpy(zero_copy_only=True))
