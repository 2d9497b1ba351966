"""SimRank: nodes are similar if similar nodes link to them; all pairs, or one node with others."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.core.tables import Table, described
from sfumato.core.typing import Ids
from sfumato.core.validation import (
    Limit,
    RandomState,
    checked_values,
    fraction,
    integer,
    one_of,
    random_seed,
)
from sfumato.errors import ParameterError
from sfumato.kernels.mine.graphs import neighbour_sums
from sfumato.kernels.mine.graphs import simrank as kernels
from sfumato.kernels.seed_keys import key_of
from sfumato.mine.rank.graph.graph import Graph
from sfumato.mine.rank.page_rank.page_rank import random_walk_with_restart

__all__ = ["Similarities", "simrank"]

OWNER = "simrank"
LIMITS: dict[str, Limit] = {
    "decay": fraction,
    "method": one_of(("auto", "exact", "monte-carlo", "restart")),
    "n": integer(1),
    "tolerance": fraction,
    "samples": integer(1, 2**40),
}
MOST_EXACT = 10_000  # nodes: four matrices then take 3.2 GB
SMALL = 10_000_000  # nodes times edges up to which all pairs are computed in a second or so


class Similarities(Table):
    """Most similar pairs of nodes, best first, as `simrank` returns them.

    Parameters
    ----------
    first : ndarray of shape (n,)
        Ids of one node of each pair: the source, where there is one.
    second : ndarray of shape (n,)
        Ids of the other node.
    scores : ndarray of shape (n,)
        Their similarity, not rising.
    std_errors : ndarray of shape (n,)
        Upper estimate of the standard error of each score; 0 if nothing was sampled.
    method : str
        Method that was used: "exact", "monte-carlo" or "restart".
    all_scores : ndarray
        Scores of all nodes by position, of shape (n_nodes,), the source itself with 1 (with method
        "restart" its own score); the matrix of all pairs, of shape (n_nodes, n_nodes), where there
        was no source.
    truncation : float, default=0.0
        How much smaller than the true ones scores may be since walks are followed no further.
    weight : float, default=0.0
        Sum over sampled nodes of the squared range of their part of a score over the number of
        samples, for `error_bound`.
    samples : int, default=0
        Number of pairs of walks that were drawn.

    Examples
    --------
    >>> from sfumato.mine.rank import Graph, simrank
    >>> graph = Graph(["univ", "univ", "a", "b"], ["a", "b", "x", "y"])
    >>> found = simrank(graph, "a", decay=0.8)
    >>> found.to_arrow().to_pylist()[0]["second"], round(float(found.scores[0]), 3)
    ('b', 0.8)
    """

    def __init__(
        self,
        first: np.ndarray,
        second: np.ndarray,
        scores: np.ndarray,
        std_errors: np.ndarray,
        method: str,
        all_scores: np.ndarray,
        *,
        truncation: float = 0.0,
        weight: float = 0.0,
        samples: int = 0,
    ) -> None:
        self.first: np.ndarray
        self.second: np.ndarray
        self.scores: np.ndarray
        self.std_errors: np.ndarray
        self.first, self.second, self.scores, self.std_errors = first, second, scores, std_errors
        self.method: str
        self.all_scores: np.ndarray
        self.truncation: float
        self.method, self.all_scores, self.truncation = method, all_scores, truncation
        self.weight: float
        self.samples: int
        self.weight, self.samples = weight, samples

    def __len__(self) -> int:
        return int(self.scores.size)

    def __repr__(self) -> str:
        return described(self, method=self.method, n=len(self), samples=self.samples)

    @property
    def ids(self) -> np.ndarray:
        """Ids of the nodes that are similar to the source, best first."""
        return self.second

    def error_bound(self, confidence: float = 0.99) -> float:
        """Bound the error of all scores at once.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the bound holds for every node, between 0 and 1.

        Returns
        -------
        float
            Largest difference of a score from the exact one: the truncation, and Hoeffding's
            inequality for the sampled part of all nodes together. `std_errors` are the typical
            errors, often a hundred times smaller.
        """
        miss = 1 - fraction.check("Similarities", "confidence", confidence)
        nodes = self.all_scores.shape[0]
        sampled = math.sqrt(self.weight * math.log(2 * nodes / miss) / 2) if self.weight else 0.0
        return self.truncation + sampled

    def _columns(self) -> dict[str, Any]:
        names = ("first", "second", "score", "std_error")
        values = (self.first, self.second, self.scores, self.std_errors)
        return dict(zip(names, values, strict=True))


def simrank(
    graph: Graph,
    source: Ids | None = None,
    other: Ids | None = None,
    *,
    decay: float = 0.8,
    method: str = "auto",
    n: int = 20,
    tolerance: float = 1e-6,
    samples: int = 1_000_000,
    random_state: RandomState = 0,
) -> Similarities:
    """Find the nodes that are most similar to a node by who links to them.

    The similarity of two different nodes is `decay` times the mean similarity of their
    in-neighbours, 0 if one has none; that of a node with itself is 1.

    Parameters
    ----------
    graph : Graph
        The graph. Its weights count for "restart" alone. For a k-partite graph (authors, papers,
        tags) take ``graph.undirected()``, so that similarity passes along all its edges.
    source : array_like, scalar or None, default=None
        Id of the node whose similar nodes are wanted; None for the best pairs of all.
    other : array_like, scalar or None, default=None
        Ids of the nodes to compare with, such as one part of a k-partite graph; None for all.
    decay : float, default=0.8
        Factor c of a step, between 0 and 1.
    method : {"auto", "exact", "monte-carlo", "restart"}, default="auto"
        "exact" iterates the matrix of all pairs, for up to 10,000 nodes. "monte-carlo" computes
        the scores of one source from all walks, with one sampled factor for each node. "restart"
        is the course's proximity in place of SimRank, `random_walk_with_restart`: the probability
        that a walk, which starts again at the source with probability 1 - decay in every step, is
        at a node.
        "auto" takes "exact" for all pairs and small graphs, else "monte-carlo".
    n : int, default=20
        Number of pairs that are listed, at least 1.
    tolerance : float, default=1e-06
        How much of a score may be left out, between 0 and 1: walks are followed until
        ``decay**steps`` is at most this.
    samples : int, default=1000000
        Pairs of walks that "monte-carlo" draws, from 1 to 2**40; at least one for each node that
        walks from the source reach.
    random_state : int, Generator or None, default=0
        Seed of the walks of "monte-carlo".

    Returns
    -------
    Similarities
        The best pairs; the source itself is not listed, nor are nodes of score 0.

    Notes
    -----
    **Guarantee.** "exact": every score is too low by at most `tolerance`. "monte-carlo": all
    scores are within ``error_bound(c)`` with probability c; the standard error of each is at most
    about its `std_errors`. "restart": within ``decay / (1 - decay) * tolerance`` in L1.

    With P the step to an in-neighbour, S = sum over k of c**k (P**k)' D P**k where D is diagonal,
    and D[w] is the probability that two walks from w never meet again, if both survive each step
    with probability c [2]_. The vectors P**k e_u of the source u are computed without error, and so
    is the sum over k. D is sampled as in [3]_, here with an exact first step: the in-neighbours of
    w are one with probability 1 / in-degree(w). An error of D[w] reaches a score by at most
    g(w) = sum over k of c**k (P**k e_u)[w], so samples are allotted by g, and their variance is
    carried through the same sum. Time: 2 K passes over the edges, K = log(tolerance) / log(c), and
    about 1 / (1 - c) steps for each sample. Memory: K numbers for each node.

    References
    ----------
    .. [1] Jeh, Widom. "SimRank: A Measure of Structural-Context Similarity". KDD 2002.
       https://doi.org/10.1145/775047.775126
    .. [2] Maehara, Kusumi, Kawarabayashi. "Efficient SimRank Computation via Linearization". 2014.
       https://arxiv.org/abs/1411.7228
    .. [3] Wang, Wei, Yuan, Du, Wen. "Exact Single-Source SimRank Computation on Large Graphs".
       SIGMOD 2020. https://arxiv.org/abs/2004.03493

    Examples
    --------
    >>> graph = Graph(["univ", "univ", "a", "b", "x"], ["a", "b", "x", "y", "univ"])
    >>> found = simrank(graph, "a", method="exact")
    >>> found.ids.tolist(), found.scores.round(3).tolist()
    (['b'], [0.8])
    >>> tags = Graph(["ann", "ann", "bob"], ["icde", "kdd", "kdd"]).undirected()
    >>> simrank(tags, "icde", ["icde", "kdd"], method="restart").ids.tolist()
    ['kdd']
    """
    given = dict(decay=decay, method=method, n=n, tolerance=tolerance, samples=samples)
    plain = checked_values(OWNER, LIMITS, given)
    seed = random_seed(OWNER, random_state)
    at = None if source is None else _position(graph, source)
    among = None if other is None else _positions(graph, other)
    decay, tolerance = plain["decay"], plain["tolerance"]
    chosen = _method(graph, at, plain["method"])
    if chosen == "exact":
        matrix = _all_pairs(graph, decay, tolerance)
        scores = _Scores(matrix if at is None else matrix[at], truncation=tolerance)
    elif chosen == "restart":
        assert at is not None
        ranks = random_walk_with_restart(graph, graph.nodes[at], decay, tolerance=tolerance)
        scores = _Scores(ranks.scores, truncation=decay / (1 - decay) * tolerance)
    else:
        assert at is not None
        scores = _single_source(graph, at, decay, tolerance, plain["samples"], seed)
    return _listed(graph, at, among, scores, plain["n"], chosen)


@dataclass(frozen=True)
class _Scores:
    """Scores by position, and what is known of their errors."""

    values: np.ndarray
    std_errors: np.ndarray | None = None
    truncation: float = 0.0
    weight: float = 0.0
    samples: int = 0


def _method(graph: Graph, at: int | None, method: str) -> str:
    """Return the method to use; raise where it does not fit."""
    if method == "auto":
        small = graph.n_nodes <= MOST_EXACT and graph.n_nodes * graph.n_edges <= SMALL
        return "exact" if at is None or small else "monte-carlo"
    if method != "exact" and at is None:
        raise ParameterError.of(
            OWNER, "source", f"must be given for method {method!r}; all pairs need 'exact'."
        )
    return method


def _position(graph: Graph, source: Any) -> int:
    at = graph.positions(source)
    if at.size != 1 or at[0] < 0:
        raise ParameterError.of(OWNER, "source", f"must be one node of the graph, not {source!r}.")
    return int(at[0])


def _positions(graph: Graph, ids: Any) -> np.ndarray:
    at = np.unique(graph.positions(ids))
    if not at.size or at[0] < 0:
        raise ParameterError.of(OWNER, "other", "must be ids of nodes of the graph, at least one.")
    return at


def _levels(decay: float, tolerance: float) -> int:
    """Return the number of steps after which less than `tolerance` is left."""
    return max(1, math.ceil(math.log(tolerance) / math.log(decay)))


def _inverse_degrees(graph: Graph) -> np.ndarray:
    degrees = graph.in_degrees
    out = np.zeros(degrees.size)
    np.divide(1.0, degrees, out=out, where=degrees > 0)
    return out


def _all_pairs(graph: Graph, decay: float, tolerance: float) -> np.ndarray:
    """Return the matrix of all scores: c P' S P with the diagonal set to 1, over and over."""
    size, levels = graph.n_nodes, _levels(decay, tolerance)
    if size > MOST_EXACT:
        raise ParameterError.of(
            OWNER,
            "method",
            f"must not be 'exact' for {size:,} nodes, only for up to {MOST_EXACT:,}: it takes 32 "
            "bytes for each pair; give a source, and method 'monte-carlo'.",
        )
    inverse = _inverse_degrees(graph)
    scores, half, spare = np.eye(size), np.empty((size, size)), np.empty((size, size))
    for _ in range(levels):
        neighbour_sums.pull_rows(graph.in_offsets, graph.sources, inverse, scores, half)  # P' S
        turned = np.ascontiguousarray(half.T)  # S P, since S is symmetric
        neighbour_sums.pull_rows(graph.in_offsets, graph.sources, decay * inverse, turned, spare)
        np.fill_diagonal(spare, 1.0)
        change = float(np.abs(np.subtract(spare, scores, out=half)).max(initial=0.0))
        scores, spare = spare, scores
        # What further iterations add is at most c + c**2 + ... times the last change.
        if change * decay / (1 - decay) <= tolerance:
            break
    return scores


def _single_source(
    graph: Graph, at: int, decay: float, tolerance: float, samples: int, seed: int
) -> _Scores:
    """Return the scores of one node with all others: sampled D, all else computed."""
    inverse, levels = _inverse_degrees(graph), _levels(decay, tolerance)
    walks = np.zeros((levels + 1, graph.n_nodes))
    walks[0, at] = 1.0
    for k in range(levels):
        neighbour_sums.pull(graph.offsets, graph.targets, walks[k] * inverse, walks[k + 1])
    reached = decay ** np.arange(1, levels + 1) @ walks[1:]
    factors, drawn, weight = _sampled(graph, reached, decay * (1 - inverse), decay, samples, seed)
    sums, spare = (np.zeros((graph.n_nodes, 2)) for _ in range(2))
    step = (decay * inverse)[:, np.newaxis]
    for k in range(levels, -1, -1):
        # Scores and the bound of their variances go through the same sum, Horner's scheme.
        neighbour_sums.pull_both(graph.in_offsets, graph.sources, sums, spare)
        spare *= step
        if k:  # two different nodes have not met at the start
            spare += factors * walks[k][:, np.newaxis]
        sums, spare = spare, sums
    scores, errors = sums[:, 0].copy(), np.sqrt(sums[:, 1])
    scores[at], errors[at] = 1.0, 0.0
    return _Scores(scores, errors, tolerance, weight, drawn)


def _sampled(
    graph: Graph, reached: np.ndarray, ranges: np.ndarray, decay: float, samples: int, seed: int
) -> tuple[np.ndarray, int, float]:
    """Return D and the bounds of variances by node, the number of samples, and their weight."""
    nodes = np.flatnonzero(reached)
    factors = np.zeros((graph.n_nodes, 2))
    effects = reached[nodes] * np.where(graph.in_degrees[nodes] > 1, ranges[nodes], 0.0)
    total = effects.sum()
    if not nodes.size:
        return factors, 0, 0.0
    counts = np.ceil(samples * effects / total if total else effects).astype(np.int64)
    found = np.empty((nodes.size, 2))
    kernels.no_meeting(
        graph.in_offsets, graph.sources, nodes, counts, decay, key_of(seed % 2**64), found
    )
    factors[nodes] = found
    factors[:, 1] *= reached
    weight = float((effects**2 / np.maximum(counts, 1)).sum())
    return factors, int(counts.sum()), weight


def _listed(
    graph: Graph,
    at: int | None,
    among: np.ndarray | None,
    scores: _Scores,
    n: int,
    method: str,
) -> Similarities:
    """Return the best pairs: by score, then by position."""
    values = scores.values
    wanted = np.arange(graph.n_nodes) if among is None else among
    if at is None:
        first, second = np.triu_indices(wanted.size, 1)
        first, second = wanted[first], wanted[second]
        flat = values[first, second]
    else:
        second = wanted[wanted != at]
        first = np.full(second.size, at)
        flat = values[second]
    rows = _best(flat, n)
    first, second = first[rows], second[rows]
    errors = np.zeros(rows.size) if scores.std_errors is None else scores.std_errors[second]
    about: dict[str, Any] = dict(
        truncation=scores.truncation, weight=scores.weight, samples=scores.samples
    )
    ids = graph.nodes[first], graph.nodes[second]
    return Similarities(*ids, flat[rows], errors, method, values, **about)


def _best(scores: np.ndarray, n: int) -> np.ndarray:
    """Return the rows of the n largest scores above 0, best first, ties in the order of rows."""
    rows = np.flatnonzero(scores > 0)
    if rows.size > n:
        least = np.partition(scores[rows], rows.size - n)[rows.size - n]
        rows = rows[scores[rows] >= least]
    return np.asarray(rows[np.argsort(-scores[rows], kind="stable")][:n])
