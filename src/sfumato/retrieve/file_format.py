"""The file of an index: written atomically, memory-mapped, and checked for damage before use.

0   4  magic "SFIX"
4   4  format number, little-endian as all that follows
8   8  length of the header
16  8  XXH64 of the 16 bytes before it and the header
24     header, JSON: kind, version, fields of that kind, arrays (name, dtype, shape, XXH64)
       zeros up to a multiple of 64, then each array, each padded likewise before the next
"""

import json
import math
import mmap
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sfumato.core.file_format import (
    NUMBERS,
    atomic_writer,
    checksum,
    json_object,
    regular,
    unreadable_version,
)
from sfumato.core.validation import integer
from sfumato.errors import IndexFormatError
from sfumato.kernels.alignment import aligned

__all__ = ["IndexFormatError", "Source", "expect", "opened", "read_header", "write"]

MAGIC, FORMAT, HEADER_LIMIT, EDGE, START = b"SFIX", 1, 1 << 20, 64, 24
LENGTH, LARGEST, MOST_AXES = integer(0, 2**48), 2**48, 8
SHORT = "the file is cut off or damaged: {}."
Source = str | os.PathLike[str] | bytes | bytearray | memoryview


class _Listed(NamedTuple):
    """One array of a file: the range of its bytes and their checksum."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    start: int
    end: int
    sum: str


def write(
    path: str | os.PathLike[str], header: dict[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write header and arrays to a file that appears only once it is complete."""
    flat = {name: _bytes(array) for name, array in arrays.items()}
    listed = [
        [name, array.dtype.str, list(array.shape), checksum(flat[name].data).hex()]
        for name, array in arrays.items()
    ]
    text = json.dumps({**header, "arrays": listed}, allow_nan=False).encode()
    if len(text) > HEADER_LIMIT:
        raise ValueError(f"index: its header would be {len(text)} bytes, above {HEADER_LIMIT}.")
    lead = MAGIC + FORMAT.to_bytes(4, "little") + len(text).to_bytes(8, "little")
    with atomic_writer(Path(path)) as file:
        file.write(lead + checksum(memoryview(lead + text)) + text)
        for each in flat.values():
            file.write(bytes(-file.tell() % EDGE))
            file.write(each.data)


def expect(header: dict[str, Any], kind: str, version: int) -> None:
    """Raise IndexFormatError for a file of another kind of index, or of another version."""
    found = header.get("kind"), header.get("version")
    if found[0] != kind:
        raise IndexFormatError(f"{kind}: the file holds a {found[0]!r}.")
    if found[1] != version:
        remedy = "build the index anew from its vectors"
        raise IndexFormatError(unreadable_version(kind, found[1], version, remedy))


def opened(path: Source, *, check: bool = True) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the header and map the arrays of a file, read-only; bytes are copied.

    **Guarantee.** The header's checksum, the file's length and the position of every array are
    verified; with `check` also the checksum of every array, which reads the entire file once.
    """
    view = _mapped(path)
    header, text_end = _header(view)
    try:
        positions = list(_positions(header.pop("arrays"), text_end))
    except (ValueError, TypeError, KeyError, OverflowError):
        raise IndexFormatError(SHORT.format("its list of arrays is invalid")) from None
    if view.size != (positions[-1].end if positions else text_end):
        raise IndexFormatError(SHORT.format("its length does not match its header"))
    last = text_end
    for listed in positions:
        if view[last : listed.start].any():
            raise IndexFormatError(SHORT.format("bytes between arrays are not zero"))
        if check and checksum(view[listed.start : listed.end].data).hex() != listed.sum:
            raise IndexFormatError(SHORT.format(f"the checksum of {listed.name} does not hold"))
        last = listed.end
    return header, {
        listed.name: view[listed.start : listed.end].view(listed.dtype).reshape(listed.shape)
        for listed in positions
    }


def read_header(path: Source) -> dict[str, Any]:
    """Read the header of a file and verify its checksum; the arrays are not read."""
    return _header(_mapped(path))[0]


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _mapped(path: Source) -> np.ndarray:
    if not isinstance(path, str | os.PathLike):
        return _copied(path)
    with regular(path) as (file, _):
        _check_head(file.read(START))
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def _copied(data: bytes | bytearray | memoryview) -> np.ndarray:
    """Copy bytes to memory aligned as in a mapped file, read-only."""
    given = memoryview(data).cast("B")
    _check_head(bytes(given[:START]))
    view: np.ndarray = aligned((len(given),), np.uint8)
    view[:] = np.frombuffer(given, np.uint8)
    view.flags.writeable = False
    return view


def _check_head(head: bytes) -> None:
    if head[:4] == b"SFUM":
        raise IndexFormatError("not an index: the file holds a sketch, a model or a release.")
    if head[:4] != MAGIC[: len(head)] or not head:
        raise IndexFormatError("not an index: the magic bytes are missing.")
    if len(head) < START:
        raise IndexFormatError(SHORT.format("it ends within its first bytes"))


def _header(view: np.ndarray) -> tuple[dict[str, Any], int]:
    lead = view[:START].tobytes()
    form, length = (int.from_bytes(lead[a:b], "little") for a, b in ((4, 8), (8, 16)))
    if form != FORMAT:
        raise IndexFormatError(f"format {form} of an index cannot be read, only {FORMAT}.")
    end = START + length
    if length > HEADER_LIMIT or end > view.size:
        raise IndexFormatError(SHORT.format("it ends within its header"))
    text = view[START:end].tobytes()
    if checksum(memoryview(lead[:16] + text)) != lead[16:]:
        raise IndexFormatError(SHORT.format("the checksum of its header does not hold"))
    try:
        return json_object(text), end
    except ValueError:
        raise IndexFormatError(SHORT.format("its header is no JSON object")) from None


def _positions(listed: Any, at: int) -> Iterator[_Listed]:
    """Byte range of each array; ValueError for an entry that is no array of numbers."""
    for name, dtype, shape, total in listed:
        cells = np.dtype(dtype) if NUMBERS.fullmatch(dtype) else None
        lengths = tuple(LENGTH.check("file", "length", size) for size in shape)
        most = math.prod(size or 1 for size in lengths)  # NumPy refuses too large ones beside a 0
        if cells is None or len(lengths) > MOST_AXES or most > LARGEST:
            raise ValueError("no array of numbers.")
        at += -at % EDGE
        end = at + math.prod(lengths) * cells.itemsize
        yield _Listed(str(name), cells, lengths, at, end, str(total))
        at = end
