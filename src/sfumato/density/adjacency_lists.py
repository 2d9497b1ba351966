"""Adjacency lists of a graph from two columns of nodes: one list for each node with edges."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from sfumato.core.edge_columns import (
    numbered_ends,
    readable_edges,
    table_columns,
    two_columns,
)
from sfumato.core.ids import as_ids
from sfumato.core.typing import Matrix
from sfumato.core.validation import flag

__all__ = ["Neighbourhoods", "neighbourhoods", "private_neighbourhoods"]


@dataclass(frozen=True)
class Neighbourhoods:
    """Adjacency lists: that of nodes[i] is members[offsets[i]:offsets[i + 1]].

    `len` is the number of lists; `sets` is what a `Jaccard` kernel reads.
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

    def take(self, positions: Any) -> Self:
        """The lists at these positions (not: of these nodes), in this order."""
        positions = np.asarray(positions, np.int64)
        sizes = np.diff(self.offsets)[positions]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        # Start of each list minus the members before it, plus a running count.
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[positions] - offsets[:-1], sizes)
        return type(self)(_taken(self.nodes, positions), offsets, _taken(self.members, rows))


def neighbourhoods(
    edges: Matrix, *, directed: bool = True, self_loops: bool = False
) -> Neighbourhoods:
    """Collect the neighbours of every node of a graph that has any.

    Parameters
    ----------
    edges : array_like
        Two columns, source and target: a matrix or table of two columns, or a pair of columns as a
        tuple. Nodes are integers or text. Repeated edges do not change a list as a set.
    directed : bool, default=True
        Whether the list of a node contains the targets of its edges only; otherwise the ends of an
        edge are in each other's list.
    self_loops : bool, default=False
        Whether a node with an edge to itself is in its own list; otherwise such edges are dropped.

    Returns
    -------
    Neighbourhoods
        One list for each node with at least one neighbour: `nodes`, `offsets` and `members`.

    Examples
    --------
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
    """Collect neighbours as `neighbourhoods` does, reading each edge by itself and refusing none.

    Nodes are compared by value alone (`sfumato.core.hashing`: 7, 7.0 and "7" are one node, in any
    container), and an edge without two ends (None, NaN, no pair) is dropped. So an edge changes the
    list of its source, and undirected also that of its target, whatever its type. An invalid
    container, which is public, is refused.
    """
    ends, known = readable_edges(edges)
    mask = pa.array(known)
    return _lists(*numbered_ends(*(end.filter(mask) for end in ends)), directed, self_loops)


def _lists(
    source: np.ndarray,
    target: np.ndarray,
    names: pa.Array | None,
    directed: bool,
    self_loops: bool,
) -> Neighbourhoods:
    """Adjacency lists of edges between numbered nodes; names are the texts of the numbers."""
    if not self_loops:
        mask = source != target
        source, target = source[mask], target[mask]
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
    """The columns source and target of a matrix or table."""
    columns = table_columns(edges)
    if columns is None:
        matrix = np.asarray(edges)
        columns = list(matrix.T) if matrix.ndim == 2 else [matrix]
    return two_columns(columns)


def _coded(source: Any, target: Any) -> tuple[np.ndarray, np.ndarray, pa.Array | None]:
    """Both columns as integers, and the texts that the integers stand for (None for integers)."""
    if len(source) != len(target):
        raise ValueError(
            f"edges: columns must be equally long, not {len(source)} sources and {len(target)} "
            "targets."
        )
    if isinstance(source, np.ndarray) and isinstance(target, np.ndarray):
        return source, target, None
    if isinstance(source, np.ndarray) or isinstance(target, np.ndarray):
        raise TypeError("edges: sources and targets must be of one type, integers or text.")
    return numbered_ends(source.combine_chunks(), target.combine_chunks())


def _taken(column: Any, positions: np.ndarray) -> Any:
    return column[positions] if isinstance(column, np.ndarray) else column.take(pa.array(positions))
