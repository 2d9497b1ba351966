"""Open an index of any kind from its file."""

import os

from sfumato.core.file_format import regular
from sfumato.retrieve.binary.index import BinaryIndex
from sfumato.retrieve.file_format import MAGIC, IndexFormatError, Source, read_header
from sfumato.retrieve.lsh.index import LshIndex

__all__ = ["holds_index", "load"]


def load(path: Source, *, check: bool = True) -> BinaryIndex | LshIndex:
    """Load an index of any kind from its file, memory-mapped.

    Parameters
    ----------
    path : Source
        Path of the file, or its bytes, which are copied.
    check : bool, default=True
        Whether the checksums of all arrays are verified, which reads the file once. Always check a
        file from an untrusted source: invalid contents might otherwise crash the process.

    Returns
    -------
    BinaryIndex or LshIndex
        The index; only what a search needs is read into memory.

    Raises
    ------
    IndexFormatError
        If the file is not a complete, intact index.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sfumato.retrieve import LshIndex
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     LshIndex(bands=2, rows=2).add([7], [[1.0, 0.0]]).save(Path(folder, "items.index"))
    ...     data = Path(folder, "items.index").read_bytes()
    >>> len(load(data))
    1
    """
    kind = read_header(path).get("kind")
    if kind == "LshIndex":
        return LshIndex.load(path, check=check)
    if kind == "BinaryIndex":
        return BinaryIndex.load(path, check=check)
    raise IndexFormatError(f"the file holds a {kind!r}, which is no known kind of index.")


def holds_index(path: str | os.PathLike[str]) -> bool:
    """Check whether a file begins like that of an index.

    Parameters
    ----------
    path : path_like
        Path of a file.

    Returns
    -------
    bool
        True if the first bytes are those of an index; the file may still be damaged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "notes.txt")
    ...     _ = path.write_text("no index")
    ...     holds_index(path)
    False
    """
    with regular(path) as (file, _):
        return file.read(len(MAGIC)) == MAGIC
