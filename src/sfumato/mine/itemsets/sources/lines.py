"""Text files of baskets: one per line, or separated by -1, read chunk by chunk."""

import csv
import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.errors import ParameterError
from sfumato.kernels.mine.itemsets import basket_lines as kernels
from sfumato.mine.itemsets.sources.columns import RawChunk, offsets_of

__all__ = ["LineSource", "opened"]

BETWEEN = (b" ", b",", b"\n", b"\r", b"\t", b";")  # what separates the integers of a line


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file's bytes, unpacked if its name ends in .gz."""
    try:
        if path.name.lower().endswith(".gz"):
            with gzip.open(path, "rb") as packed:
                yield packed  # type: ignore[misc]
        else:
            with path.open("rb") as file:
                yield file
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise ValueError(f"{path}: the gzip file is damaged or cut off.") from None


class LineSource:
    """Baskets of lines (`marked` False), or that end with -1; integers if the first chunk's are.

    separator: one character, or None for blanks. lenient: items are texts, and no bytes are
    refused.
    """

    lenient = False

    def __init__(
        self, path: Path, *, marked: bool, separator: str | None, text: bool, encoding: str
    ) -> None:
        self.path: Path
        self.name: str
        self.marked: bool
        self.path, self.name, self.marked = path, str(path), marked
        self.separator: str | None
        self.encoding: str
        self.separator, self.encoding = separator, encoding
        self.text = True if text else None  # None: not decided yet

    def by_row(self) -> "LineSource":
        """The same baskets for private use: none is refused or changes how another is read."""
        single = ("ascii", "utf-8", "iso8859", "cp125", "cp437", "cp85", "koi8", "mac")
        if not self.encoding.startswith(single):
            raise ParameterError.of(
                "read_baskets",
                "encoding",
                f'must be "utf-8" or of one byte per character, as "latin-1", for a private '
                f"release, not {self.encoding!r:.40}: in others, bytes of one line may change "
                "what another says.",
            )
        made = copy(self)
        made.lenient = made.text = True
        return made

    def chunks(self, chunk_bytes: int) -> Iterator[RawChunk]:
        """Baskets in order, about so many bytes of text at a time."""
        line = 1
        with opened(self.path) as file:
            for data in self._pieces(file, max(1, chunk_bytes // 4)):  # ids take more than text
                if self.text is None:
                    self.text = not self.marked and self._parsed(data)[1] >= 0
                yield self._texts(data, line) if self.text else self._integers(data, line)
                line += data.count(b"\n")

    def _pieces(self, file: IO[bytes], size: int) -> Iterator[bytes]:
        """Pieces that end where a basket does."""
        rest = b""
        while data := file.read(size):
            data = rest + data
            cut = self._cut(data)
            rest = data[cut:]
            if cut:
                yield data[:cut]
        if rest:
            yield rest if self.marked else rest + b"\n"

    def _cut(self, data: bytes) -> int:
        if not self.marked:
            return data.rfind(b"\n") + 1
        at = len(data)
        while (at := data.rfind(b"-1", 0, at)) >= 0:  # alone, not the start of -12
            before, after = data[max(at - 1, 0) : at], data[at + 2 : at + 3]
            if after in BETWEEN and (not before or before in BETWEEN):
                return at + 2
        return 0

    def _parsed(self, data: bytes) -> tuple[RawChunk, int]:
        """Baskets of integers, and where something else is, or -1."""
        letters = np.frombuffer(data, np.uint8)
        ids = np.empty(letters.size // 2 + 1, np.int64)
        offsets = np.empty(letters.size + 2, np.int64)
        found, baskets, fault = kernels.parse(letters, self.marked, ids, offsets)
        if self.marked and found > offsets[baskets]:  # the last basket lacks its end
            baskets += 1
            offsets[baskets] = found
        return RawChunk(offsets[: baskets + 1].copy(), ids[:found].copy()), fault

    def _integers(self, data: bytes, line: int) -> RawChunk:
        chunk, fault = self._parsed(data)
        if fault >= 0:
            line += data.count(b"\n", 0, fault)
            remedy = "" if self.marked else "; where items are texts, give text=True"
            raise ValueError(
                f"{self.path}: line {line}: an item is not an integer of at most 18 digits{remedy}."
            )
        return chunk

    def _texts(self, data: bytes, line: int) -> RawChunk:
        try:
            text = data.decode(self.encoding, "replace" if self.lenient else "strict")
        except UnicodeDecodeError as error:
            line += data.count(b"\n", 0, error.start)
            raise ValueError(
                f"{self.path}: line {line}: not {self.encoding} text; name another encoding=, as "
                '"latin-1".'
            ) from None
        text = text.removeprefix("\ufeff") if line == 1 else text
        if self.marked:
            return _marked(re.split(r"[\s,;]+", text))
        lines = text.split("\n")[:-1]
        if '"' in text and self.separator is not None:
            return _flat([_fields(row, self.separator) for row in lines])
        rows = pa.array(lines, pa.large_string())
        if self.separator is None:
            return _stripped(pc.utf8_split_whitespace(rows))
        return _stripped(pc.split_pattern(rows, self.separator))


def _fields(line: str, separator: str) -> list[str]:
    """The fields of one line; quotes that do not close, or are too long, are letters."""
    if '"' in line:
        try:
            return next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
        except csv.Error:
            pass
    return line.split(separator)


def _marked(words: list[str]) -> RawChunk:
    """Baskets of words of which "-1" ends each; the last may lack its end."""
    items = pa.array([word for word in words if word], pa.large_string())
    marks = np.asarray(pc.equal(items, "-1"))
    ends = np.cumsum(~marks)[marks]
    if marks.size and not marks[-1]:
        ends = np.append(ends, np.count_nonzero(~marks))
    return RawChunk(np.concatenate([[0], ends]), items.filter(pa.array(~marks)))


def _flat(rows: list[list[str]]) -> RawChunk:
    return _stripped(pa.array(rows, pa.large_list(pa.large_string())))


def _stripped(rows: Any) -> RawChunk:
    """Fields without blanks around them; empty ones are nothing."""
    fields = pc.utf8_trim_whitespace(rows.flatten())
    filled = pc.not_equal(fields, "")
    ends = np.concatenate([[0], np.cumsum(np.asarray(filled))])
    return RawChunk(
        ends[offsets_of(np.asarray(rows.value_lengths(), np.int64))], fields.filter(filled)
    )
