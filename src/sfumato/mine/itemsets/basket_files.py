"""read_baskets: baskets of files, read again pass by pass and not held in memory."""

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

from sfumato.mine.itemsets.basket_columns import RawChunk, as_rows
from sfumato.mine.itemsets.baskets import Baskets

__all__ = ["read_baskets"]


def read_baskets(path: str | os.PathLike[str]) -> Baskets:
    """Read baskets from a file, without holding them.

    Parameters
    ----------
    path : str or path_like
        A file of one basket per line, items separated by blanks (FIMI); .gz too.

    Returns
    -------
    Baskets
        The baskets; each pass reads the file again.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "baskets.dat")
    >>> _ = path.write_text("3 1 2\\n1\\n")
    >>> read_baskets(path).size
    2
    """
    return Baskets._of_source(_Lines(Path(path)))


class _Lines:
    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)

    def chunks(self, chunk_bytes: int) -> Iterator[RawChunk]:
        opened = gzip.open if self.path.suffix == ".gz" else open
        with opened(self.path, "rb") as file:
            while lines := file.readlines(chunk_bytes):
                yield as_rows([[int(item) for item in line.split()] for line in lines])
