"""PageRank on an engine: edges stay in their partitions, ranks travel to them and sums back.

Ids become positions once, and the coded edges are kept. A pass gives every partition the ranks of
all nodes, and adds what its edges bring to each.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.core.ids import IdIndex, ids_of, kind_of, unique
from sfumato.errors import ParameterError, ParameterTypeError
from sfumato.mine.rank.graph.edges import weights_of
from sfumato.mine.rank.graph.graph import Graph

if TYPE_CHECKING:
    from sfumato.engine import Engine, Rows

__all__ = ["EdgeColumns", "EngineEdges", "power_iteration"]

CODED = pa.schema({"source": pa.int32(), "target": pa.int32(), "weight": pa.float64()})
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class EdgeColumns:
    """Names of the columns of edges; without `weight` every row is an edge of weight 1."""

    owner: str
    source: str
    target: str
    weight: str | None

    @property
    def names(self) -> list[str]:
        return [self.source, self.target, *([] if self.weight is None else [self.weight])]

    def ends(self, batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        """Ids of both ends of the edges of a batch."""
        begins, ends = (ids_of(batch.column(name), name) for name in (self.source, self.target))
        if kind_of(begins) != kind_of(ends):
            raise ParameterTypeError.of(
                self.owner,
                "target_column",
                "must be of the kind of source_column: both integers, or both texts.",
            )
        return begins, ends


class EngineEdges:
    """Edges of an engine as positions of nodes, kept in their partitions until `unpersist`.

    graph: the nodes, sorted by id, without edges. out: sum of the weights of the out-edges of each.
    """

    def __init__(self, engine: "Engine", source: Any, columns: EdgeColumns) -> None:
        rows = engine.rows(source, columns.names)
        nodes = np.sort(rows.fold(partial(_nodes, columns), _both))
        nothing = np.empty(0, np.int64)
        self.graph: Graph = Graph(nothing, nothing, nodes=nodes)
        if not self.graph.n_nodes:
            raise ParameterError.of(columns.owner, "graph", "must have an edge: it has no node.")
        coded = partial(_coded, columns, IdIndex(nodes))
        self._rows: Rows = rows.map(coded, CODED).persist()
        self.out: np.ndarray = self.pulled(None)

    def pulled(self, given: np.ndarray | None) -> np.ndarray:
        """What each node gets of `given` along its in-edges; None sums the out-weights instead."""
        fold = partial(_sums, self.graph.n_nodes, given)
        return self._rows.fold(fold, np.add)

    def unpersist(self) -> None:
        self._rows.unpersist()


def power_iteration(
    edges: EngineEdges,
    ranks: np.ndarray,
    teleport: np.ndarray | None,
    *,
    beta: float,
    tolerance: float,
    max_iter: int,
    report: Callable[[int], None],
) -> tuple[np.ndarray, int, float]:
    """Iterate T(r) = beta M r + (1 - S) v: ranks, number of passes and the last change in L1."""
    vector = 1 / ranks.size if teleport is None else teleport
    inverse = np.divide(1.0, edges.out, out=np.zeros(ranks.size), where=edges.out > 0)
    for done in range(1, max_iter + 1):
        fresh = beta * edges.pulled(ranks * inverse)
        fresh += (1 - fresh.sum()) * vector
        residual = float(np.abs(fresh - ranks).sum())
        ranks = fresh
        report(done)
        if residual < tolerance:
            break
    return ranks, done, residual


def _nodes(columns: EdgeColumns, batches: Batches) -> np.ndarray:
    """The distinct ids of a partition."""
    found = np.empty(0, np.int64)
    for batch in batches:
        if batch.num_rows:
            found = _both(found, unique(np.concatenate(columns.ends(batch))))
    return found


def _both(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The union of distinct ids; the type of a column without any does not matter."""
    if not left.size or not right.size:
        return left if left.size else right
    return unique(np.concatenate([left, right]))


def _coded(columns: EdgeColumns, index: IdIndex, batches: Batches) -> Batches:
    """Positions and weights of the edges of a partition."""
    for batch in batches:
        if not batch.num_rows:
            continue
        begins, ends = (index.positions(each) for each in columns.ends(batch))
        given = None if columns.weight is None else batch.column(columns.weight)
        weights = np.ones(begins.size) if given is None else weights_of(given, begins.size)
        arrays = begins.astype(np.int32), ends.astype(np.int32), weights
        yield pa.RecordBatch.from_arrays([pa.array(each) for each in arrays], schema=CODED)


def _sums(n: int, given: np.ndarray | None, batches: Batches) -> np.ndarray:
    """Weighted sums of a partition: of `given` at the sources by target, or of 1 by source."""
    out = np.zeros(n)
    for batch in batches:
        begins, ends, weights = (each.to_numpy() for each in batch.columns)
        if given is None:
            out += np.bincount(begins, weights, n)
        else:
            out += np.bincount(ends, given[begins] * weights, n)
    return out
