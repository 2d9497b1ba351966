"""PageRank in memory: plain, topic-specific and personalised, and random walks with restart."""

import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.core.ids import is_one
from sfumato.core.typing import Column
from sfumato.core.validation import between, integer, optional
from sfumato.errors import ParameterError
from sfumato.kernels.mine.graphs import page_rank
from sfumato.mine.rank.graph.graph import Graph
from sfumato.mine.rank.page_rank.engine_page_rank import (
    EdgeColumns,
    EngineEdges,
    power_iteration,
)
from sfumato.mine.rank.page_rank.pull_layout import PullLayout, Workers, layout_of
from sfumato.mine.rank.page_rank.ranks import Ranks
from sfumato.mine.rank.page_rank.teleports import teleport_vector

if TYPE_CHECKING:
    from sfumato.engine import Engine

__all__ = ["BETA", "MAX_ITER", "TOLERANCE", "pagerank", "random_walk_with_restart"]

BETA = between(0, 1)
TOLERANCE = between(1e-13, 1)
MAX_ITER = integer(1)
THREADS = optional(integer(1, 1024))
FALL = 1e-5  # how far changes may fall in float32 before a pass in float64 measures them again
MARGIN = 0.9  # of the tolerance, so that the pass that measures them usually is the last

Progress = Callable[[int, int | None], Any]


def pagerank(
    graph: Any,
    beta: float = 0.85,
    *,
    tolerance: float = 1e-8,
    teleport: Any = None,
    weighted: bool = True,
    max_iter: int = 1000,
    start: Ranks | Column | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    engine: "Engine | None" = None,
    source_column: str = "source",
    target_column: str = "target",
    weight_column: str | None = None,
) -> Ranks:
    """Rank the nodes of a graph by the probability that a random surfer is there.

    Parameters
    ----------
    graph : Graph or source
        The graph, of one node or more; with `engine` what the engine reads, one edge per row.
    beta : float, default=0.85
        Probability of following a link, from 0 to 1, 1 excluded; else the surfer teleports.
    tolerance : float, default=1e-08
        L1 norm of the change in the last iteration, from 1e-13 to 1, 1 excluded.
    teleport : array_like, dict, scalar or None, default=None
        Where the surfer teleports to: ids of a topic, a dict from ids to weights, one id, or None
        for all nodes equally. What leaks from dead ends goes there too.
    weighted : bool, default=True
        Whether links are followed in proportion to their weights, if the graph has any.
    max_iter : int, default=1000
        Number of iterations after which to stop, from 1 up.
    start : Ranks, array_like or None, default=None
        Scores to start with, as of a similar graph, by position; None for those of `teleport`.
    threads : int or None, default=None
        Number of threads, from 1 to 1024; None for all available cores. Not with `engine`.
    progress : callable or None, default=None
        Called after each iteration with their number and None.
    engine : Engine or None, default=None
        Where the edges are; None for a graph in memory.
    source_column : str, default="source"
        Name of the column of nodes where edges begin; only with `engine`, as are the next two.
    target_column : str, default="target"
        Name of the column of nodes where edges end.
    weight_column : str or None, default=None
        Name of the column of weights; None counts every row once. Parallel edges add up.

    Returns
    -------
    Ranks
        Scores that sum to 1.

    Warns
    -----
    RuntimeWarning
        The tolerance was not reached in `max_iter` iterations.

    Notes
    -----
    **Guarantee.** Let T(r) = beta M r + (1 - S) v, where M[j, i] = 1 / out-degree(i) for every edge
    i -> j, v is the distribution of teleports, and S the sum of beta M r: what leaks by teleports
    and at dead ends is inserted again. The result is T(r) of an r with ``|T(r) - r|_1 <
    tolerance``, computed in float64, so the result is within ``beta / (1 - beta) * tolerance`` of
    the exact ranks in L1. It does not depend on the number of threads.

    The iterations between follow changes of r, whose contributions are rounded to float32: an error
    of 2**-24 of a change that itself vanishes. A pass in float64 begins and ends them and measures
    the residual, so no promise rests on the rounded ones.

    The in-edges are laid out for this at the first call, and the graph retains them: 4 bytes per
    edge, 12 with weights, and 16 per node.

    An engine computes in float64 throughout, and makes one pass over its edges per iteration. They
    are kept in their partitions as positions, 16 bytes per edge; the caller and every worker have
    the ranks of all nodes in memory. Its sums are rounded in another order, with the same promise.

    References
    ----------
    Brin and Page (1998). Langville and Meyer (2004), section 6 on dead ends.

    Examples
    --------
    >>> graph = Graph(["y", "y", "a", "a", "m"], ["y", "a", "y", "m", "m"])  # m is a spider trap
    >>> ids, scores = pagerank(graph, beta=0.8).top()
    >>> ids.tolist(), (33 * scores).round(6).tolist()
    (['m', 'y', 'a'], [21.0, 7.0, 5.0])
    >>> from sfumato.engine import LocalEngine
    >>> edges = {"source": ["y", "y", "a", "a", "m"], "target": ["y", "a", "y", "m", "m"]}
    >>> pagerank(edges, beta=0.8, engine=LocalEngine()).top(2)[0].tolist()
    ['m', 'y']
    """
    settings = _Settings("pagerank", beta, tolerance, max_iter, threads, progress)
    if engine is not None:
        _check_engine(threads, weighted)
        columns = EdgeColumns("pagerank", source_column, target_column, weight_column)
        return _by_engine(engine, graph, columns, teleport, start, settings)
    vector = _checked_graph("pagerank", graph, teleport)
    ranks = _started("pagerank", graph, start, vector)
    source = graph if weighted or not graph.is_weighted else _unweighted(graph)
    return _solved(layout_of(source), graph, vector, ranks, settings, "pagerank")


def random_walk_with_restart(
    graph: Graph,
    node: int | str,
    beta: float = 0.85,
    *,
    tolerance: float = 1e-8,
    weighted: bool = True,
    max_iter: int = 1000,
    threads: int | None = None,
) -> Ranks:
    """Measure the proximity of all nodes to one, by a walk that returns to it again and again.

    Parameters
    ----------
    graph : Graph
        The graph; take `Graph.undirected` if links count in both directions.
    node : int or str
        Id of the node.
    beta : float, default=0.85
        Probability of going on, from 0 to 1, 1 excluded; else the walk restarts at the node.
    tolerance : float, default=1e-08
        As in `pagerank`.
    weighted : bool, default=True
        As in `pagerank`.
    max_iter : int, default=1000
        As in `pagerank`.
    threads : int or None, default=None
        As in `pagerank`.

    Returns
    -------
    Ranks
        The probability of being at each node: high where many, short and heavy paths lead.

    Notes
    -----
    **Guarantee.** As of `pagerank` with ``teleport=node``: the teleport set is this one node.

    References
    ----------
    Tong, Faloutsos and Pan (2006), Fast random walk with restart and its applications.

    Examples
    --------
    >>> graph = Graph([1, 1, 2, 4], [2, 3, 3, 1]).undirected()
    >>> random_walk_with_restart(graph, 4).top(2)[0].tolist()
    [1, 4]
    """
    owner = "random_walk_with_restart"
    if not is_one(node):
        raise ParameterError.of(owner, "node", f"must be one id, not {type(node).__name__}.")
    vector = _checked_graph(owner, graph, node)
    settings = _Settings(owner, beta, tolerance, max_iter, threads, None)
    ranks = _started(owner, graph, None, vector)
    source = graph if weighted or not graph.is_weighted else _unweighted(graph)
    return _solved(layout_of(source), graph, vector, ranks, settings, owner)


def _check_engine(threads: int | None, weighted: bool) -> None:
    """Refuse what only a graph in memory can have."""
    if threads is not None:
        raise ParameterError.of("pagerank", "threads", "must be None: the engine has its own.")
    if not weighted:
        problem = "must be True with an engine; leave weight_column out for edges of weight 1."
        raise ParameterError.of("pagerank", "weighted", problem)


def _by_engine(
    engine: "Engine",
    source: Any,
    columns: EdgeColumns,
    teleport: Any,
    start: Any,
    settings: "_Settings",
) -> Ranks:
    """Rank the nodes of edges that an engine has."""
    edges = EngineEdges(engine, source, columns)
    try:
        vector = teleport_vector("pagerank", edges.graph, teleport)
        ranks, iterations, residual = power_iteration(
            edges,
            _started("pagerank", edges.graph, start, vector),
            vector,
            beta=settings.beta,
            tolerance=settings.tolerance,
            max_iter=settings.max_iter,
            report=lambda done: _report(settings, done),
        )
    finally:
        edges.unpersist()
    return _ranks(edges.graph, ranks, iterations, residual, settings, "pagerank")


class _Settings:
    """Checked parameters of an iteration."""

    def __init__(
        self,
        owner: str,
        beta: float,
        tolerance: float,
        max_iter: int,
        threads: int | None,
        progress: Progress | None,
    ) -> None:
        self.beta = BETA.check(owner, "beta", beta)
        self.tolerance = TOLERANCE.check(owner, "tolerance", tolerance)
        self.max_iter = MAX_ITER.check(owner, "max_iter", max_iter)
        wanted = THREADS.check(owner, "threads", threads)
        cores = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)
        self.threads = wanted or len(cores)
        self.progress = progress


def _checked_graph(owner: str, graph: Graph, teleport: Any) -> np.ndarray | None:
    if not isinstance(graph, Graph):
        raise TypeError(f"{owner}: graph must be a Graph, not {type(graph).__name__}.")
    if not graph.n_nodes:
        raise ParameterError.of(owner, "graph", "must have a node: no rank is defined without.")
    return teleport_vector(owner, graph, teleport)


def _unweighted(graph: Graph) -> Graph:
    """The graph without its weights; it shares all other arrays."""
    if graph._plain is None:
        plain = graph.reverse().reverse()
        plain.weights = None
        plain._incoming = graph.in_offsets, graph.sources, None
        plain._layout = None
        graph._plain = plain
    made: Graph = graph._plain
    return made


def _started(owner: str, graph: Graph, start: Any, vector: np.ndarray | None) -> np.ndarray:
    """The first ranks by position, which sum to 1."""
    n = graph.n_nodes
    if start is None:
        return np.full(n, 1 / n) if vector is None else vector.copy()
    scores = np.array(start.scores if isinstance(start, Ranks) else start, np.float64)
    fits = scores.shape == (n,) and np.isfinite(scores).all() and (scores >= 0).all()
    if not fits or not scores.sum() > 0:
        raise ParameterError.of(
            owner, "start", f"must be {n} numbers from 0 up, not all of them 0."
        )
    return np.asarray(scores / scores.sum())


def _solved(
    layout: PullLayout,
    graph: Graph,
    vector: np.ndarray | None,
    start: np.ndarray,
    settings: _Settings,
    method: str,
) -> Ranks:
    """Iterate to the tolerance; the ranks in the order of positions."""
    teleport = np.full(1, 1 / graph.n_nodes) if vector is None else vector[layout.order]
    ranks = start[layout.order]
    with layout.workers(settings.threads) as workers:
        iterations, residual = _iterated(workers, ranks, teleport, settings)
    scores = np.empty_like(ranks)
    scores[layout.order] = ranks
    return _ranks(graph, scores, iterations, residual, settings, method)


def _ranks(
    graph: Graph,
    scores: np.ndarray,
    iterations: int,
    residual: float,
    settings: _Settings,
    method: str,
) -> Ranks:
    """The result; warns if the tolerance was not reached."""
    converged = residual < settings.tolerance
    if not converged:
        warnings.warn(
            f"{method}: the change is {residual:.3g} after {iterations} iterations, which is not "
            "below the tolerance; raise max_iter or the tolerance.",
            RuntimeWarning,
            stacklevel=4,
        )
    return Ranks(
        graph.nodes,
        scores,
        iterations=iterations,
        residual=residual,
        converged=converged,
        method=method,
    )


def _iterated(
    workers: Workers, ranks: np.ndarray, teleport: np.ndarray, settings: _Settings
) -> tuple[int, float]:
    """Power iteration on ranks, in place: the number of passes and the last residual.

    A pass in float64 computes T(r) - r; passes in float32 then follow T of that change, which is
    linear, until it has fallen far enough.
    """
    layout, beta, n = workers.layout, settings.beta, ranks.size
    exact = np.zeros(n)
    changes = np.zeros(n, np.float32), np.zeros(n, np.float32)
    single = _Unlinked(ranks, teleport, layout.active)
    iterations, residual = 0, 1.0
    while True:
        alive = page_rank.contribute(ranks, layout.inverse, layout.cell, 1.0, exact)
        scale, leaked = _power(residual), 1.0 - beta * alive
        residual, alive = workers.pull(
            exact, beta, leaked, teleport, True, scale, ranks, changes[0]
        )
        residual += single.replace(leaked)
        iterations += 1
        _report(settings, iterations)
        if residual < settings.tolerance or iterations >= settings.max_iter:
            return iterations, residual
        least = max(MARGIN * settings.tolerance, FALL * residual)
        while residual >= least and iterations < settings.max_iter - 1:
            used, scale, leaked = scale, _power(residual), -beta * alive
            residual, alive = workers.pull(
                changes[0], beta / used, leaked, teleport, False, scale, ranks, changes[1]
            )
            residual += single.change(leaked)
            changes = changes[::-1]
            iterations += 1
            _report(settings, iterations)


class _Unlinked:
    """The rows without edges: they have teleports alone, in proportion to their probabilities."""

    def __init__(self, ranks: np.ndarray, teleport: np.ndarray, active: int) -> None:
        self.ranks = ranks[active:]
        self.teleport = teleport[active:] if teleport.size > 1 else teleport
        self.total = float(np.broadcast_to(self.teleport, self.ranks.shape).sum())
        self.pending = 0.0

    def change(self, constant: float) -> float:
        """Add to all rows, later; the L1 norm of the change."""
        self.pending += constant
        return abs(constant) * self.total

    def replace(self, constant: float) -> float:
        """Set all rows; the L1 norm of the change."""
        old = self.ranks + self.pending * self.teleport
        self.ranks[:] = constant * self.teleport
        self.pending = 0.0
        return float(np.abs(self.ranks - old).sum())


def _power(residual: float) -> float:
    """A power of two that brings changes near 1, far from what float32 cannot represent."""
    return float(2.0 ** -np.floor(np.log2(residual))) if residual > 0 else 1.0


def _report(settings: _Settings, iterations: int) -> None:
    if settings.progress is not None:
        settings.progress(iterations, None)
