"""Opening an index of any kind from its file."""

import os

from sfumato.core.file_format import regular
from sfumato.retrieve.binary.index import BinaryIndex
from sfumato.retrieve.file_format import MAGIC, IndexFormatError, Source, read_header
from sfumato.retrieve.lsh.index import LshIndex

__all__ = ["holds_index", "load"]


def load(path: Source, *, check: bool = True) -> BinaryIndex | LshIndex:
    """The index in a file, mapped and not read; IndexFormatError where it is no whole, intact one.

    Parameters
    ----------
    path : Source
        Or the bytes of a file, which are copied.
    check : bool, default=True
        Whether every checksum is verified, which reads the file once. A file from somebody else
        should be checked: what is wrong in it might otherwise crash the process.

    Returns
    -------
    BinaryIndex or LshIndex
        The index in a file, mapped and not read; IndexFormatError where it is no whole, intact one.
    """
    kind = read_header(path).get("kind")
    if kind == "LshIndex":
        return LshIndex.load(path, check=check)
    if kind == "BinaryIndex":
        return BinaryIndex.load(path, check=check)
    raise IndexFormatError(f"the file holds a {kind!r}, which is no index that is known here.")


def holds_index(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as that of an index does; it may still be damaged.

    Parameters
    ----------
    path : path_like
        TODO.

    Returns
    -------
    bool
        Whether a file begins as that of an index does; it may still be damaged.
    """
    with regular(path) as (file, _):
        return file.read(len(MAGIC)) == MAGIC
