"""Baskets in files: read pass by pass without being held, and written."""

import codecs
import gzip
import os
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.core import arrow_compute as pc
from sfumato.core.validation import flag, one_of, optional
from sfumato.data.readers.formats import TextFormat
from sfumato.errors import ParameterError
from sfumato.mine.itemsets.sources.baskets import CHUNK_BYTES, BasketChunk, Baskets, BasketSource
from sfumato.mine.itemsets.sources.lines import LineSource
from sfumato.mine.itemsets.sources.tables import ListSource, LongSource

__all__ = ["FORMATS", "read_baskets", "write_baskets"]

OWNER = "read_baskets"
FORMATS = ("fimi", "lines", "flat", "lists", "long")
ENDINGS = {".dat": "fimi", ".csv": "lines", ".tsv": "lines", ".flat": "flat", ".parquet": "lists"}
SEPARATORS = {"fimi": " ", "lines": ",", "flat": ","}


def read_baskets(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    basket: str | None = None,
    item: str | None = None,
    separator: str | None = None,
    text: bool = False,
    encoding: str = "utf-8",
    delimiter: str | None = None,
    header: bool | None = None,
) -> Baskets:
    """Read baskets from a file of any size, without holding them.

    Parameters
    ----------
    path : path_like
        A file; text formats may end in .gz.
    format : str or None, default=None
        One of:

        - "fimi": one basket per line, items separated by blanks; .dat;
        - "lines": one basket per line, items separated by `separator`; .csv, .tsv;
        - "flat": integers of which -1 ends a basket; .flat;
        - "lists": a Parquet column of lists; .parquet;
        - "long": rows (basket, item) of any table that `sfumato.data.read_batches` reads.

        None for the one of the file's ending; "long" if `basket` is given.
    basket : str or None, default=None
        Column of baskets, for "long": its name, or its number where it has none.
    item : str or None, default=None
        Column of items for "long", where None means "item"; column of lists for "lists", where None
        means the only one.
    separator : str or None, default=None
        One character between the items of a line; None for a comma, or a tab in a .tsv.
    text : bool, default=False
        Whether items are texts even where they look like integers.
    encoding : str, default="utf-8"
        Encoding of texts in "fimi" and "lines", one in which a line feed is a byte of its own; and
        in "long", where it is "utf-8", "latin-1" or "utf-16".
    delimiter : str or None, default=None
        Delimiter of the fields of "long" in text; None detects it in line 1.
    header : bool or None, default=None
        Whether line 1 of "long" in text contains names; None detects it.

    Returns
    -------
    Baskets
        The baskets; each pass reads the file again.

    Notes
    -----
    **Guarantee.** About one chunk of the file is in memory at a time, and the ids and counts of
    its items. Errors name file and line, never an item.

    An empty line is an empty basket; an empty field is nothing. Items of text formats are integers
    if those of the first chunk are. Rows of "long" should be sorted by basket; if they are not,
    a warning says so and every pass sorts them on disk.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "baskets.csv")
    >>> _ = path.write_text("tea,whole milk\\nrum,tea\\n")
    >>> read_baskets(path).items.tolist()
    ['tea', 'rum', 'whole milk']
    """
    file = Path(path)
    if file.is_dir():
        raise IsADirectoryError(f"{OWNER}: {file} is a folder; give one file of it.")
    if not file.is_file():
        raise FileNotFoundError(f"{OWNER}: there is no file {file}.")
    kind = _format(OWNER, file, "long" if format is None and basket is not None else format)
    as_text = flag.check(OWNER, "text", text)
    if kind == "long":
        if basket is None:
            raise ParameterError.of(OWNER, "basket", 'must name a column for format "long".')
        given = TextFormat.checked(OWNER, delimiter, header, encoding, False)
        return _made(LongSource(file, basket, "item" if item is None else item, as_text, given))
    if kind == "lists":
        return _made(ListSource(file, item))
    return _made(
        LineSource(
            file,
            marked=kind == "flat",
            separator=None if kind == "fimi" else _separator(file, separator),
            text=as_text,
            encoding=_encoding(encoding),
        )
    )


def _made(source: BasketSource) -> Baskets:
    return Baskets._of_source(source)


def _format(owner: str, path: Path, format: str | None) -> str:
    named: str | None = optional(one_of(FORMATS)).check(owner, "format", format)
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    if named is None:
        if ending not in ENDINGS:
            wanted = f"must be given, one of {', '.join(FORMATS)}, for a file named *{ending}."
            raise ParameterError.of(owner, "format", wanted)
        named = ENDINGS[ending]
    return named


def _separator(path: Path, separator: str | None) -> str:
    if separator is None:
        return "\t" if ".tsv" in path.suffixes else ","
    if not isinstance(separator, str) or len(separator) != 1 or separator in '"\n\r':
        raise ParameterError.of(
            OWNER, "separator", f"must be one character or None, not {separator!r:.20}."
        )
    return separator


def _encoding(encoding: str) -> str:
    try:
        plain = codecs.lookup(encoding).name
        if "\n".encode(plain) == b"\n":
            return plain
    except (LookupError, TypeError):
        pass
    raise ParameterError.of(
        OWNER, "encoding", f'must be one as "utf-8" or "latin-1", not {encoding!r:.40}.'
    )


def write_baskets(baskets: Baskets, path: str | os.PathLike[str], format: str | None) -> None:
    """Write baskets chunk by chunk; the file appears when it is complete."""
    owner, file = "Baskets.write", Path(path)
    kind = one_of(("fimi", "lines", "flat", "lists")).check(
        owner, "format", _format(owner, file, format)
    )
    if kind == "flat" and baskets.items.dtype == object:
        raise ParameterError.of(owner, "format", 'must not be "flat" where items are texts.')
    names = _names(baskets, kind, owner)
    part = file.with_name(file.name + ".part")
    try:
        if kind == "lists":
            _write_lists(baskets, names, part)
        else:
            opened: Any = gzip.open if file.name.lower().endswith(".gz") else open
            with opened(part, "wb") as out:
                _write_lines(baskets, names, kind, out)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def _names(baskets: Baskets, kind: str, owner: str) -> pa.Array:
    """The ids of items as they are written."""
    if kind == "lists":
        return pa.array(
            baskets.items, pa.large_string() if baskets.items.dtype == object else pa.int64()
        )
    if kind == "flat" and (baskets.items == -1).any():
        raise ParameterError.of(owner, "format", 'must not be "flat" where an item is -1.')
    names = pa.array(baskets.items).cast(pa.string())
    special = r"\s" if kind == "fimi" else r'[",\n\r]|^\s|\s$|^$'
    if baskets.items.dtype == object and pc.any(pc.match_substring_regex(names, special)).as_py():
        raise ParameterError.of(
            owner,
            "format",
            f'must be "lists": an item has a character that "{kind}" gives meaning.',
        )
    return names


def _rows(chunk: BasketChunk, names: pa.Array) -> pa.Array:
    offsets = pa.array(chunk.offsets, pa.int32())  # a chunk has far fewer items than 2**31
    return pa.ListArray.from_arrays(offsets, names.take(pa.array(chunk.items)))


def _write_lists(baskets: Baskets, names: pa.Array, part: Path) -> None:
    schema = pa.schema([("items", pa.list_(names.type))])
    with pq.ParquetWriter(part, schema) as writer:
        for chunk in baskets.read(CHUNK_BYTES):
            writer.write_batch(pa.record_batch([_rows(chunk, names)], schema=schema))


def _write_lines(baskets: Baskets, names: pa.Array, kind: str, out: IO[bytes]) -> None:
    between = SEPARATORS[kind]
    for chunk in baskets.read(CHUNK_BYTES):
        lines = pc.binary_join(_rows(chunk, names), between)
        if kind == "flat":
            filled = np.diff(chunk.offsets) > 0
            lines = pc.if_else(
                pa.array(filled), pc.binary_join_element_wise(lines, "-1", ","), "-1"
            )
        ended = pc.binary_join_element_wise(lines, "", "," if kind == "flat" else "\n")
        out.write("".join(ended.to_pylist()).encode())
