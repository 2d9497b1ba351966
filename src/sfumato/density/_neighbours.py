"""The adjacency lists of a graph, from two columns of nodes: one for each node that has any."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from sfumato._require import flag
from sfumato.data._columns import as_ids
from sfumato.hashing import KeyColumn

__all__ = ["Neighbourhoods", "neighbourhoods", "private_neighbourhoods", "readable_edges"]


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
    source, target = _columns(edges)
    coded = _coded(as_ids(source, "edges: source"), as_ids(target, "edges: target"))
    return _lists(*coded, directed, self_loops)


def private_neighbourhoods(edges: Any, *, directed: bool, self_loops: bool) -> Neighbourhoods:
    """As `neighbourhoods`, and no edge is refused or changes how another is read.

    Guarantee: nodes are told apart by their values alone (`sfumato.hashing`: 7, 7.0 and "7" are one
    node, in any container), and an edge without two ends (None, NaN, no pair) is dropped. So an
    edge changes the list of its source, and undirected that of its target, whatever its type.
    What is wrong with the container as a whole, which is public, is refused.
    """
    ends, known = readable_edges(edges)
    kept = pa.array(known)
    return _lists(*_numbered(*(end.filter(kept) for end in ends)), directed, self_loops)


def readable_edges(edges: Any) -> tuple[tuple[pa.Array, pa.Array], np.ndarray]:
    """Both ends of every edge as values that are equal where nodes are; which edges have both."""
    source, target = (KeyColumn(column, name="edges").names() for column in _any_columns(edges))
    if len(source) != len(target):
        raise ValueError("edges: columns must be equally long.")
    if source.type != target.type:
        source, target = _texts(source), _texts(target)
    return (source, target), np.asarray(source.is_valid()) & np.asarray(target.is_valid())


def _lists(
    source: np.ndarray,
    target: np.ndarray,
    names: pa.Array | None,
    directed: bool,
    self_loops: bool,
) -> Neighbourhoods:
    """The lists of edges between nodes that have these numbers."""
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


def _columns(edges: Any) -> list[Any]:
    columns = _table_columns(edges)
    if columns is None:
        matrix = np.asarray(edges)
        columns = list(matrix.T) if matrix.ndim == 2 else [matrix]
    return _two(columns)


def _any_columns(edges: Any) -> list[Any]:
    """The two columns; of a list of edges, of which those that are no pair have no ends."""
    columns = _table_columns(edges)
    if columns is not None:
        return _two(columns)
    if isinstance(edges, np.ndarray) and edges.ndim != 1:
        return _two(list(edges.T) if edges.ndim == 2 else [edges])
    if not isinstance(edges, list | np.ndarray):
        kind = type(edges).__name__
        raise TypeError(f"edges: a matrix, a table or a list of pairs is expected, not {kind}.")
    ends = np.full((2, len(edges)), None, object)
    for place, edge in enumerate(edges):
        if _is_pair(edge):
            ends[0, place], ends[1, place] = edge
    return list(ends)


def _is_pair(edge: Any) -> bool:
    if isinstance(edge, np.ndarray):
        return bool(edge.shape == (2,))
    return isinstance(edge, list | tuple) and len(edge) == 2


def _table_columns(edges: Any) -> list[Any] | None:
    """The columns of a table or of a tuple; None where it is neither."""
    if isinstance(edges, tuple):
        return list(edges)
    if isinstance(edges, pa.Table | pa.RecordBatch):
        return list(edges.columns)
    if hasattr(edges, "columns") and hasattr(edges, "__getitem__"):
        return [edges[name] for name in edges.columns]
    return None


def _two(columns: list[Any]) -> list[Any]:
    if len(columns) != 2:
        raise ValueError(
            f"edges: two columns, source and target, are expected, not {len(columns)}; give a "
            "matrix or table of two columns, or a pair of columns as a tuple."
        )
    return columns


def _texts(names: pa.Array) -> pa.Array:
    """Whole numbers as the texts that are the same keys."""
    return names.cast(pa.string()).cast(pa.large_binary()) if _are_whole(names) else names


def _are_whole(names: pa.Array) -> bool:
    return bool(pa.types.is_integer(names.type))


def _numbered(source: pa.Array, target: pa.Array) -> tuple[np.ndarray, np.ndarray, pa.Array | None]:
    """Both ends as whole numbers, and the texts that they stand for, if they are texts."""
    if _are_whole(source):
        return source.to_numpy(), target.to_numpy(), None
    both = pa.chunked_array([source, target]).combine_chunks().dictionary_encode()
    codes = both.indices.to_numpy().astype(np.int64)
    return codes[: len(source)], codes[len(source) :], both.dictionary


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
    return _numbered(source.combine_chunks(), target.combine_chunks())


def _taken(column: Any, places: np.ndarray) -> Any:
    return column[places] if isinstance(column, np.ndarray) else column.take(pa.array(places))
