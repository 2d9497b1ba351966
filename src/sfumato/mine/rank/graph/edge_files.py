"""Graphs in files: lists of edges as text, CSV, JSON and Parquet, plain or gzip."""

import codecs
import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.ids import as_ids, numbers
from sfumato.core.validation import flag, one_of, optional
from sfumato.data import read_batches
from sfumato.data.readers import formats
from sfumato.data.readers.arrays import SPARSE
from sfumato.data.readers.base import listed
from sfumato.data.tables import names_of
from sfumato.errors import ParameterError
from sfumato.kernels.mine.itemsets import basket_lines
from sfumato.mine.itemsets.sources.lines import opened
from sfumato.mine.rank.graph.graph import Graph

__all__ = ["EdgeFile", "read_graph"]

OWNER = "read_graph"
FORMATS = ("edges", "table")
TABLES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson")
CHUNK = 32 << 20  # bytes of text at a time
COMMENTS = (b"#", b"%")
BETWEEN = re.compile(r"[,;\s]+")  # the fields of lines of edges
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
ENDS = ("source", "target")


def read_graph(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    source: str = "source",
    target: str = "target",
    weight: str | None = None,
    weighted: bool = False,
    text: bool = False,
    self_loops: str = "keep",
    multi_edges: str = "sum",
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str | None = "utf-8",
) -> Graph:
    """Read a graph from a file of edges.

    Parameters
    ----------
    path : path_like
        A file; text formats may end in .gz.
    format : {"edges", "table"} or None, default=None
        "edges" is text as of SNAP: an edge per line, its source, its target and perhaps a weight,
        separated by blanks, tabs, commas or semicolons; lines that begin with # or % are comments.
        "table" has columns, as `sfumato.data.read_batches` reads them. None for "table" at the
        endings .parquet, .arrow, .csv, .tsv, .jsonl, .json, .npy and .npz (of which a sparse matrix
        has an edge per entry), if `delimiter` or `header` is given, or if the first lines show
        another delimiter or a header: names as requested, or no number where all others have one;
        else "edges".
    source : str, default="source"
        Column of sources: its name, or its number from 0. Where columns have no names the first two
        are those of sources and targets.
    target : str, default="target"
        Column of targets.
    weight : str or None, default=None
        Column of weights.
    weighted : bool, default=False
        Whether the third field of lines is a weight; else it is ignored.
    text : bool, default=False
        Whether ids are texts even where they look like integers.
    self_loops : {"keep", "drop"}, default="keep"
        As in `Graph`.
    multi_edges : {"sum", "drop", "keep"}, default="sum"
        As in `Graph`.
    delimiter : str or None, default=None
        Of a table in text: the delimiter of its fields; None detects it.
    header : bool or None, default=None
        Of a table in text: whether line 1 contains names; None detects it.
    encoding : {"utf-8", "latin-1", "utf-16"} or None, default="utf-8"
        Encoding of text; None detects it.

    Returns
    -------
    Graph
        The graph.

    Notes
    -----
    **Guarantee.** Every line or row but a header is an edge. One that is not is refused; errors
    name file and line, never an id. Ids of "edges" are integers of at most 18 digits if all are,
    else texts.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "web.txt")
    >>> _ = path.write_text("# FromNodeId ToNodeId\\n0\\t7\\n7\\t9\\n")
    >>> read_graph(path).nodes.tolist()
    [0, 7, 9]
    """
    file = EdgeFile(
        path,
        format=format,
        source=source,
        target=target,
        weight=weight,
        weighted=weighted,
        text=text,
        delimiter=delimiter,
        header=header,
        encoding=encoding,
    )
    chunks = file.read()
    begins, ends, weights = zip(*chunks, strict=True) if chunks else ((), (), ())
    return Graph(
        _joined(begins),
        _joined(ends),
        None if not file.has_weights else np.concatenate([*weights, np.empty(0)]),
        self_loops=self_loops,
        multi_edges=multi_edges,
    )


class EdgeFile:
    """A file of edges that is read chunk by chunk."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        source: str = "source",
        target: str = "target",
        weight: str | None = None,
        weighted: bool = False,
        text: bool = False,
        delimiter: str | None = None,
        header: bool | None = None,
        encoding: str | None = "utf-8",
    ) -> None:
        self.path: Path = Path(path)
        if self.path.is_dir():
            raise IsADirectoryError(f"{OWNER}: {self.path} is a folder; give one file of it.")
        if not self.path.is_file():
            raise FileNotFoundError(f"{OWNER}: there is no file {self.path}.")
        named = optional(one_of(FORMATS)).check(OWNER, "format", format)
        self.given = formats.TextFormat.checked(OWNER, delimiter, header, encoding)
        flag.check(OWNER, "weighted", weighted)
        self.text: bool = flag.check(OWNER, "text", text)
        requested = [source, target, *([] if weight is None else [weight])]
        by_name = self._is_table() if named is None else named == "table"
        self.table: Any | bool = by_name or (named is None and self._shows_columns(requested))
        if weighted and (by_name or weight is not None):
            raise ParameterError.of(
                OWNER, "weighted", "is of lines; name the column of weights by weight=."
            )
        self.names: list[str] = self._columns(requested, weighted)
        self.has_weights: bool = len(self.names) > 2

    def _is_table(self) -> bool:
        """Whether the ending or an option says so."""
        ending = Path(self.path.name.lower().removesuffix(".gz")).suffix
        columns = ending in TABLES or formats.is_typed(self.path)
        return columns or self.given.delimiter is not None or self.given.header is not None

    def _shows_columns(self, requested: list[str]) -> bool:
        """Whether the first lines have a header, or a delimiter that is none of "edges"."""
        start = formats.start_of(self.path, formats.as_gzip(self.path))
        code = self.given.encoding
        if code == "utf-16" or (code is None and start.startswith(UTF_16)):
            return True
        if start.lstrip().startswith(COMMENTS):
            return False
        if not all(map(str.isdigit, requested)) and requested[:2] != [*ENDS]:
            return True
        lines = [line for line in start.decode("utf-8-sig", "replace").splitlines() if line]
        lines = lines[: formats.SNIFFED_ROWS]
        between = formats.delimiter_of("\n".join(lines), formats.SNIFFED_ROWS)
        if between and not BETWEEN.fullmatch(between):
            return True
        return _has_header([BETWEEN.split(line.strip()) for line in lines], requested)

    @cached_property
    def _encoding(self) -> str:
        """Encoding of text, as given or as the file is written."""
        found = self.given.encoding
        return found or formats.encoding_of(self.path, formats.as_gzip(self.path))

    def _columns(self, requested: list[str], weighted: bool) -> list[str]:
        """Columns of sources, targets and weights; the first where there are no names."""
        default = requested[:2] == [*ENDS]
        if not self.table:
            return self._numbered(["0", "1", *requested[2:]] if default else requested, weighted)
        if not default and not weighted:
            return requested
        names = names_of(self.path, self.given)
        numbered = names in ([*map(str, range(len(names)))], [*SPARSE])
        if default and not numbered and not {*ENDS} <= {*names}:
            raise ValueError(
                f"{self.path}: there are no columns 'source' and 'target'; {listed(names)}. Name "
                "them by source= and target=."
            )
        if weighted and len(names) < 3:
            raise ValueError(f"{self.path}: has {len(names)} columns, so none of weights.")
        third = names[2:3] if weighted else []
        return [*(names[:2] if default and numbered else requested[:2]), *requested[2:], *third]

    def _numbered(self, columns: list[str], weighted: bool) -> list[str]:
        for name, column in zip(("source", "target", "weight"), columns, strict=False):
            if column not in ("0", "1", "2"):
                raise ParameterError.of(
                    OWNER, name, 'must be 0, 1 or 2 where lines have no names, as of "edges".'
                )
        return [*columns, "2"] if weighted else columns

    def read(self) -> list[tuple[Any, Any, np.ndarray | None]]:
        """All chunks, read once if their ids are of the kind of the first."""
        if self.table:
            return list(self._rows())
        try:
            return list(self._lines(as_text=self.text))
        except _NotIntegersError:
            return list(self._lines(as_text=True))

    def chunks(self) -> Iterator[tuple[Any, Any, np.ndarray | None]]:
        """Sources, targets and weights, some at a time, after a pass for the kind of their ids."""
        if self.table:
            yield from self._rows()
            return
        as_text = self.text
        try:
            for _ in self._lines(as_text=as_text):
                pass
        except _NotIntegersError:
            as_text = True
        yield from self._lines(as_text=as_text)

    def _rows(self) -> Iterator[tuple[Any, Any, np.ndarray | None]]:
        text = self.names[:2] if self.text else []
        for batch in read_batches(self.path, self.names, text=text, **vars(self.given)):
            if not batch.num_rows:
                continue
            where = f"{self.path}: column "
            begins, ends = (as_ids(batch.column(i), where + self.names[i]) for i in range(2))
            weights = numbers(batch.column(2), where + self.names[2]) if self.has_weights else None
            yield begins, ends, weights

    def _lines(self, *, as_text: bool) -> Iterator[tuple[Any, Any, np.ndarray | None]]:
        line = 1
        read = self._texts if as_text or self.has_weights else self._integers
        with opened(self.path) as file:
            for data in _pieces(file):
                chunk = read(*_without_comments(data, line), as_text)
                if len(chunk[0]):
                    yield chunk
                line += data.count(b"\n")

    def _integers(
        self, data: bytes, lines: np.ndarray | int, as_text: bool
    ) -> tuple[Any, Any, np.ndarray | None]:
        letters = np.frombuffer(data, np.uint8)
        ids = np.empty(letters.size // 2 + 1, np.int64)
        offsets = np.empty(letters.size + 2, np.int64)
        _, count, fault = basket_lines.parse(letters, False, ids, offsets)
        if fault >= 0:
            raise _NotIntegersError
        offsets = offsets[: count + 1]
        sizes = np.diff(offsets)
        self._check(sizes, lines)
        at = offsets[:-1][sizes > 0]
        begin, end = map(int, self.names)
        return ids[at + begin], ids[at + end], None

    def _texts(
        self, data: bytes, lines: np.ndarray | int, as_text: bool
    ) -> tuple[Any, Any, np.ndarray | None]:
        try:
            words = data.decode(self._encoding)
        except UnicodeDecodeError as error:
            row = data.count(b"\n", 0, error.start)
            where = f"{self.path}: line {_number(lines, row)}"
            raise ValueError(
                f"{where}: not UTF-8 text; give its encoding=, or convert it."
            ) from None
        fields = _fields(words)
        sizes = np.asarray(pc.list_value_length(fields), np.int64)
        self._check(sizes, lines)
        rows = fields.filter(pa.array(sizes > 0))
        begins, ends = (pc.list_element(rows, int(name)) for name in self.names[:2])
        if not as_text:
            for each in (begins, ends):
                if not pc.all(pc.match_substring_regex(each, "^-?[0-9]{1,18}$")).as_py():
                    raise _NotIntegersError
            begins, ends = (np.asarray(each.cast(pa.int64())) for each in (begins, ends))
        if not self.has_weights:
            return begins, ends, None
        try:
            at = int(self.names[2])
            weights = pc.list_element(rows, at).cast(pa.float64()) if len(rows) else pa.array([])
        except pa.ArrowInvalid:
            raise ValueError(f"{self.path}: a weight is not a number.") from None
        return begins, ends, np.asarray(weights, np.float64)

    def _check(self, sizes: np.ndarray, lines: np.ndarray | int) -> None:
        least = 1 + max(map(int, self.names))
        wrong = (sizes > 0) & ((sizes < least) | (sizes > 3))
        if wrong.any():
            row = int(wrong.argmax())
            wanted = "source, target and weight" if least == 3 else "source and target"
            raise ValueError(
                f"{self.path}: line {_number(lines, row)}: {sizes[row]} fields, not {wanted}."
            )


def _has_header(rows: list[list[str]], requested: list[str]) -> bool:
    """Whether the first of some lines has names: those requested, or no number where all have."""
    if not rows or set(requested) <= set(rows[0]):
        return bool(rows)
    width = min(map(len, rows))
    numbers = [[formats.is_number(field) for field in row[:width]] for row in rows]
    others = [all(column) for column in zip(*numbers[1:], strict=True)]
    return not any(map(formats.is_number, rows[0])) and any(others)


class _NotIntegersError(Exception):
    """An id is not an integer, so all are texts."""


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    """Pieces of whole lines."""
    rest = b""
    while data := file.read(CHUNK):
        data = rest + data
        cut = data.rfind(b"\n") + 1
        rest = data[cut:]
        if cut:
            yield data[:cut]
    if rest:
        yield rest + b"\n"


def _without_comments(data: bytes, first: int) -> tuple[bytes, np.ndarray | int]:
    """The lines that are no comments, and the number of each, or of the first if all are there."""
    while data.startswith(COMMENTS):  # most files have them at the beginning alone
        data = data[data.index(b"\n") + 1 :]
        first += 1
    if not any(b"\n" + sign in data for sign in COMMENTS):
        return data, first
    lines = data.split(b"\n")[:-1]
    retained = [i for i, line in enumerate(lines) if not line.startswith(COMMENTS)]
    found = b"".join(lines[i] + b"\n" for i in retained)
    return found, first + np.array(retained, np.int64)


def _number(lines: np.ndarray | int, row: int) -> int:
    return int(lines + row if isinstance(lines, int) else lines[row])


def _fields(words: str) -> pa.Array:
    rows = pa.array(words.split("\n")[:-1], pa.large_string())
    rows = pc.utf8_trim_whitespace(pc.replace_substring_regex(rows, "[,;\\s]+", " "))
    fields = pc.split_pattern(rows, " ")
    empty = pa.scalar([], fields.type)
    return pc.if_else(pc.equal(rows, ""), empty, fields)


def _joined(parts: tuple[Any, ...]) -> Any:
    """One column from chunks of integers or of texts."""
    if not parts:
        return []
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    pieces = [p for part in parts for p in (part.chunks if hasattr(part, "chunks") else [part])]
    return pa.chunked_array([piece.cast(pa.large_string()) for piece in pieces])
