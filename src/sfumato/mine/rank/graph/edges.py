"""Columns of edges as positions and sorted rows: ids, weights, grouping, transposing."""

from typing import Any

import numpy as np

from sfumato.core.ids import (
    coded_integers,
    distinct,
    ids_of,
    kind_of,
    numbers,
    positions,
)
from sfumato.errors import ParameterError, ParameterTypeError
from sfumato.kernels.alignment import frozen
from sfumato.kernels.mine.graphs import graph_rows as kernels

__all__ = [
    "NO_WEIGHTS",
    "coded",
    "grouped",
    "ids_of_nodes",
    "shortened",
    "transposed",
    "weights_of",
]

NO_WEIGHTS = np.empty(0)


def weights_of(weights: Any, size: int) -> np.ndarray:
    """The weights as float64 of our own, none of them for None; refuse what is no weight."""
    if weights is None:
        return NO_WEIGHTS.copy()
    values = np.array(numbers(weights, "Graph: weights"), np.float64)
    if values.size != size:
        raise ParameterError.of(
            "Graph", "weights", f"must be as many as edges, {size}, not {values.size}."
        )
    if values.size and values.min() < 0:
        row = int(np.flatnonzero(values < 0)[0])
        raise ParameterError.of("Graph", "weights", f"must be from 0 up; row {row} is below 0.")
    return values


def ids_of_nodes(nodes: Any, n: int) -> np.ndarray:
    """Ids of n nodes, 0 to n - 1 for None; refuse duplicates and another number."""
    if nodes is None:
        return np.arange(n)
    ids = np.array(ids_of(nodes, "nodes"))
    if ids.size != n:
        raise ParameterError.of("Graph", "nodes", f"must be {n} ids, not {ids.size}.")
    if distinct(ids)[0].size != n:
        raise ParameterError.of("Graph", "nodes", "must be distinct.")
    return ids


def coded(
    begins: np.ndarray, ends: np.ndarray, nodes: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids of all nodes, and the positions of both columns among them."""
    if not begins.size:
        ids = np.empty(0, np.int64) if nodes is None else ids_of(nodes, "nodes")
        return ids_of_nodes(ids, ids.size), np.empty(0, np.int32), np.empty(0, np.int32)
    if kind_of(begins) != kind_of(ends):
        raise ParameterTypeError.of(
            "Graph", "targets", "must be of the kind of sources: both integers, or both texts."
        )
    if nodes is not None:
        given = ids_of(nodes, "nodes")
        ids = ids_of_nodes(given, given.size)
        found = positions(begins, ids), positions(ends, ids)
        for name, column in zip(("sources", "targets"), found, strict=True):
            if column.min() < 0:
                row = int(np.flatnonzero(column < 0)[0])
                raise ParameterError.of(
                    "Graph", "nodes", f"must name all nodes; row {row} of {name} is another."
                )
        return ids, *found
    if kind_of(begins) == "integers":
        return _coded_integers(begins, ends)
    both, codes = distinct(np.concatenate([begins, ends]))
    order = np.argsort(both)
    rank = np.empty(order.size, np.int32)
    rank[order] = np.arange(order.size)
    return both[order], rank[codes[: begins.size]], rank[codes[begins.size :]]


def _coded_integers(
    begins: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct integers of both columns, sorted, and the positions of both among them."""
    low = int(min(begins.min(), ends.min()))
    span = int(max(begins.max(), ends.max())) - low + 1
    if span <= 4 * begins.size + 1024:  # dense: a table of all integers between
        present = np.zeros(span, bool)
        present[begins - low] = True
        present[ends - low] = True
        ids = np.flatnonzero(present) + low
        if ids.size == span:
            return ids, begins - low, ends - low
        rank = np.cumsum(present, dtype=np.int64) - 1
        return ids, rank[begins - low], rank[ends - low]
    codes, both = coded_integers(np.concatenate([begins, ends]))
    order = np.argsort(both)
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    return both[order], rank[codes[: begins.size]], rank[codes[begins.size :]]


def grouped(
    n: int, keys: np.ndarray, values: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets of each key, its values in order of appearance, and their weights."""
    offsets = np.empty(n + 1, np.int64)
    kernels.count(frozen(keys), offsets)
    out, moved = np.empty(keys.size, np.int32), np.empty(weights.size)
    kernels.group(keys, values, weights, offsets[:-1].copy(), out, moved)
    return offsets, out, moved


def transposed(
    n: int, offsets: np.ndarray, targets: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the transposed matrix, sorted."""
    turned = np.empty(n + 1, np.int64)
    kernels.count(frozen(targets), turned)
    out, moved = np.empty(targets.size, np.int32), np.empty(weights.size)
    edges = frozen(offsets), frozen(targets), frozen(weights)
    kernels.transpose(*edges, turned[:-1].copy(), out, moved)
    return turned, out, moved


def shortened(array: np.ndarray, size: int) -> np.ndarray:
    """The first entries; a copy only if much would be left over."""
    if size >= array.size:
        return array
    return array[:size].copy()
