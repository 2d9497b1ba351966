"""The adjacency lists of a graph, from two columns of nodes: one for each node that has any."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from sfumato._require import flag
from sfumato.data._columns import as_ids

__all__ = ["Neighbourhoods", "neighbourhoods"]


@dataclass(frozen=True)
class Neighbourhoods:
    """The list of nodes[i] holds members[offsets[i]] up to members[offsets[i + 1]].

    `len` tells how many lists there are; `sets` is what a `Jaccard` kernel reads.
    """

    nodes: Any
    offsets: np.ndarray
    members: Any

    def __len__(self) -> int:
        return self.offsets.size - 1

    @property
    def sets(self) -> tuple[np.ndarray, Any]:
        """The pair (offsets, members)."""
        return self.offsets, self.members

    def take(self, places: Any) -> Self:
        """The lists at these places (not: of these nodes), in this order."""
        places = np.asarray(places, np.int64)
        sizes = np.diff(self.offsets)[places]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        # Where each list starts, less what came before it, counted up.
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[places] - offsets[:-1], sizes)
        return type(self)(_taken(self.nodes, places), offsets, _taken(self.members, rows))


def neighbourhoods(
    edges: Any, *, directed: bool = True, self_loops: bool = False
) -> Neighbourhoods:
    """One list of neighbours for every node that has one; repeated edges change no list as a set.

    Parameters: edges, two columns source and target: a matrix or table of two columns, or a pair
    of columns as a tuple; nodes are whole numbers or text. directed: the list of a node holds the
    targets of its edges; otherwise both ends of an edge are in each other's list. self_loops: True
    keeps a node in its own list where an edge says so, False drops such edges.

    >>> lists = neighbourhoods([[1, 2], [1, 3], [2, 3], [4, 4]])
    >>> lists.nodes.tolist(), lists.offsets.tolist(), lists.members.tolist()
    ([1, 2], [0, 2, 3], [2, 3, 3])
    """
    flag.check("neighbourhoods", "directed", directed)
    flag.check("neighbourhoods", "self_loops", self_loops)
    source, target, names = _coded(*_columns(edges))
    if not self_loops:
        kept = source != target
        source, target = source[kept], target[kept]
    if not directed:
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
    order = np.argsort(source, kind="stable")
    source = source[order]
    first = np.flatnonzero(np.diff(source, prepend=source[:1] - 1)) if source.size else source
    offsets = np.append(first, source.size)
    if names is None:
        return Neighbourhoods(source[first], offsets, target[order])
    return Neighbourhoods(
        names.take(pa.array(source[first])), offsets, names.take(pa.array(target[order]))
    )


def _columns(edges: Any) -> tuple[Any, Any]:
    if isinstance(edges, tuple):
        columns = list(edges)
    elif isinstance(edges, pa.Table | pa.RecordBatch):
        columns = list(edges.columns)
    elif hasattr(edges, "columns") and hasattr(edges, "__getitem__"):
        columns = [edges[name] for name in edges.columns]
    else:
        matrix = np.asarray(edges)
        columns = list(matrix.T) if matrix.ndim == 2 else [matrix]
    if len(columns) != 2:
        raise ValueError(
            f"edges: two columns, source and target, are expected, not {len(columns)}; give a "
            "matrix or table of two columns, or a pair of columns as a tuple."
        )
    return as_ids(columns[0], "edges: source"), as_ids(columns[1], "edges: target")


def _coded(source: Any, target: Any) -> tuple[np.ndarray, np.ndarray, pa.Array | None]:
    """Both columns as whole numbers, and the texts that they stand for, if they are texts."""
    if len(source) != len(target):
        raise ValueError(
            f"edges: columns must be equally long, not {len(source)} sources and {len(target)} "
            "targets."
        )
    if isinstance(source, np.ndarray) and isinstance(target, np.ndarray):
        return source, target, None
    if isinstance(source, np.ndarray) or isinstance(target, np.ndarray):
        raise TypeError("edges: sources and targets must be of one type, integers or text.")
    both = pa.chunked_array([*source.chunks, *target.chunks]).combine_chunks().dictionary_encode()
    codes = both.indices.to_numpy().astype(np.int64)
    return codes[: len(source)], codes[len(source) :], both.dictionary


def _taken(column: Any, places: np.ndarray) -> Any:
    return column[places] if isinstance(column, np.ndarray) else column.take(pa.array(places))
