"""The file format of sketches and models: magic, header, arrays, checksum; and atomic writes.

0   4  magic "SFUM"
4   4  format number, little-endian as all that follows
8   8  length of the header
16     header, JSON: kind, version, parameters, state, arrays (name, dtype, shape)
       zeros up to a multiple of 64, then each array, each padded likewise
end-8  XXH64 of everything before it

A reader trusts nothing: only regular files are read, and the header must be of bounded length and
declare exactly the bytes of arrays that are present, before any array is allocated.
"""

import contextlib
import errno
import functools
import hashlib
import json
import math
import os
import platform
import re
import secrets
import stat
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from io import BufferedWriter, BytesIO, FileIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.core.validation import integer
from sfumato.core.xxh64 import xxh64
from sfumato.errors import FormatError, ModelFormatError, SketchFormatError
from sfumato.kernels import hash as kernels
from sfumato.kernels.alignment import aligned

__all__ = [
    "MODEL",
    "NUMBERS",
    "SKETCH",
    "WRITTEN",
    "Packed",
    "SketchFormatError",
    "Wording",
    "atomic_writer",
    "checksum",
    "damaged",
    "json_object",
    "kind_in",
    "kind_of_file",
    "pack",
    "packed_file",
    "packed_source",
    "read_small",
    "regular",
    "remove_stale",
    "unreadable_version",
    "write_atomic",
    "write_together",
]

VERSION = integer(1, 2**31)
MAGIC, FORMAT, HEADER_LIMIT, EDGE = b"SFUM", 1, 1 << 20, 64
BUFFER = 1 << 16  # bytes of a file that are written at a time
LENGTH, MOST_AXES = integer(0, 2**48), 8
NUMBERS = re.compile(r"[<|][biuf][1248]")  # dtypes of the arrays of our files
DEPTH = 32  # of lists and objects in a header
SMALL = 1 << 18  # bytes whose checksum is not worth loading the compiler
DAMAGED = "the {} is cut off or damaged: its checksum does not hold."
PART = re.compile(r"\.sfumato-([0-9a-f]{8})-([0-9]{1,10})-[0-9a-f]{8}\.part")
STALE = 86_400.0  # seconds after which no machine still writes a temporary file
_SWEPT: set[Path] = set()
WRITTEN: deque[Path] = deque(maxlen=16)  # the last files that were written


class Wording(NamedTuple):
    """Wording of the errors for unreadable bytes: their class, the expected content, a prefix.

    Sketches and models share one format; the error names the one that was expected.
    """

    error: type[FormatError]
    content: str
    lead: str = ""

    def flaw(self, sentence: str) -> FormatError:
        """Build the error of a sentence in which {} stands for the content."""
        return self.error(self.lead + sentence.format(self.content))


SKETCH = Wording(SketchFormatError, "sketch")
MODEL = Wording(ModelFormatError, "model", "model: ")


def pack(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """Encode the header and the arrays as bytes with a checksum."""
    listed = [(name, array.dtype.str, list(array.shape)) for name, array in arrays.items()]
    text = json.dumps({**header, "arrays": listed}, allow_nan=False).encode()
    if len(text) > HEADER_LIMIT:
        raise ValueError(
            f"{header['kind']}: its parameters take {len(text)} bytes, and a file has room for "
            f"{HEADER_LIMIT}; use fewer columns or labels."
        )
    lead = MAGIC + FORMAT.to_bytes(4, "little") + len(text).to_bytes(8, "little") + text
    end = _end(listed, len(lead))
    out = BytesIO()  # gives its buffer away in the end, so that arrays are copied once
    out.seek(end + 7)
    out.write(b"\0")  # makes room for all; what lies between is zero
    out.seek(0)
    out.write(lead)
    for array in arrays.values():
        out.seek(out.tell() + -out.tell() % EDGE)
        out.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    with out.getbuffer() as content:
        total = checksum(content[:end])
    out.seek(end)
    out.write(total)
    return out.getvalue()


@contextlib.contextmanager
def damaged(owner: str, error: type[ValueError] = SketchFormatError) -> Iterator[None]:
    """Context in which any exception, except Ctrl-C, becomes a format error."""
    try:
        with np.errstate(all="ignore"):
            yield
    except Exception as found:
        reason: object = found
        if isinstance(found, MemoryError):
            reason = "it needs more memory than there is"
        elif isinstance(found, RecursionError):
            reason = "it is nested too deep"
        raise error(f"{owner}: damaged content: {reason!s:.500}") from None


def json_object(text: bytes | str) -> dict[str, Any]:
    """Parse a JSON object whose numbers are all finite; ValueError for anything else."""
    try:
        found = json.loads(text, parse_constant=_not_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("the JSON is nested too deep.") from None
    if not isinstance(found, dict):
        raise ValueError("the JSON is no object.")
    _check_depth(found, DEPTH)
    return found


def _check_depth(value: Any, levels: int) -> None:
    """Raise if nested deeper than `levels`: NumPy takes seconds for a few hundred."""
    if levels == 0:
        raise ValueError("the JSON is nested too deep.")
    for part in value.values() if isinstance(value, dict) else value:
        if isinstance(part, dict | list):
            _check_depth(part, levels - 1)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _not_finite(text)


def _not_finite(text: str) -> float:
    raise ValueError("a number is not finite.")


class Packed:
    """Bytes with verified magic, length, checksum and header; arrays are read on demand."""

    kind: str
    version: int
    parameters: dict[str, Any]
    state: dict[str, Any]

    def __init__(self, data: Any, wording: Wording = SKETCH) -> None:
        try:
            self._view = memoryview(data).cast("B")
        except TypeError:
            raise wording.flaw("a {} is read from bytes.") from None
        length = _header_length(self._view[:16], len(self._view), wording)
        if checksum(self._view[:-8]) != self._view[-8:]:
            raise wording.flaw(DAMAGED)
        self._start = 16 + length
        header = _header(self._view[16 : self._start], wording)
        self._listed = _listed(header, wording)
        if _end(self._listed, self._start) != len(self._view) - 8:
            raise wording.flaw("the header is damaged: its arrays do not fill the bytes.")
        self.kind, self.version = header["kind"], header["version"]
        self.parameters, self.state = header["parameters"], header["state"]

    def arrays(self, layout: dict[str, Any]) -> dict[str, np.ndarray]:
        """Copy the arrays out, after checking each against the declared dtype and shape."""
        if [name for name, _, _ in self._listed] != list(layout):
            raise ValueError("the arrays are not those of this kind.")
        found, at = {}, self._start
        for (name, dtype, shape), cells in zip(self._listed, layout.values(), strict=True):
            _check_shape(name, dtype, shape, cells)
            at += -at % EDGE
            size = math.prod(shape) * np.dtype(cells.dtype).itemsize
            found[name] = self._copy(cells.dtype, tuple(shape), at, size)
            at += size
        return found

    def _copy(self, dtype: Any, shape: tuple[int, ...], at: int, size: int) -> np.ndarray:
        array = aligned(shape, dtype)
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(self._view[at : at + size], np.uint8)
        return array


def _header_length(lead: Any, size: int, wording: Wording) -> int:
    """Length of the header, after checking the first 16 bytes of a file of this size."""
    if size < 24 or len(lead) < 16 or lead[:4] != MAGIC:
        raise wording.flaw("not a {}: the magic bytes are missing or cut off.")
    form = int.from_bytes(lead[4:8], "little")
    if form != FORMAT:
        raise wording.flaw(f"format {form} cannot be read, only {FORMAT}.")
    length = int.from_bytes(lead[8:16], "little")
    if length > min(HEADER_LIMIT, size - 24):
        raise wording.flaw(DAMAGED)
    return length


def _header(text: Any, wording: Wording) -> dict[str, Any]:
    """Parse a header and check the types of its fields."""
    try:
        header = json_object(bytes(text))
        header["version"] = VERSION.check("file", "version", header["version"])
        for name, kind in (("kind", str), ("parameters", dict), ("state", dict), ("arrays", list)):
            if not isinstance(header[name], kind) or (kind is str and len(header[name]) > 100):
                raise ValueError(f"{name} is invalid.")
    except (ValueError, KeyError):
        raise wording.flaw("the header is damaged.") from None
    return header


def _listed(header: dict[str, Any], wording: Wording) -> list[tuple[str, str, list[int]]]:
    """Name, dtype and shape of each array; numeric dtypes and possible sizes only."""
    listed = []
    try:
        for name, dtype, shape in header["arrays"]:
            lengths = [LENGTH.check("file", "length", size) for size in shape]
            # NumPy refuses too large ones beside a 0 as well.
            most = math.prod(size or 1 for size in lengths)
            if not isinstance(name, str) or not NUMBERS.fullmatch(dtype):
                raise ValueError
            if len(lengths) > MOST_AXES or most > LENGTH.high:
                raise ValueError
            listed.append((name, dtype, lengths))
    except (ValueError, TypeError):
        raise wording.flaw("the header is damaged.") from None
    return listed


def _end(listed: list[tuple[str, str, list[int]]], at: int) -> int:
    """Offset of the end of the last array, for arrays that begin at `at`."""
    for _, dtype, shape in listed:
        at += -at % EDGE + math.prod(shape) * np.dtype(dtype).itemsize
    return at


@contextlib.contextmanager
def regular(path: str | os.PathLike[str]) -> Iterator[tuple[BinaryIO, int]]:
    """Open a regular file; yield it and its size. A folder, device or pipe is refused at once."""
    with _naming(Path(path)):
        _refuse_irregular(os.stat(path).st_mode)
        # Do not block on a writer, should a pipe have taken the name by now.
        opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with open(opened, "rb") as file:
        found = os.fstat(file.fileno())
        with _naming(Path(path)):
            _refuse_irregular(found.st_mode)
        yield file, found.st_size


def _refuse_irregular(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder, not a file of ours")
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is not a regular file")


def kind_of_file(path: str | os.PathLike[str]) -> str:
    """The kind in the header of a file; "" if it is not a complete file of this format."""
    try:
        with regular(path) as (file, size):
            return str(_fitting_header(file, size, SKETCH)[1]["kind"])
    except SketchFormatError:
        return ""


def kind_in(data: Any) -> str:
    """The kind in the header of bytes; "" if they are not complete or not of this format."""
    try:
        view = memoryview(data).cast("B")
        begin = BytesIO(view[: 16 + HEADER_LIMIT])
        return str(_fitting_header(begin, len(view), SKETCH)[1]["kind"])
    except (TypeError, SketchFormatError):
        return ""


def _fitting_header(file: BinaryIO, size: int, wording: Wording) -> tuple[bytes, dict[str, Any]]:
    """The first bytes and the parsed header, checked against the size of the file."""
    lead = file.read(16)
    text = file.read(_header_length(lead, size, wording))
    header = _header(text, wording)
    if _end(_listed(header, wording), 16 + len(text)) != size - 8:
        raise wording.flaw(DAMAGED)
    return lead + text, header


def packed_file(path: str | os.PathLike[str], wording: Wording = SKETCH) -> memoryview:
    """Read a file whose header declares the size that it has.

    For any other file, only the header is read and the format error of `wording` is raised.
    """
    with regular(path) as (file, size):
        begin = _fitting_header(file, size, wording)[0]
        data = bytearray(begin)
        data += file.read(size - len(begin))
    return memoryview(data)


def packed_source(source: Any, wording: Wording = SKETCH) -> Any:
    """The content of a file if a path is given; anything else is returned unchanged."""
    if isinstance(source, str | os.PathLike):
        return packed_file(source, wording)
    return source


def unreadable_version(kind: str, found: Any, known: int, remedy: str) -> str:
    """The error message for a file of another version; `remedy` says how to make it anew."""
    return (
        f"{kind}: version {found} of the format cannot be read, only {known}; use the sfumato that "
        f"wrote it, or {remedy}."
    )


def read_small(path: str | os.PathLike[str], limit: int, what: str) -> bytes:
    """Read a regular file of at most `limit` bytes; `what` names its content in errors."""
    with regular(path) as (file, size):
        if size > limit:
            raise SketchFormatError(
                f"{Path(path).name}: is no file of {what}: it has {size} bytes, more than {limit}."
            )
        return file.read(limit + 1)[:limit]


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file atomically: a reader sees the old content or the new, never a part."""
    with atomic_writer(path) as file:
        file.write(data)


def write_together(files: Mapping[Path, bytes]) -> None:
    """Write several files atomically: none of them appears until all are on the disk."""
    with contextlib.ExitStack() as parts:
        written = []
        for path, data in files.items():
            part = _part_of(path)
            parts.callback(part.unlink, missing_ok=True)
            with _writing(part, path.resolve()) as file:
                file.write(data)
            written.append((part, path.resolve()))
        for part, path in written:
            _rename(part, path)


@contextlib.contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file for writing; it is renamed to `path` at the end unless an error occurs.

    A link is followed; a device, pipe or folder is refused. Errors of writing name `path`; other
    errors raised in the context, such as those of a file that is read, are passed on unchanged.
    """
    part = _part_of(path)
    path = path.resolve()
    try:
        with _writing(part, path) as file:
            yield file
        _rename(part, path)
    finally:
        part.unlink(missing_ok=True)


def _part_of(path: Path) -> Path:
    """A temporary name beside a file that is to be written."""
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    remove_stale(path.parent)
    return path.with_name(f".sfumato-{_machine()}-{os.getpid()}-{secrets.token_hex(4)}.part")


@contextlib.contextmanager
def _writing(part: Path, path: Path) -> Iterator[BinaryIO]:
    """Open the temporary file of `path`; it is on the disk at the end."""
    with _naming(path):
        raw = _PartFile(part, path)
    with BufferedWriter(raw, BUFFER) as file:
        yield file
        file.flush()
        with _naming(path):
            os.fsync(file.fileno())


def _rename(part: Path, path: Path) -> None:
    with _naming(path):
        os.replace(part, path)
    WRITTEN.append(path)


def remove_stale(folder: Path) -> None:
    """Remove temporary files of killed writers from a folder, once per process.

    Such a file has our name pattern, and no process with its number runs on this machine. Files of
    another machine that shares the folder are left for a day.
    """
    if folder in _SWEPT:
        return
    _SWEPT.add(folder)
    with contextlib.suppress(OSError), os.scandir(folder) as there:
        for entry in there:
            named = PART.fullmatch(entry.name)
            if named is None or (named[1] == _machine() and _alive(int(named[2]))):
                continue
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                old = time.time() - found.st_mtime > STALE
                if stat.S_ISREG(found.st_mode) and (old or named[1] == _machine()):
                    os.unlink(entry.path)


@functools.cache
def _machine() -> str:
    """Eight hexadecimal digits that identify this machine, or container with its own processes."""
    space = ""
    with contextlib.suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(f"{platform.node()} {space}".encode()).hexdigest()[:8]


def _alive(process: int) -> bool:
    """Whether a process with this number runs here, under any user."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


class _PartFile(FileIO):
    """A new file whose write errors name the path that it will be renamed to."""

    def __init__(self, part: Path, path: Path) -> None:
        super().__init__(part, "x")
        self._path = path

    def write(self, data: Any, /) -> int:
        with _naming(self._path):
            return super().write(data)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Context in which operating system errors name this path."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def checksum(view: memoryview) -> bytes:
    """XXH64 of the bytes."""
    if len(view) <= SMALL and "numba" not in sys.modules:
        return xxh64(view).to_bytes(8, "little")
    data = pa.py_buffer(view)
    where = np.uint64(data.address), np.uint64(data.size)
    return int(kernels.xxh64(*where, np.uint64(0))).to_bytes(8, "little")


def _check_shape(name: str, dtype: str, shape: list[int], cells: Any) -> None:
    fits = len(shape) == len(cells.shape) and all(
        have == want or (want == -1 and have >= 0)
        for have, want in zip(shape, cells.shape, strict=True)
    )
    if not fits or np.dtype(cells.dtype).str != dtype:
        raise ValueError(f"array {name} has an invalid shape or type.")
