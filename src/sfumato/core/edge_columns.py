"""Edges read as two columns, each row by itself, so that no edge changes how others are read."""

from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core.hashing import KeyColumn

__all__ = [
    "are_integers",
    "numbered_ends",
    "readable_edges",
    "table_columns",
    "texts_of",
    "two_columns",
]


def readable_edges(edges: Any) -> tuple[tuple[pa.Array, pa.Array], np.ndarray]:
    """Both ends of every edge as comparable values, and a mask of the edges that have both."""
    source, target = (KeyColumn(column, name="edges").names() for column in _any_columns(edges))
    if len(source) != len(target):
        raise ValueError("edges: columns must be equally long.")
    if source.type != target.type:
        source, target = texts_of(source), texts_of(target)
    return (source, target), np.asarray(source.is_valid()) & np.asarray(target.is_valid())


def numbered_ends(
    source: pa.Array, target: pa.Array
) -> tuple[np.ndarray, np.ndarray, pa.Array | None]:
    """Both ends as integers, and the texts that the integers stand for (None for integers)."""
    if are_integers(source):
        return source.to_numpy(), target.to_numpy(), None
    both = pa.chunked_array([source, target]).combine_chunks().dictionary_encode()
    codes = both.indices.to_numpy().astype(np.int64)
    return codes[: len(source)], codes[len(source) :], both.dictionary


def table_columns(edges: Any) -> list[Any] | None:
    """The columns of a table or of a tuple; None for anything else."""
    if isinstance(edges, tuple):
        return list(edges)
    if isinstance(edges, pa.Table | pa.RecordBatch):
        return list(edges.columns)
    if hasattr(edges, "columns") and hasattr(edges, "__getitem__"):
        return [edges[name] for name in edges.columns]
    return None


def two_columns(columns: list[Any]) -> list[Any]:
    if len(columns) != 2:
        raise ValueError(
            "edges: two columns, source and target, are expected; give a matrix or table of two "
            "columns, a pair of columns as a tuple, or a list of pairs."
        )
    return columns


def are_integers(names: pa.Array) -> bool:
    return bool(pa.types.is_integer(names.type))


def _any_columns(edges: Any) -> list[Any]:
    """The two columns; in a list of edges, an item that is not a pair has no ends."""
    columns = table_columns(edges)
    if columns is not None:
        return two_columns(columns)
    if isinstance(edges, np.ndarray) and edges.ndim != 1:
        return two_columns(list(edges.T) if edges.ndim == 2 else [edges])
    if not isinstance(edges, list | np.ndarray):
        kind = type(edges).__name__
        raise TypeError(f"edges: a matrix, a table or a list of pairs is expected, not {kind}.")
    ends = np.full((2, len(edges)), None, object)
    for position, edge in enumerate(edges):
        try:
            if _is_pair(edge):
                ends[0, position], ends[1, position] = edge
        except Exception:  # whatever an edge's own type raises
            ends[:, position] = None
    return list(ends)


def _is_pair(edge: Any) -> bool:
    if isinstance(edge, np.ndarray):
        return bool(edge.shape == (2,))
    return isinstance(edge, list | tuple) and len(edge) == 2


def texts_of(names: pa.Array) -> pa.Array:
    """Integers as the texts of the same keys."""
    return names.cast(pa.string()).cast(pa.large_binary()) if are_integers(names) else names
