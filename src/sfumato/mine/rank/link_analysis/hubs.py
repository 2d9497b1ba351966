"""HITS: hubs, which link to good authorities, and authorities, to which good hubs link."""

import warnings
from typing import Any

import numpy as np

from sfumato.core.validation import Limit, checked_values, fraction, integer
from sfumato.kernels.mine.graphs import neighbour_sums
from sfumato.mine.rank.graph.graph import Graph
from sfumato.mine.rank.page_rank.ranks import Ranks

__all__ = ["hits"]

OWNER = "hits"
LIMITS: dict[str, Limit] = {"tolerance": fraction, "max_iter": integer(1)}


def hits(graph: Graph, *, tolerance: float = 1e-8, max_iter: int = 1000) -> tuple[Ranks, Ranks]:
    """Compute hubs and authorities (HITS): each node's links to the others' scores, in turn.

    Parameters
    ----------
    graph : Graph
        The graph; weights count.
    tolerance : float, default=1e-08
        Sum of absolute changes of the authorities in one iteration at which to end, between 0 and
        1.
    max_iter : int, default=1000
        Number of iterations after which to stop, from 1 up.

    Returns
    -------
    hubs : Ranks
        Scores that sum to 1; all are 0 in a graph without edges.
    authorities : Ranks
        Scores likewise.

    Warns
    -----
    RuntimeWarning
        The tolerance was not reached in `max_iter` iterations.

    Notes
    -----
    **Guarantee.** With A[i, j] the weight of the edge i -> j, the authorities are proportional to
    the leading right singular vector of A and the hubs to A times them, the left one: power
    iteration of A'A from equal scores. If several singular values are the largest, it is the part
    of equal scores in their space, so the result does not depend on chance. It converges as
    (s2 / s1)**(2 iterations) for singular values s1 > s2; the error may exceed the last change by
    1 / (1 - (s2 / s1)**2).

    References
    ----------
    .. [1] Kleinberg. "Authoritative Sources in a Hyperlinked Environment". Journal of the ACM 46,
       1999. https://doi.org/10.1145/324133.324140

    Examples
    --------
    >>> hubs, authorities = hits(Graph(["a", "b", "a"], ["x", "x", "y"]))
    >>> authorities.scores.round(3).tolist(), hubs.scores.round(3).tolist()
    ([0.0, 0.0, 0.618, 0.382], [0.618, 0.382, 0.0, 0.0])
    >>> hubs.top(1)[0].tolist(), authorities.top(1)[0].tolist()
    (['a'], ['x'])
    """
    given = dict(tolerance=tolerance, max_iter=max_iter)
    plain = checked_values(OWNER, LIMITS, given)
    size, change, iteration = graph.n_nodes, 1.0, 0
    hubs, authorities, last = np.full(size, 1 / max(size, 1)), np.zeros(size), np.zeros(size)
    if not graph.n_edges:
        hubs[:], change = 0.0, 0.0
    while change > plain["tolerance"] and iteration < plain["max_iter"]:
        _sums(graph.in_offsets, graph.sources, graph.in_weights, hubs, authorities)
        authorities /= authorities.sum()
        _sums(graph.offsets, graph.targets, graph.weights, authorities, hubs)
        hubs /= hubs.sum()
        change, iteration = float(np.abs(authorities - last).sum()), iteration + 1
        last[:] = authorities
    if change > plain["tolerance"]:
        warnings.warn(
            f"hits: the change is {change:.3g} after {iteration} iterations, which is not below "
            "the tolerance; raise max_iter or the tolerance.",
            RuntimeWarning,
            stacklevel=2,
        )
    about: dict[str, Any] = dict(
        iterations=iteration, residual=change, converged=change <= plain["tolerance"]
    )
    return (
        Ranks(graph.nodes, hubs, method="hubs", **about),
        Ranks(graph.nodes, authorities, method="authorities", **about),
    )


def _sums(
    offsets: np.ndarray,
    members: np.ndarray,
    weights: np.ndarray | None,
    values: np.ndarray,
    out: np.ndarray,
) -> None:
    """Sum the values of every node's neighbours into `out`."""
    if weights is None:
        neighbour_sums.pull(offsets, members, values, out)
    else:
        neighbour_sums.pull_weighted(offsets, members, weights, values, out)
