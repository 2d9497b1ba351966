"""A directed graph as sorted rows of neighbours, from edges, matrices and other libraries."""

from typing import Any

import numpy as np

from sfumato.core.ids import ids_of, numbers, positions
from sfumato.core.tables import Page, described
from sfumato.core.typing import Column, Ids
from sfumato.core.validation import one_of
from sfumato.errors import ParameterError, ParameterTypeError
from sfumato.kernels.mine.graphs import graph_rows as kernels
from sfumato.mine.rank.graph.edges import (
    NO_WEIGHTS,
    coded,
    grouped,
    ids_of_nodes,
    shortened,
    transposed,
    weights_of,
)

__all__ = ["MULTI_EDGES", "SELF_LOOPS", "Graph"]

SELF_LOOPS = one_of(("keep", "drop"))
MULTI_EDGES = one_of(("sum", "drop", "keep"))
JOIN = {"keep": 0, "sum": 1, "drop": 2, "max": 3}
MOST = 2**31 - 1  # nodes, whose positions are int32


class Graph(Page):
    """A directed graph: for every node the positions of its neighbours, sorted.

    Parameters
    ----------
    sources : array_like of shape (n_edges,)
        Ids of the nodes where edges begin: integers, with any gaps, or texts.
    targets : array_like of shape (n_edges,)
        Ids of the nodes where edges end, of the same kind.
    weights : array_like of shape (n_edges,) or None, default=None
        Finite weights from 0 up; None for a graph without weights. An edge of weight 0 is left out.
    nodes : array_like or None, default=None
        Distinct ids of all nodes, which then have this order; None for those of the edges, sorted.
        Give it for nodes without edges.
    self_loops : {"keep", "drop"}, default="keep"
        Whether edges from a node to itself count.
    multi_edges : {"sum", "drop", "keep"}, default="sum"
        What becomes of several edges between the same nodes: one edge with the sum of the weights,
        of 1 each in a graph without any; the first alone; or all of them side by side.

    Attributes
    ----------
    n_nodes, n_edges : int
        Sizes, after the policies.
    nodes : ndarray of shape (n_nodes,)
        Id of each position: int64, or objects for texts.
    offsets : ndarray of shape (n_nodes + 1,)
        Where the out-edges of each position begin in `targets`, int64.
    targets : ndarray of shape (n_edges,)
        Positions of the targets, int32, rising for each source.
    weights : ndarray of shape (n_edges,) or None
        Weights of these edges, float64.
    in_offsets : ndarray of shape (n_nodes + 1,)
        Where the in-edges of each position begin in `sources`, int64; made when first used.
    sources : ndarray of shape (n_edges,)
        Positions of the sources, int32, rising for each target.
    in_weights : ndarray of shape (n_edges,) or None
        Weights of the in-edges.
    self_loops : int
        Number of edges from a node to itself.
    policy : dict
        The policies `self_loops` and `multi_edges` that were applied.

    Notes
    -----
    **Guarantee.** A graph never changes: its arrays are read-only. It does not depend on the order
    of the edges, except in the rounding of summed weights and in which of several edges
    `multi_edges="drop"` retains.

    A graph of n nodes and m edges takes 8 n + 4 m bytes, as much again once its in-edges are used,
    8 m more for weights, and its ids. It may have up to 2**31 - 1 nodes.

    Examples
    --------
    >>> graph = Graph(["y", "y", "a", "a", "m"], ["y", "a", "y", "m", "a"])
    >>> graph
    Graph(n_nodes=3, n_edges=5, weighted=False, self_loops='keep' (1), multi_edges='sum')
    >>> graph.nodes.tolist(), graph.out_degrees.tolist()
    (['a', 'm', 'y'], [2, 1, 2])
    """

    def __init__(
        self,
        sources: Column,
        targets: Column,
        weights: Column | None = None,
        *,
        nodes: Column | None = None,
        self_loops: str = "keep",
        multi_edges: str = "sum",
    ) -> None:
        loops, join = _policies(self_loops, multi_edges)
        begins, ends = ids_of(sources, "sources"), ids_of(targets, "targets")
        if begins.size != ends.size:
            raise ParameterError.of(
                "Graph", "targets", f"must be as many as sources, {begins.size}, not {ends.size}."
            )
        values = weights_of(weights, begins.size)
        ids, begins, ends = coded(begins, ends, nodes)
        self._set_edges(ids, begins, ends, values, loops, join)

    def _set_edges(
        self,
        nodes: np.ndarray,
        begins: np.ndarray,
        ends: np.ndarray,
        weights: np.ndarray,
        loops: str,
        join: str,
    ) -> None:
        """Store edges of any order: grouped by target, then transposed, which sorts the rows."""
        n = nodes.size
        _check_size(n)
        by_target = grouped(n, ends, begins, weights)
        self._set_rows(nodes, *transposed(n, *by_target), loops, join)

    def _set_rows(
        self,
        nodes: np.ndarray,
        offsets: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray,
        loops: str,
        join: str,
    ) -> None:
        """Store sorted rows, which may be overwritten, after the policies."""
        if join == "sum" and not weights.size and kernels.duplicates(offsets, targets):
            weights = np.ones(targets.size)
        if loops == "drop" or join != "keep" or weights.size:
            size = kernels.compact(targets, weights, loops == "drop", JOIN[join], offsets)
            targets, weights = shortened(targets, size), shortened(weights, size)
        self.nodes: np.ndarray
        self.offsets: np.ndarray
        self.targets: np.ndarray
        self.nodes, self.offsets, self.targets = nodes, offsets, targets
        self.weights: np.ndarray | None = (
            weights if weights.size and not (weights == 1.0).all() else None
        )
        self.policy: dict[str, str] = {
            "self_loops": loops,
            "multi_edges": "drop" if join == "max" else join,
        }
        self._incoming: tuple[np.ndarray, np.ndarray, np.ndarray | None] | None = None
        self._loops: int | None = None
        self._layout: Any = None  # of the pull kernel
        self._plain: Graph | None = None  # without weights
        for array in (nodes, offsets, targets, weights):
            array.flags.writeable = False

    @classmethod
    def _of_rows(
        cls,
        nodes: np.ndarray,
        offsets: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray,
        loops: str,
        join: str,
    ) -> "Graph":
        made = cls.__new__(cls)
        made._set_rows(nodes, offsets, targets, weights, loops, join)
        return made

    @classmethod
    def from_csr(
        cls,
        offsets: Column,
        targets: Column,
        weights: Column | None = None,
        *,
        nodes: Column | None = None,
        self_loops: str = "keep",
        multi_edges: str = "sum",
    ) -> "Graph":
        """Build a graph from compressed rows.

        Parameters
        ----------
        offsets : array_like of shape (n_nodes + 1,)
            Where the out-edges of each node begin in `targets`, rising from 0 to their number.
        targets : array_like of shape (n_edges,)
            Positions of the targets, in any order within a row.
        weights : array_like of shape (n_edges,) or None, default=None
            Finite weights from 0 up.
        nodes : array_like or None, default=None
            Distinct ids of the rows; None for 0 to n_nodes - 1.
        self_loops : {"keep", "drop"}, default="keep"
            As in the class.
        multi_edges : {"sum", "drop", "keep"}, default="sum"
            As in the class.

        Returns
        -------
        Graph
            The graph; the arrays are copied.

        Examples
        --------
        >>> Graph.from_csr([0, 2, 3, 3], [1, 2, 2]).n_edges
        3
        """
        loops, join = _policies(self_loops, multi_edges)
        begins, ends = (
            numbers(column, f"Graph: {name}")
            for column, name in ((offsets, "offsets"), (targets, "targets"))
        )
        n = begins.size - 1
        fits = begins.dtype.kind == "i" and n >= 0 and begins[0] == 0 and begins[-1] == ends.size
        if not fits or (np.diff(begins) < 0).any():
            raise ParameterError.of(
                "Graph", "offsets", "must be integers that rise from 0 to the number of targets."
            )
        if ends.size and (ends.dtype.kind != "i" or ends.min() < 0 or ends.max() >= n):
            raise ParameterError.of(
                "Graph", "targets", "must be integers from 0 to below the number of rows."
            )
        _check_size(n)
        values = weights_of(weights, ends.size)
        ids = ids_of_nodes(nodes, n)
        rows = begins.astype(np.int64), ends.astype(np.int32), values
        sorted_rows = transposed(n, *transposed(n, *rows))
        return cls._of_rows(ids, *sorted_rows, loops, join)

    @classmethod
    def from_scipy(
        cls,
        matrix: Any,
        *,
        nodes: Column | None = None,
        self_loops: str = "keep",
        multi_edges: str = "sum",
    ) -> "Graph":
        """Build a graph from a sparse matrix, whose entry (i, j) is the weight of the edge i -> j.

        Parameters
        ----------
        matrix : scipy.sparse matrix or array of shape (n_nodes, n_nodes)
            Any sparse format; entries finite and from 0 up, of which zeros are no edges.
        nodes : array_like or None, default=None
            Distinct ids of the rows; None for 0 to n_nodes - 1.
        self_loops : {"keep", "drop"}, default="keep"
            As in the class.
        multi_edges : {"sum", "drop", "keep"}, default="sum"
            As in the class, for entries that the matrix stores several times.

        Returns
        -------
        Graph
            The graph; without weights if all entries are 1.

        Examples
        --------
        >>> import scipy.sparse
        >>> Graph.from_scipy(scipy.sparse.eye_array(3, format="coo")).self_loops
        3
        """
        if not hasattr(matrix, "tocoo") or len(matrix.shape) != 2:
            kind = type(matrix).__name__
            raise ParameterTypeError.of("Graph", "matrix", f"must be a sparse matrix, not {kind}.")
        if matrix.shape[0] != matrix.shape[1]:
            raise ParameterError.of(
                "Graph", "matrix", f"must be square, not of shape {tuple(matrix.shape)}."
            )
        loops, join = _policies(self_loops, multi_edges)
        entries = matrix.tocoo()
        values = weights_of(entries.data, entries.data.size)
        made = cls.__new__(cls)
        made._set_edges(
            ids_of_nodes(nodes, matrix.shape[0]), entries.row, entries.col, values, loops, join
        )
        return made

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        *,
        weight: str | None = "weight",
        self_loops: str = "keep",
        multi_edges: str = "sum",
    ) -> "Graph":
        """Build a graph from one of NetworkX; an undirected edge becomes two.

        Parameters
        ----------
        graph : networkx.Graph
            Any of its classes, with integers or texts as nodes.
        weight : str or None, default="weight"
            Attribute of the weights, 1 for an edge without it; None for no weights.
        self_loops : {"keep", "drop"}, default="keep"
            As in the class.
        multi_edges : {"sum", "drop", "keep"}, default="sum"
            As in the class.

        Returns
        -------
        Graph
            The graph; its nodes have the order of `graph`.
        """
        if not hasattr(graph, "is_directed") or not callable(getattr(graph, "edges", None)):
            kind = type(graph).__name__
            raise ParameterTypeError.of(
                "Graph", "graph", f"must be a graph of NetworkX, not {kind}."
            )
        edges = list(graph.edges(data=weight, default=1) if weight else graph.edges())
        begins, ends, *values = zip(*edges, strict=True) if edges else ((), ())
        if not graph.is_directed():
            twice = [i for i, (u, v) in enumerate(zip(begins, ends, strict=True)) if u != v]
            values = [(*each, *(each[i] for i in twice)) for each in values]
            begins, ends = (
                (*begins, *(ends[i] for i in twice)),
                (*ends, *(begins[i] for i in twice)),
            )
        return cls(
            list(begins),
            list(ends),
            values[0] if values else None,
            nodes=list(graph.nodes),
            self_loops=self_loops,
            multi_edges=multi_edges,
        )

    @classmethod
    def from_igraph(
        cls,
        graph: Any,
        *,
        weight: str | None = "weight",
        self_loops: str = "keep",
        multi_edges: str = "sum",
    ) -> "Graph":
        """Build a graph from one of igraph; an undirected edge becomes two.

        Parameters
        ----------
        graph : igraph.Graph
            The graph. The ids are its attribute "name" if it has one, else 0 to n - 1.
        weight : str or None, default="weight"
            Attribute of the weights, if the edges have it; None for no weights.
        self_loops : {"keep", "drop"}, default="keep"
            As in the class.
        multi_edges : {"sum", "drop", "keep"}, default="sum"
            As in the class.

        Returns
        -------
        Graph
            The graph; its nodes have the order of `graph`.
        """
        if not hasattr(graph, "get_edgelist") or not hasattr(graph, "vs"):
            kind = type(graph).__name__
            raise ParameterTypeError.of("Graph", "graph", f"must be a graph of igraph, not {kind}.")
        edges = np.asarray(graph.get_edgelist(), np.int64).reshape(-1, 2)
        weighted = weight is not None and weight in graph.es.attributes()
        values = weights_of(graph.es[weight] if weighted else None, len(edges))
        if not graph.is_directed():
            twice = edges[:, 0] != edges[:, 1]
            edges = np.concatenate([edges, edges[twice][:, ::-1]])
            values = np.concatenate([values, values[twice]]) if values.size else values
        loops, join = _policies(self_loops, multi_edges)
        names = graph.vs["name"] if "name" in graph.vs.attributes() else None
        made = cls.__new__(cls)
        made._set_edges(
            ids_of_nodes(names, graph.vcount()), edges[:, 0], edges[:, 1], values, loops, join
        )
        return made

    def __repr__(self) -> str:
        loops, join = self.policy["self_loops"], self.policy["multi_edges"]
        facts = {"n_nodes": self.n_nodes, "n_edges": self.n_edges, "weighted": self.is_weighted}
        shown = described(self, **facts)
        return f"{shown[:-1]}, self_loops={loops!r} ({self.self_loops}), multi_edges={join!r})"

    def _facts(self) -> dict[str, Any]:
        return {
            "nodes": self.n_nodes,
            "edges": self.n_edges,
            "weighted": self.is_weighted,
            "self-loops": f"{self.self_loops} ({self.policy['self_loops']})",
            "multi-edges": self.policy["multi_edges"],
            "dead ends": int((self.out_degrees == 0).sum()),
        }

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.nodes.size)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return int(self.targets.size)

    @property
    def is_weighted(self) -> bool:
        """Whether edges have weights other than 1."""
        return self.weights is not None

    @property
    def self_loops(self) -> int:
        """Number of edges from a node to itself."""
        if self._loops is None:
            self._loops = int(kernels.loops(self.offsets, self.targets))
        return self._loops

    @property
    def out_degrees(self) -> np.ndarray:
        """Number of out-edges of each position, int64."""
        return np.diff(self.offsets)

    @property
    def in_degrees(self) -> np.ndarray:
        """Number of in-edges of each position, int64."""
        return np.diff(self.in_offsets)

    @property
    def in_offsets(self) -> np.ndarray:
        """Where the in-edges of each position begin in `sources`."""
        return self._in_edges()[0]

    @property
    def sources(self) -> np.ndarray:
        """Positions of the sources of in-edges, rising for each target."""
        return self._in_edges()[1]

    @property
    def in_weights(self) -> np.ndarray | None:
        """Weights of the in-edges, or None."""
        return self._in_edges()[2]

    def _in_edges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        if self._incoming is None:
            weights = NO_WEIGHTS if self.weights is None else self.weights
            offsets, sources, moved = transposed(self.n_nodes, self.offsets, self.targets, weights)
            for array in (offsets, sources, moved):
                array.flags.writeable = False
            self._incoming = offsets, sources, None if self.weights is None else moved
        return self._incoming

    def positions(self, ids: Ids) -> np.ndarray:
        """Look up the positions of ids.

        Parameters
        ----------
        ids : array_like or scalar
            Ids, or one id.

        Returns
        -------
        ndarray
            The position of each, int64; -1 for an id that is not in the graph.

        Examples
        --------
        >>> Graph([10, 30], [30, 20]).positions([30, 40])
        array([ 2, -1])
        """
        wanted = ids_of(ids, "ids")
        if wanted.dtype == np.int64 == self.nodes.dtype and self._is_range():
            inside = (wanted >= 0) & (wanted < self.n_nodes)
            return np.where(inside, wanted, -1)
        return positions(wanted, self.nodes)

    def _is_range(self) -> bool:
        n = self.n_nodes
        ends = n > 0 and self.nodes[0] == 0 and self.nodes[-1] == n - 1
        return bool(ends and (np.diff(self.nodes) == 1).all())

    def reverse(self) -> "Graph":
        """Turn all edges around.

        Returns
        -------
        Graph
            The graph with the edge b -> a for every a -> b; it shares the arrays of this one.

        Examples
        --------
        >>> Graph([1, 1], [2, 3]).reverse().out_degrees.tolist()
        [0, 1, 1]
        """
        turned = Graph.__new__(Graph)
        turned.nodes, turned.policy, turned._loops = self.nodes, dict(self.policy), self._loops
        turned._layout = turned._plain = None
        turned.offsets, turned.targets, turned.weights = self._in_edges()
        turned._incoming = self.offsets, self.targets, self.weights
        return turned

    def undirected(self) -> "Graph":
        """Give every edge its opposite, so that neighbours are mutual.

        Returns
        -------
        Graph
            The graph with each pair of neighbours once in each direction, whatever the policy was.
            With weights, both have the larger one of the pair.

        Examples
        --------
        >>> Graph([1, 2, 1], [2, 1, 3]).undirected().out_degrees.tolist()
        [2, 1, 1]
        """
        weights = NO_WEIGHTS if self.weights is None else self.weights
        begins, ends = (np.empty(2 * self.n_edges, np.int32) for _ in range(2))
        values = np.empty(2 * weights.size)
        size = kernels.mirror(self.offsets, self.targets, weights, begins, ends, values)
        by_target = grouped(self.n_nodes, ends[:size], begins[:size], values[:size])
        rows = transposed(self.n_nodes, *by_target)
        return Graph._of_rows(self.nodes, *rows, self.policy["self_loops"], "max")


def _policies(self_loops: str, multi_edges: str) -> tuple[str, str]:
    return (
        SELF_LOOPS.check("Graph", "self_loops", self_loops),
        MULTI_EDGES.check("Graph", "multi_edges", multi_edges),
    )


def _check_size(n: int) -> None:
    if n > MOST:
        raise ValueError(f"Graph: more than {MOST:,} nodes are not supported.")
