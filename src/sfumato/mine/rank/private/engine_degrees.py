"""Degrees of nodes on an engine: edges of a node come together; histograms of degrees add up."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.edge_columns import readable_edges, texts_of

if TYPE_CHECKING:
    from sfumato.engine import Rows

__all__ = ["degree_counts"]

ENDS = pa.schema([("node", pa.binary()), ("other", pa.binary())])
Batches = Iterator[pa.RecordBatch]


def degree_counts(
    rows: "Rows", columns: tuple[str, str], degree: str, names: pa.Array | None, most: int
) -> np.ndarray:
    """The number of nodes of each degree from 0 to `most`, to which larger ones are cut.

    Parameters: rows, edges of an engine; columns, names of those of sources and targets; degree,
    which edges of a node count; names, public ids of all nodes, or None for the nodes with edges.
    """
    known = None if names is None else texts_of(names).cast(pa.binary())
    ends = rows.map(_EdgeEnds(columns, degree, known), ENDS).shuffle("node")
    found = ends.fold(partial(_histogram, most), _added)
    counts = np.concatenate([found, np.zeros(most + 1 - found.size, np.int64)])
    if names is not None:
        counts[0] = len(names) - counts.sum()
    return counts


@dataclass(frozen=True)
class _EdgeEnds:
    """Map from edges to each node with one of its neighbours, as texts; no row raises."""

    columns: tuple[str, str]
    degree: str
    names: pa.Array | None

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            ends, valid = readable_edges(tuple(batch.column(name) for name in self.columns))
            source, target = (texts_of(each).cast(pa.binary()) for each in ends)
            valid = valid & np.asarray(pc.fill_null(pc.not_equal(source, target), False))
            if self.names is not None:
                for each in (source, target):
                    valid = valid & np.asarray(pc.is_in(each, value_set=self.names))
            source, target = (each.filter(pa.array(valid)) for each in (source, target))
            if self.degree != "in":
                yield pa.RecordBatch.from_arrays([source, target], schema=ENDS)
            if self.degree != "out":
                yield pa.RecordBatch.from_arrays([target, source], schema=ENDS)


def _histogram(most: int, batches: Batches) -> np.ndarray:
    """The number of nodes of a partition by the number of their different neighbours."""
    edges = pa.Table.from_batches(batches, ENDS).group_by(ENDS.names).aggregate([])
    degrees = edges.group_by("node").aggregate([("other", "count")])["other_count"]
    return np.bincount(np.minimum(degrees.to_numpy().astype(np.int64), most), minlength=1)


def _added(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The sum of two histograms, of which one may be longer."""
    short, long = sorted((left, right), key=len)
    out = long.copy()
    out[: short.size] += short
    return out
