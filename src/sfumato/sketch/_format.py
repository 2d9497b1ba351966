"""The bytes of a sketch: magic, format, header, cells, checksum; damage is found before use.

0   4  magic "SFUM"
4   4  format number, little-endian as all that follows
8   8  length of the header
16     header, JSON: kind, version, parameters, state, arrays (name, dtype, shape)
       zeros up to a multiple of 64, then each array, each padded likewise
end-8  XXH64 of everything before it
"""

import contextlib
import errno
import json
import math
import os
import secrets
from collections.abc import Iterator
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from sfumato._require import whole
from sfumato.hashing import hash_column
from sfumato.kernels.lanes import aligned

__all__ = ["Packed", "SketchFormatError", "checksum", "pack", "write_whole", "written_whole"]

VERSION = whole(1)
MAGIC, FORMAT, HEADER_LIMIT, EDGE = b"SFUM", 1, 1 << 20, 64
BUFFER = 1 << 16  # bytes of a file that are written at a time


class SketchFormatError(ValueError):
    """The bytes are not a whole, intact sketch that this version can read."""


def pack(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """The header and arrays as one byte string with a checksum."""
    listed = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    text = json.dumps({**header, "arrays": listed}, allow_nan=False).encode()
    out = bytearray(MAGIC + FORMAT.to_bytes(4, "little") + len(text).to_bytes(8, "little") + text)
    for array in arrays.values():
        out.extend(bytes(-len(out) % EDGE))
        out.extend(array.tobytes())
    out.extend(checksum(memoryview(out)))
    return bytes(out)


class Packed:
    """Bytes whose magic, length, checksum and header hold together; arrays are read on demand."""

    kind: str
    version: int
    parameters: dict[str, Any]
    state: dict[str, Any]

    def __init__(self, data: Any) -> None:
        try:
            self._view = memoryview(data).cast("B")
        except TypeError:
            raise SketchFormatError("a sketch is read from bytes.") from None
        self._listed = self._read_header()

    def arrays(self, layout: dict[str, Any]) -> dict[str, np.ndarray]:
        """The arrays, once each has the declared dtype and shape and all fill the bytes."""
        if [name for name, _, _ in self._listed] != list(layout):
            raise ValueError("the arrays are not those of this kind.")
        places, at = [], self._start
        for (name, dtype, shape), cells in zip(self._listed, layout.values(), strict=True):
            _check_shape(name, dtype, shape, cells)
            at += -at % EDGE
            size = math.prod(shape) * np.dtype(cells.dtype).itemsize
            places.append((name, cells.dtype, tuple(shape), at, size))
            at += size
        if at != len(self._view) - 8:
            raise ValueError("the length does not match the header.")
        return {name: self._copy(*place) for name, *place in places}

    def _read_header(self) -> list[Any]:
        view = self._view
        if len(view) < 24 or view[:4] != MAGIC:
            raise SketchFormatError("not a sketch: the magic bytes are missing or cut off.")
        form = int.from_bytes(view[4:8], "little")
        if form != FORMAT:
            raise SketchFormatError(f"format {form} cannot be read, only {FORMAT}.")
        length = int.from_bytes(view[8:16], "little")
        if length > min(HEADER_LIMIT, len(view) - 24) or checksum(view[:-8]) != view[-8:]:
            raise SketchFormatError("the sketch is cut off or damaged: its checksum does not hold.")
        self._start = 16 + length
        try:
            return self._fields(json.loads(bytes(view[16 : self._start])))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise SketchFormatError("the header is damaged.") from None

    def _fields(self, header: dict[str, Any]) -> list[Any]:
        self.kind, self.version = (
            str(header["kind"]),
            VERSION.check("file", "version", header["version"]),
        )
        self.parameters, self.state = dict(header["parameters"]), dict(header["state"])
        length = whole(0).check
        return [
            (str(name), str(dtype), [length("file", name, size) for size in shape])
            for name, dtype, shape in header["arrays"]
        ]

    def _copy(self, dtype: Any, shape: tuple[int, ...], at: int, size: int) -> np.ndarray:
        array = aligned(shape, dtype)
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(self._view[at : at + size], np.uint8)
        return array


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part."""
    with written_whole(path) as file:
        file.write(data)


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the name `path` at the end, and only if nothing was raised.

    A link is followed; a device, pipe or folder is left alone and refused. Errors of the file name
    `path`; those of anything else that is done inside, as of a file that is read, stay as they are.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with _naming(path):
            raw = _Part(part, path)
        with BufferedWriter(raw, BUFFER) as file:
            yield file
            file.flush()
            with _naming(path):
                os.fsync(file.fileno())
        with _naming(path):
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


class _Part(FileIO):
    """A new file whose failed writes name another, whose name it will take."""

    def __init__(self, part: Path, path: Path) -> None:
        super().__init__(part, "x")
        self._path = path

    def write(self, data: Any, /) -> int:
        with _naming(self._path):
            return super().write(data)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors of the system name this path."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def checksum(view: memoryview) -> bytes:
    """XXH64 of the bytes."""
    offsets = pa.py_buffer(np.array([0, len(view)], np.int64))
    column = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, pa.py_buffer(view)])
    return int(hash_column(column)[0]).to_bytes(8, "little")


def _check_shape(name: str, dtype: str, shape: list[int], cells: Any) -> None:
    fits = len(shape) == len(cells.shape) and all(
        have == want or (want == -1 and have >= 0)
        for have, want in zip(shape, cells.shape, strict=True)
    )
    if not fits or np.dtype(cells.dtype).str != dtype:
        raise ValueError(f"array {name} has the wrong shape or type.")
