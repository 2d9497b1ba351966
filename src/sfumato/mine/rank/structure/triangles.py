"""Triangles of a graph: exact counts in memory, and a mergeable sketch of a stream of edges."""

import math
from statistics import NormalDist
from typing import Annotated, Any, NamedTuple, Self

import numpy as np

from sfumato.core.file_format import Packed
from sfumato.core.hashing import KeyColumn
from sfumato.core.storage import Cells
from sfumato.core.tables import Table, described
from sfumato.core.typing import Column
from sfumato.core.validation import fraction, integer
from sfumato.errors import ParameterError
from sfumato.kernels.mine.graphs import triangles as kernels
from sfumato.mine.rank.graph.graph import Graph
from sfumato.sketch.base import SEED, Sketch

__all__ = ["TriangleCounts", "Triangles", "count_triangles"]

BLOCK = 2**18  # edges hashed at a time
WHOLE = 2.0**64


class TriangleCounts(Table):
    """Exact number of triangles of a graph and of each node, as `count_triangles` returns them.

    Parameters
    ----------
    nodes : ndarray of shape (n_nodes,)
        Ids of the nodes.
    by_node : ndarray of shape (n_nodes,)
        Number of triangles that each node is in.
    degrees : ndarray of shape (n_nodes,)
        Number of neighbours of each node.
    total : int
        Number of triangles.

    Examples
    --------
    >>> from sfumato.mine.rank import Graph, count_triangles
    >>> counts = count_triangles(Graph([1, 2, 3, 3], [2, 3, 1, 4]))
    >>> counts.total, counts.by_node.tolist(), counts.transitivity
    (1, [1, 1, 1, 0], 0.6)
    """

    def __init__(
        self, nodes: np.ndarray, by_node: np.ndarray, degrees: np.ndarray, total: int
    ) -> None:
        self.nodes: np.ndarray
        self.by_node: np.ndarray
        self.degrees: np.ndarray
        self.total: int
        self.nodes, self.by_node, self.degrees, self.total = nodes, by_node, degrees, total

    def __repr__(self) -> str:
        return described(self, total=self.total, n_nodes=int(self.nodes.size))

    @property
    def wedges(self) -> int:
        """Number of paths of two edges, counted at the node in the middle."""
        return int((self.degrees * (self.degrees - 1) // 2).sum())

    @property
    def transitivity(self) -> float:
        """Fraction of the paths of two edges whose ends are neighbours; 0 if there are none."""
        return 3 * self.total / self.wedges if self.wedges else 0.0

    @property
    def clustering(self) -> np.ndarray:
        """Fraction of pairs of each node's neighbours that are neighbours; 0 if it has no pair."""
        pairs = self.degrees * (self.degrees - 1) / 2
        out = np.zeros(pairs.size)
        np.divide(self.by_node, pairs, out=out, where=pairs > 0)
        return out

    def _columns(self) -> dict[str, Any]:
        return {"node": self.nodes, "triangles": self.by_node, "clustering": self.clustering}


def count_triangles(graph: Graph) -> TriangleCounts:
    """Count the triangles of a graph, without error.

    Parameters
    ----------
    graph : Graph
        The graph. The direction of edges, repeated edges, loops and weights do not matter.

    Returns
    -------
    TriangleCounts
        The number of triangles, and that of each node.

    Notes
    -----
    **Guarantee.** Exact, in time O(m**1.5) and 28 bytes for each of m edges, besides the graph.

    References
    ----------
    .. [1] Latapy. "Main-memory triangle computations for very large (sparse (power-law)) graphs".
       Theoretical Computer Science 407, 2008. https://doi.org/10.1016/j.tcs.2008.07.017

    Examples
    --------
    >>> count_triangles(Graph(["a", "b", "c"], ["b", "c", "a"])).total
    1
    """
    mutual = graph.undirected()
    begins = np.repeat(np.arange(graph.n_nodes, dtype=np.int32), mutual.out_degrees)
    once = begins < mutual.targets
    counted = _counted(begins[once], mutual.targets[once], graph.n_nodes)
    return TriangleCounts(graph.nodes, counted.by_node, counted.degrees, counted.total)


class _Counted(NamedTuple):
    """Triangles of each node and edge, the degrees of nodes, and the number of triangles."""

    by_node: np.ndarray
    by_edge: np.ndarray
    degrees: np.ndarray
    total: int


def _counted(first: np.ndarray, second: np.ndarray, nodes: int) -> _Counted:
    """Count the triangles of distinct edges between different nodes."""
    degrees = np.bincount(first, minlength=nodes) + np.bincount(second, minlength=nodes)
    offsets = np.zeros(nodes + 1, np.int64)
    edges, members = (np.empty(first.size, np.int32) for _ in range(2))
    kernels.orient(first, second, degrees, offsets, edges, members)
    by_edge, places = np.zeros(first.size, np.int64), np.full(nodes, -1, np.int64)
    total = int(kernels.count(offsets, members, edges, places, by_edge))
    twice = np.bincount(first, by_edge, nodes) + np.bincount(second, by_edge, nodes)
    return _Counted(twice.astype(np.int64) // 2, by_edge, degrees, total)


class Triangles(Sketch):
    """Number of triangles in a stream of edges, from a sample of them of fixed size.

    The sample are the edges with the smallest hashes. So it is the same for every order of the
    edges, an edge that comes again or in the other direction changes nothing, and the sketches of
    several streams merge to that of all of them.

    Parameters
    ----------
    size : int, default=65536
        Number of edges in the sample, from 16 to 2**28; 16 bytes each.
    seed : int, default=0
        Seed of the hashes. Sketches merge only if their seeds are equal.

    Notes
    -----
    **Guarantee.** Exact up to `size` different edges. Beyond, `estimate` is unbiased over seeds,
    and ``|estimate - true| <= error_bound(c)`` with probability approximately c.

    With p the smallest hash outside the sample, scaled to 1, a triangle has all edges in the
    sample with probability p**3, and p may be treated as if it were fixed: bottom-k thresholds are
    substitutable for sets of up to k edges [1]_. The variance is
    T (p**-3 - 1) + 2 K (p**-1 - 1) for T triangles of which K pairs share an edge (as for
    reservoirs [2]_); K is estimated from the sample too. Two nodes, or two edges, are one if their
    64-bit hashes are equal.

    References
    ----------
    .. [1] Ting. "Adaptive Threshold Sampling". SIGMOD 2022, section 2 (substitutable thresholds).
       https://arxiv.org/abs/1708.04970
    .. [2] De Stefani, Epasto, Riondato, Upfal. "TRIEST: Counting Local and Global Triangles in
       Fully-dynamic Streams with Fixed Memory Size". KDD 2016, Theorem 4.4 (variance).
       https://arxiv.org/abs/1602.07424

    Examples
    --------
    >>> sketch = Triangles(size=1000).update([1, 2, 3, 3], [2, 3, 1, 4])
    >>> sketch.estimate(), sketch.edges(), sketch.error_bound()
    (1.0, 4.0, 0.0)
    """

    size: Annotated[int, integer(16, 2**28)]
    seed: Annotated[int, SEED]
    _ends: np.ndarray
    _idempotent = True
    _no_release = (
        "one edge may be in as many triangles as there are nodes, for which no noise is proved."
    )

    def __init__(self, size: int = 2**16, *, seed: int = 0) -> None:
        self._set_parameters(size=size, seed=seed)
        self._allocate()

    def __repr__(self) -> str:
        return described(self, **self.parameters, sampled=self._ends.shape[0])

    def update(self, sources: Column, targets: Column) -> Self:
        """Add edges.

        Parameters
        ----------
        sources : array_like of shape (n,)
            Node at one end of each edge: integers or texts.
        targets : array_like of shape (n,)
            Node at the other end; an edge from a node to itself is in no triangle and left out.

        Returns
        -------
        Self
            The sketch itself.
        """
        columns = [
            KeyColumn(column, name=f"Triangles: {name}", strict=True)
            for column, name in ((sources, "sources"), (targets, "targets"))
        ]
        if columns[0].size != columns[1].size:
            raise ParameterError.of(
                "Triangles",
                "targets",
                f"must be as many as sources, {columns[0].size}, not {columns[1].size}.",
            )
        hashes = np.empty((columns[0].size, 2), np.uint64)
        for at, column in enumerate(columns):
            for start, block in column.blocks(self.seed):
                hashes[start : start + block.size, at] = block
        retained = self._ends
        for start in range(0, len(hashes), BLOCK):
            retained = self._smallest(retained, hashes[start : start + BLOCK])
        self._ends = retained
        return self

    def _smallest(self, retained: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return the edges of smallest hash among both: the sample, and the next one."""
        ends = ends[ends[:, 0] != ends[:, 1]]
        known, new = _hashes(retained), _hashes(ends)
        if known.size > self.size:
            below = new < known[-1]
            new, ends = new[below], ends[below]
        _, rows = np.unique(np.concatenate([known, new]), return_index=True)
        return np.concatenate([retained, ends])[rows[: self.size + 1]]

    def _join(self, other: Self) -> None:
        self._ends = self._smallest(self._ends, other._ends.copy())

    @property
    def probability(self) -> float:
        """Probability p with which an edge is in the sample; 1 as long as all of them are."""
        if self._ends.shape[0] <= self.size:
            return 1.0
        return max(float(_hashes(self._ends[-1:])[0]), 1.0) / WHOLE

    def edges(self) -> float:
        """Estimate the number of different edges.

        Returns
        -------
        float
            Number of edges: exact up to `size`, else unbiased, with a relative standard error of
            about ``1 / sqrt(size)``.
        """
        sampled = min(self._ends.shape[0], self.size)
        return float(sampled / self.probability)

    def estimate(self) -> float:
        """Estimate the number of triangles.

        Returns
        -------
        float
            Number of triangles of the sample over p**3.
        """
        return float(self._sample().total / self.probability**3)

    def error_bound(self, confidence: float = 0.99) -> float:
        """Bound the error of the estimate.

        Parameters
        ----------
        confidence : float, default=0.99
            Approximate probability with which the bound holds, between 0 and 1.

        Returns
        -------
        float
            Bound on ``|estimate - true|`` in triangles; 0 as long as all edges are in the sample.
            It is the largest distance to a number whose standard deviation explains it, with the
            number of pairs that share an edge at its own upper limit.
        """
        confidence = fraction.check("Triangles", "confidence", confidence)
        p, sample = self.probability, self._sample()
        if p == 1.0:
            return 0.0
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        pairs = int((sample.by_edge * (sample.by_edge - 1) // 2).sum())
        most_pairs = (pairs + z**2 / 2 + z * math.sqrt(pairs + z**2 / 4)) / p**5
        # |T - estimate| <= z sqrt(a T + b) is quadratic in T; its larger root is further away.
        a, b = p**-3 - 1, 2 * most_pairs * (1 / p - 1)
        half = z**2 * a / 2
        return float(half + math.sqrt(half**2 + z**2 * (a * sample.total / p**3 + b)))

    def _sample(self) -> _Counted:
        """Count the triangles of the sample."""
        ends = self._ends[: self.size]
        nodes, at = np.unique(ends, return_inverse=True)
        codes = at.reshape(ends.shape).astype(np.int32)
        first, second = (np.ascontiguousarray(codes[:, side]) for side in (0, 1))
        return _counted(first, second, nodes.size)

    def _layout(self) -> dict[str, Cells]:
        return {"_ends": Cells(np.uint64, (-1, 2), "")}

    def _restore(self, packed: Packed) -> None:
        super()._restore(packed)
        self._ends = np.ascontiguousarray(self._ends)

    def _check_state(self) -> None:
        hashes = _hashes(self._ends.copy())
        rising = (hashes[1:] > hashes[:-1]).all()
        if (
            len(hashes) > self.size + 1
            or not rising
            or (self._ends[:, 0] >= self._ends[:, 1]).any()
        ):
            raise ValueError("the edges of the sample are damaged.")


def _hashes(ends: np.ndarray) -> np.ndarray:
    """Return the hash of each edge, and leave its ends in order."""
    out = np.empty(len(ends), np.uint64)
    kernels.edge_hashes(ends, out)
    return out
