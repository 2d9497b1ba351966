"""Functions that Spark calls for every partition, with less work between two of them."""

import sys
from collections.abc import Iterator
from zipimport import zipimporter

import pyarrow as pa

from sfumato.engine.base import Mapped

__all__ = ["task_of"]


def task_of(function: Mapped) -> Mapped:
    """The function of a partition as Spark should call it by `mapInArrow`."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from function(batches)
        _forget_archives()

    return task


def _forget_archives() -> None:
    """Drop the importers of archives that Python has in its cache; it makes them again if needed.

    Before every task a worker of Spark calls `importlib.invalidate_caches`, by which each importer
    reads the directory of its archive again. There is one for each package imported from
    pyspark.zip, a dozen in all, which takes longer than a small task itself.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            sys.path_importer_cache.pop(path, None)
