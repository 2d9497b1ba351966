"""Bytes of a file, of lines or of memory in pieces that end with a line, whatever is damaged."""

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any

__all__ = ["LONGEST", "count", "whole_lines", "zipped"]

LONGEST = 1 << 20  # bytes of a line that is looked at; the longest report has 16,500


def whole_lines(source: Any, size: int, refused: dict[str, int]) -> Iterator[bytes]:
    """Pieces of about `size` bytes, each ending with a line feed.

    A line above LONGEST, and what follows damage in a .gz file, is left out and counted in
    `refused` as "unreadable". A path is opened at once, so that a missing file raises here.
    """
    return _cut_at_lines(_gathered(_chunks(source, size, refused), size), refused)


def zipped(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path).endswith(".gz")


def count(refused: dict[str, int], reason: str) -> None:
    refused[reason] = refused.get(reason, 0) + 1


def _chunks(source: Any, size: int, refused: dict[str, int]) -> Iterator[bytes]:
    """The bytes of a source, in pieces; a path is opened at once, so that a missing file raises."""
    if isinstance(source, str | os.PathLike):
        opened: Any = gzip.open if zipped(source) else open
        return _read(opened(source, "rb"), size, refused, close=True)
    if isinstance(source, bytes | bytearray | memoryview):
        return iter([bytes(source)])
    if hasattr(source, "read"):
        return _read(source, size, refused, close=False)
    if not isinstance(source, Iterable):
        raise TypeError(
            "read_reports: source must be a path, bytes, a file or lines, not "
            f"{type(source).__name__}."
        )
    return (_encoded(line).rstrip(b"\r\n") + b"\n" for line in source)


def _read(file: IO[Any], size: int, refused: dict[str, int], *, close: bool) -> Iterator[bytes]:
    # read1 hands over what was unpacked before the place where a .gz file is damaged.
    read = getattr(file, "read1", file.read)
    try:
        while piece := read(size):
            yield _encoded(piece)
    except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError):
        count(refused, "unreadable")
    finally:
        if close:
            file.close()


def _gathered(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    held, length = [], 0
    for chunk in chunks:
        held.append(chunk)
        length += len(chunk)
        if length >= size:
            yield b"".join(held)
            held, length = [], 0
    yield b"".join(held)


def _encoded(text: Any) -> bytes:
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    return bytes(text) if isinstance(text, bytes | bytearray) else b"not a line"


def _cut_at_lines(chunks: Iterator[bytes], refused: dict[str, int]) -> Iterator[bytes]:
    """The same bytes, each piece ending with a line; a line that never ends is not kept."""
    rest, skipping = b"", False
    for chunk in chunks:
        if skipping:
            skipping = b"\n" not in chunk
            chunk = b"" if skipping else chunk.split(b"\n", 1)[1]
        end = chunk.rfind(b"\n") + 1
        if end:
            yield rest + chunk[:end]
            rest = b""
        rest += chunk[end:]
        if len(rest) > LONGEST:
            count(refused, "unreadable")
            rest, skipping = b"", True
    if rest:
        yield rest + b"\n"
