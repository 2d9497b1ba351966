"""Reference of PageRank for small graphs: flow equations solved directly, and steps of a walk."""

from typing import Any

import numpy as np

from sfumato.core.typing import Column
from sfumato.core.validation import integer
from sfumato.errors import ParameterError
from sfumato.mine.rank.graph.graph import Graph
from sfumato.mine.rank.page_rank.pull_layout import out_weights
from sfumato.mine.rank.page_rank.ranks import Ranks
from sfumato.mine.rank.page_rank.teleports import teleport_vector

__all__ = ["flow_equations", "walk_distribution"]

MOST_NODES = 5000  # of a dense system: 200 MB
STEPS = integer(0, 10**9)


def flow_equations(graph: Graph, beta: float = 1.0, *, teleport: Any = None) -> Ranks:
    """Solve the flow equations of a small graph directly, by elimination.

    Parameters
    ----------
    graph : Graph
        The graph, of 1 to 5000 nodes.
    beta : float, default=1.0
        Probability of following a link, from 0 to 1. At 1, r = M r with a sum of 1.
    teleport : array_like, dict, scalar or None, default=None
        As in `pagerank`, for beta below 1.

    Returns
    -------
    Ranks
        The exact ranks, up to rounding.

    Raises
    ------
    ParameterError
        At beta 1, a dead end lets rank leak, or several closed groups of nodes share the rank in
        any proportion: the equations have no solution, or more than one.

    Notes
    -----
    **Guarantee.** The reference for `pagerank`: for beta below 1 both have the same fixed point.

    Examples
    --------
    >>> graph = Graph(["y", "y", "a", "a", "m"], ["y", "a", "y", "m", "a"])
    >>> flow_equations(graph).score(["y", "a", "m"]).round(12).tolist()
    [0.4, 0.4, 0.2]
    """
    owner = "flow_equations"
    n = _checked(owner, graph)
    if isinstance(beta, bool) or not isinstance(beta, int | float) or not 0 <= beta <= 1:
        raise ParameterError.of(owner, "beta", f"must be a number from 0 to 1, not {beta!r:.50}.")
    vector = teleport_vector(owner, graph, teleport)
    if vector is not None and beta == 1:
        raise ParameterError.of(owner, "teleport", "must be None at beta 1, without teleports.")
    matrix = _transitions(graph)
    if beta < 1:  # r is proportional to the sum of (beta M)**t v, as what leaks returns to v
        teleports = np.full(n, 1 / n) if vector is None else vector
        solution = np.linalg.solve(np.eye(n) - beta * matrix, teleports)
    else:
        if (graph.out_degrees == 0).any():
            raise ParameterError.of(owner, "beta", "must be below 1 where a node has no out-edge.")
        system = np.eye(n) - matrix
        if np.linalg.matrix_rank(system) < n - 1:
            raise ParameterError.of(
                owner, "beta", "must be below 1 where several closed groups of nodes share rank."
            )
        system[-1] = 1.0  # the equations sum to 0 = 0, so one of them makes room for sum(r) = 1
        solution = np.linalg.solve(system, np.eye(n)[-1])
        solution = np.maximum(solution, 0.0)  # rounding of transient nodes
    return Ranks(graph.nodes, solution / solution.sum(), method="flow equations")


def walk_distribution(graph: Graph, steps: int, *, start: Column | None = None) -> np.ndarray:
    """Follow a random surfer without teleports: p(t + 1) = M p(t).

    It shows what teleports are for: probability leaks at dead ends, collects in spider traps, and
    in a periodic graph never settles.

    Parameters
    ----------
    graph : Graph
        The graph.
    steps : int
        Number of steps, from 0 up.
    start : array_like of shape (n_nodes,) or None, default=None
        Probability of each position at the start; None for all equally.

    Returns
    -------
    ndarray of shape (n_nodes,)
        Probability of each position after the steps; their sum falls where there are dead ends.

    Examples
    --------
    >>> walk_distribution(Graph([1], [2]), 1).tolist()  # 2 is a dead end
    [0.0, 0.5]
    """
    owner = "walk_distribution"
    if not isinstance(graph, Graph):
        raise TypeError(f"{owner}: graph must be a Graph, not {type(graph).__name__}.")
    count = STEPS.check(owner, "steps", steps)
    n = graph.n_nodes
    p = np.full(n, 1 / max(n, 1)) if start is None else np.array(start, np.float64)
    if p.shape != (n,) or not np.isfinite(p).all() or (p < 0).any():
        raise ParameterError.of(owner, "start", f"must be {n} numbers from 0 up.")
    total = out_weights(graph)
    inverse = np.divide(1.0, total, out=np.zeros(n), where=total > 0)
    begins = np.repeat(np.arange(n), graph.out_degrees)
    weights = 1.0 if graph.weights is None else graph.weights
    for _ in range(count):
        p = np.bincount(graph.targets, (p * inverse)[begins] * weights, minlength=n)
    return p


def _checked(owner: str, graph: Graph) -> int:
    if not isinstance(graph, Graph):
        raise TypeError(f"{owner}: graph must be a Graph, not {type(graph).__name__}.")
    if not 1 <= graph.n_nodes <= MOST_NODES:
        raise ParameterError.of(
            owner, "graph", f"must have 1 to {MOST_NODES} nodes, not {graph.n_nodes}; use pagerank."
        )
    return graph.n_nodes


def _transitions(graph: Graph) -> np.ndarray:
    """The dense matrix M, whose column i has the probabilities of the links of node i."""
    n = graph.n_nodes
    begins = np.repeat(np.arange(n), graph.out_degrees)
    weights = np.ones(graph.n_edges) if graph.weights is None else graph.weights
    matrix = np.zeros((n, n))
    np.add.at(matrix, (graph.targets, begins), weights / out_weights(graph)[begins])
    return matrix
