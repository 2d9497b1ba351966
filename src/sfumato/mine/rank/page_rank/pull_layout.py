"""In-edges laid out for the pull kernel of PageRank, with blocks that threads own."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from sfumato.kernels.mine.graphs import graph_rows
from sfumato.kernels.mine.graphs import page_rank as kernels
from sfumato.mine.rank.graph.edges import NO_WEIGHTS
from sfumato.mine.rank.graph.graph import Graph

__all__ = ["PullLayout", "Workers", "layout_of", "out_weights"]

BLOCK = 1 << 19  # edges and rows of a block, about: the unit of work of a thread
ROW = 4  # a row costs as much as so many edges


class PullLayout:
    """Rows by falling in-degree that read cells by falling out-degree.

    order: node of each row. inverse: 1 / (out-degree or sum of out-weights) of each row, 0 for a
    dead end. active: number of rows with edges; those behind have none. blocks: segments of active
    rows, the same for any number of threads, so that sums are too.
    """

    def __init__(self, graph: Graph) -> None:
        n, offsets = graph.n_nodes, graph.in_offsets
        self.order: np.ndarray
        self.order, by_out = np.empty(n, np.int32), np.empty(n, np.int32)
        nodes = np.arange(n, dtype=np.int32)
        kernels.by_degree(graph.offsets, nodes, by_out)
        kernels.by_degree(offsets, by_out, self.order)  # so rows of one degree write rising cells
        cell = np.empty(n, np.int32)
        cell[by_out] = nodes
        sums = out_weights(graph)[self.order]
        self.inverse: Any = np.divide(1.0, sums, out=np.zeros(n), where=sums > 0)
        degrees = np.diff(offsets)[self.order]
        # Nodes without any edge are the last rows, as equal in-degrees have falling out-degrees.
        self.active: int = max(1, int(np.count_nonzero((degrees > 0) | (sums > 0))))
        self.rows: np.ndarray
        self.degree: np.ndarray
        self.edges: np.ndarray
        self.rows, self.degree, self.edges = _segments(degrees[: self.active])
        work = self.edges + ROW * self.rows[:-1]
        _, firsts = np.unique(work // BLOCK, return_index=True)
        self.blocks: np.ndarray = np.append(firsts, self.degree.size)
        weights = NO_WEIGHTS if graph.in_weights is None else graph.in_weights
        self.sources: np.ndarray
        self.weights: np.ndarray
        self.sources, self.weights = np.empty(graph.n_edges, np.uint32), np.empty(weights.size)
        kernels.lay_out(
            offsets[self.order], graph.sources, weights, cell,
            self.rows, self.degree, self.edges, self.sources, self.weights,
        )  # fmt: skip
        self.cell: np.ndarray = cell[self.order].astype(np.uint32)
        self.sums: np.ndarray = np.zeros((self.blocks.size - 1, 2))

    @contextmanager
    def workers(self, threads: int) -> Iterator["Workers"]:
        """A crew of threads for many passes."""
        threads = min(threads, self.blocks.size - 1)
        if threads == 1:
            yield Workers(self, None, 1)
            return
        with ThreadPoolExecutor(threads) as pool:
            yield Workers(self, pool, threads)


class Workers:
    """Threads that each own every n-th block of a layout."""

    def __init__(self, layout: PullLayout, pool: ThreadPoolExecutor | None, threads: int) -> None:
        self.layout: PullLayout
        self.pool: ThreadPoolExecutor | None
        self.threads: int
        self.layout, self.pool, self.threads = layout, pool, threads

    def pull(
        self,
        given: np.ndarray,
        factor: float,
        constant: float,
        teleport: np.ndarray,
        replace: bool,
        scale: float,
        ranks: np.ndarray,
        out: np.ndarray,
    ) -> tuple[float, float]:
        """One pass over all edges: the L1 norm of the change, and its sum without dead ends."""
        at, sums = self.layout, np.zeros_like(self.layout.sums)

        def work(first: int) -> None:
            kernels.pull(
                at.blocks, first, self.threads, at.rows, at.degree, at.edges, at.sources,
                at.weights, given, factor, constant, teleport, replace, at.inverse, at.cell,
                scale, ranks, out, sums,
            )  # fmt: skip

        if self.pool is None:
            work(0)
        else:
            list(self.pool.map(work, range(self.threads)))
        total, alive = sums.sum(axis=0)
        return float(total), float(alive)


def layout_of(graph: Graph) -> PullLayout:
    """The layout of a graph, made when it is first used."""
    if graph._layout is None:
        graph._layout = PullLayout(graph)
    layout: PullLayout = graph._layout
    return layout


def out_weights(graph: Graph) -> np.ndarray:
    """Sum of the weights of the out-edges of each node."""
    if graph.weights is None:
        return graph.out_degrees.astype(np.float64)
    out = np.empty(graph.n_nodes)
    graph_rows.degrees(graph.offsets, graph.weights, out)
    return out


def _segments(degrees: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First row, degree and first edge of runs of rows of one degree, split where long."""
    changes = np.flatnonzero(np.diff(degrees)) + 1
    begins = np.concatenate([[0], changes])
    ends = np.append(changes, degrees.size)
    pieces = []
    for begin, end, degree in zip(begins, ends, degrees[begins], strict=True):
        size = max(8, BLOCK // (int(degree) + ROW) // 8 * 8)  # groups of eight stay together
        pieces.append(np.arange(begin, end, size))
    rows = np.concatenate(pieces)
    starts = np.concatenate([[0], np.cumsum(degrees)])
    return np.append(rows, degrees.size), degrees[rows], starts[rows]
