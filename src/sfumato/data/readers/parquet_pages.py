"""A column of keys in a Parquet file, page by page: values stay where they were decompressed.

Arrow's reader copies every text once more and takes longer than hashing it. Pages of plain values
or of a dictionary, without nulls, are read here; `readable` tells which columns consist of them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.kernels import parquet as kernels
from sfumato.kernels import snappy

__all__ = ["DAMAGED", "PageHeader", "Pages", "readable"]

DAMAGED = (ValueError, IndexError, KeyError, RecursionError)  # of a page that is not as expected
ENCODINGS = {"PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"}
PLAIN, DICTIONARY = 0, (2, 8)  # numbers of encodings in page headers
DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_2 = 0, 2, 3
CODECS = {"UNCOMPRESSED": None, "SNAPPY": "snappy", "ZSTD": "zstd", "GZIP": "gzip"}
VIEWS = {
    pa.string(): pa.string_view(),
    pa.large_string(): pa.string_view(),
    pa.binary(): pa.binary_view(),
    pa.large_binary(): pa.binary_view(),
}
NUMBERS = {"INT64": (pa.int64(), pa.uint64()), "INT32": (pa.int32(), pa.uint32())}
FEW = 2  # rows of a batch for each word of a dictionary, above which the rows stay indices of it
DEEPEST = 8  # structs inside structs of a header
FIRST_HEADER, LONGEST_HEADER = 1 << 9, 1 << 16  # bytes read for a header, and if it is longer


def readable(metadata: Any, groups: list[int], at: int, kind: pa.DataType) -> bool:
    """Whether `Pages` reads leaf column `at` of all these row groups as the Arrow type `kind`."""
    leaf = metadata.schema.column(at)
    if leaf.max_repetition_level or leaf.max_definition_level > 1 or leaf.path != leaf.name:
        return False
    known = kind in VIEWS if leaf.physical_type == "BYTE_ARRAY" else kind in _numbers(leaf)
    chunks = [metadata.row_group(group).column(at) for group in groups]
    return known and all(_is_plain(chunk, leaf.max_definition_level) for chunk in chunks)


def _numbers(leaf: Any) -> tuple[pa.DataType, ...]:
    return NUMBERS.get(leaf.physical_type, ())


def _is_plain(chunk: Any, levels: int) -> bool:
    known = chunk.statistics if levels else None
    full = not levels or (known is not None and known.has_null_count and known.null_count == 0)
    here = not chunk.file_path and chunk.compression in CODECS
    return bool(full and here and set(chunk.encodings) <= ENCODINGS)


class Pages:
    """The pages of one column of a row group.

    path: the file. chunk: metadata of the column. levels: whether the values may be null. kind:
    Arrow type of the column. Texts become views of the decompressed pages.
    """

    def __init__(self, path: Path, chunk: Any, levels: int, kind: pa.DataType) -> None:
        self._path, self._chunk, self._levels = path, chunk, levels
        self._kind = kind
        name = CODECS[chunk.compression]
        self._codec = pa.Codec(name) if name else None
        self._dictionary: _Values | None = None

    def arrays(self, rows: int) -> Iterator[pa.Array]:
        """Read arrays of at most `rows` values; one of `DAMAGED` if the file is damaged."""
        values = _Values(self._kind, rows)
        for page in self._pages():
            words = self._words(page.encoding)
            while page.left:
                if values.filled == rows or not values.fits(words):
                    yield values.taken()
                values.read(page, words)
        if values.filled:
            yield values.taken()

    def _words(self, encoding: int) -> "_Values | None":
        if encoding == PLAIN:
            return None
        if encoding not in DICTIONARY or self._dictionary is None:
            raise ValueError("a page is neither plain nor of a dictionary")
        return self._dictionary

    def _pages(self) -> Iterator["_Page"]:
        at, left = int(self._chunk.data_page_offset), int(self._chunk.num_values)
        if self._chunk.has_dictionary_page:
            at = min(at, int(self._chunk.dictionary_page_offset))
        with pa.OSFile(str(self._path)) as file:
            while left > 0:
                header = _read_header(file, at)
                file.seek(at + header.size)
                stored = file.read_buffer(header.stored)
                at += header.size + header.stored
                if stored.size < header.stored:
                    raise ValueError("the file ends inside a page")
                if header.kind == DICTIONARY_PAGE:
                    self._read_dictionary(header, stored)
                elif header.kind in (DATA_PAGE, DATA_PAGE_2):
                    page = self._page(header, stored)
                    left -= page.left
                    yield page

    def _page(self, header: "PageHeader", stored: pa.Buffer) -> "_Page":
        if header.kind == DATA_PAGE_2:
            _, count, _, _, encoding, first, second, packed, _ = header.fields(8)
            begin = max(first, 0) + max(second, 0)  # bytes of levels, which are not compressed
            data = stored.slice(begin)
            if packed:
                data = self._decompressed(data, header.decompressed - begin)
            return _Page(data, 0, count, encoding)
        _, count, encoding, *_ = header.fields(5)
        data, begin = self._decompressed(stored, header.decompressed), 0
        if self._levels:
            begin = 4 + int.from_bytes(data.slice(0, 4).to_pybytes(), "little")
        return _Page(data, begin, count, encoding)

    def _decompressed(self, stored: pa.Buffer, size: int) -> pa.Buffer:
        if self._codec is None or size <= 0:
            return stored
        if self._codec.name != "snappy":
            return self._codec.decompress(stored, size)
        out = pa.allocate_buffer(size)
        if snappy.decompress(np.uint64(stored.address), stored.size, np.uint64(out.address), size):
            raise ValueError("a page is not compressed as its header says")
        return out

    def _read_dictionary(self, header: "PageHeader", stored: pa.Buffer) -> None:
        count = header.fields(7)[1]
        if not 0 <= count <= header.decompressed:
            raise ValueError("a dictionary has more words than bytes")
        data = self._decompressed(stored, header.decompressed).slice(0)  # immutable
        self._dictionary = _Values(self._kind, count, reserved=0)
        self._dictionary.read(_Page(data, 0, count, PLAIN))
        self._dictionary.freeze()


class _Page:
    """A decompressed page: where its next value is, and how many are left."""

    def __init__(self, data: pa.Buffer, begin: int, count: int, encoding: int) -> None:
        self.data, self.at, self.left, self.encoding = data, begin, count, encoding
        self._state, self._width = np.zeros(4, np.int64), 0
        if not 0 <= begin <= data.size or count < 0:
            raise ValueError("a page is shorter than its header says")
        if encoding in DICTIONARY:
            self._width = data[begin] if begin < data.size else 0
            self._state[0] = begin + 1
            if self._width > 31:
                raise ValueError("an index of a dictionary has more than 31 bits")

    def indices(self, words: int, out: np.ndarray) -> None:
        """Read the next indices of a dictionary of `words`; all are 0 if they have no bits."""
        where = np.uint64(self.data.address), self.data.size
        if not self._width:
            out[:] = 0
            failed = not words
        else:
            failed = kernels.indices(*where, self._width, words, self._state, out) < 0
        if failed:
            raise ValueError("the indices go beyond their page or dictionary")


class _Values:
    """Values of some pages: numbers, views of texts, or indices of a dictionary that is shorter.

    Buffer 0 of texts is the dictionary's page, if there is one; the others are the pages in order.
    """

    def __init__(self, kind: pa.DataType, room: int, reserved: int = 1) -> None:
        self._kind, self._text = VIEWS.get(kind, kind), kind in VIEWS
        # A view is shown as the complex number of its 16 bytes, so that NumPy moves it as one.
        self._dtype = np.dtype(np.complex128 if self._text else kind.to_pandas_dtype())
        self._room, self._reserved, self.filled = room, reserved, 0
        self._values, self._buffers = np.empty(0), list[pa.Buffer]()
        self._words: _Values | None = None

    def fits(self, words: "_Values | None") -> bool:
        """Whether values of this dictionary, or plain ones, can join those that are here."""
        return not self.filled or self._indexed(words) == self._indexed(self._words)

    def _indexed(self, words: "_Values | None") -> bool:
        return words is not None and words.filled * FEW <= self._room

    def read(self, page: _Page, words: "_Values | None" = None) -> None:
        """Take values of a page, as many as there are or as there is room for."""
        if not self.filled:
            self._values = np.empty(self._room, np.int32 if self._indexed(words) else self._dtype)
            self._buffers = [pa.py_buffer(b"")] * self._reserved
        out = self._values[self.filled : self.filled + page.left]
        self._words = words
        if words is None:
            self._read_plain(page, out)
        elif self._indexed(words):
            page.indices(words.filled, out)
        else:
            found = np.empty(out.size, np.int32)
            page.indices(words.filled, found)
            words._values.take(found, out=out, mode="clip")  # which does not copy them once more
            self._buffers[0] = words._buffers[0] if self._text else self._buffers[0]
        self.filled += out.size
        page.left -= out.size

    def _read_plain(self, page: _Page, out: np.ndarray) -> None:
        if not self._text:
            out[:] = np.frombuffer(page.data, self._dtype, out.size, page.at)
            page.at += out.nbytes
            return
        self._buffers.append(page.data)
        views, last = out.view(np.uint64).reshape(-1, 2), len(self._buffers) - 1
        page.at = kernels.text_views(
            np.uint64(page.data.address), page.at, page.data.size, last, views
        )
        if page.at < 0:
            raise ValueError("a text goes beyond its page")

    def freeze(self) -> None:
        """Make the values immutable, so that the hashes of a dictionary remain true."""
        self._values.flags.writeable = False

    def taken(self) -> pa.Array:
        """The values as an array, and room for others."""
        array = self._array()
        self.filled = 0
        return array

    def _array(self) -> pa.Array:
        if self._words is not None and self._indexed(self._words):
            found = [None, pa.py_buffer(self._values)]
            indices = pa.Array.from_buffers(pa.int32(), self.filled, found)
            return pa.DictionaryArray.from_arrays(indices, self._words._array(), safe=False)
        buffers = [None, pa.py_buffer(self._values), *(self._buffers if self._text else [])]
        return pa.Array.from_buffers(self._kind, self.filled, buffers)


def _read_header(file: Any, at: int) -> "PageHeader":
    for size in (FIRST_HEADER, LONGEST_HEADER):
        file.seek(at)
        header = PageHeader(file.read_buffer(size))
        if header.size > 0:
            return header
    raise ValueError("a page header is damaged or too long")


class PageHeader:
    """What a page header says.

    data: bytes that begin with the header. size: bytes of the header, -1 if it does not end within
    these bytes or is damaged. kind: the type of the page. stored, decompressed: bytes of the page.
    """

    def __init__(self, data: pa.Buffer) -> None:
        self._fields = np.full((9, 9), -1, np.int64)  # field 8 of the header is the last
        outer = np.empty(DEEPEST, np.int64)
        self.size = kernels.page_header(np.uint64(data.address), data.size, outer, self._fields)
        self.kind: int
        self.decompressed: int
        self.stored: int
        self.kind, self.decompressed, self.stored = map(int, self._fields[0, 1:4])
        if self.size > 0 and min(self.decompressed, self.stored) < 0:
            self.size = -1

    def fields(self, struct: int) -> list[int]:
        """Integers of a struct of the header, by the number of their field; -1 if missing."""
        return [int(each) for each in self._fields[struct]]
