"""Neighbourhood function: how many pairs of nodes lie within each distance; effective diameter."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np

from sfumato.core.tables import Table, described
from sfumato.core.validation import (
    Limit,
    checked_values,
    fraction,
    integer,
    one_of,
    optional,
)
from sfumato.kernels.alignment import aligned
from sfumato.kernels.mine.graphs import neighbourhoods as kernels
from sfumato.kernels.seed_keys import key_of
from sfumato.mine.rank.graph.graph import Graph

__all__ = ["NeighbourhoodFunction", "neighbourhood_function"]

OWNER = "neighbourhood_function"
LIMITS: dict[str, Limit] = {
    "method": one_of(("auto", "exact", "hyperloglog")),
    "precision": integer(4, 14),
    "max_distance": optional(integer(1)),
    "seed": integer(0, 2**64 - 1),
    "threads": optional(integer(1, 1024)),
}
SMALL = 2**33  # nodes times (nodes + edges) up to which exact sets take a few seconds
SOURCES = 512  # bits of a row, of which one is a source
GROUPS = 16  # of registers, of which each is left out once
STD_ERROR = 1.04  # relative standard error of a counter, times sqrt(number of registers)
Progress = Callable[[int, int | None], None]


class NeighbourhoodFunction(Table):
    """Number of pairs of nodes within each distance, as `neighbourhood_function` returns it.

    Parameters
    ----------
    pairs : ndarray of shape (n_distances,)
        Pairs (u, v) with a path from u to v of at most 0, 1, 2, ... edges; u = v counts.
    std_error : float
        Relative standard error of each number of pairs; 0 if they are exact.
    method : str
        Method that was used: "exact" or "hyperloglog".
    complete : bool, default=True
        Whether no pair lies further apart; False if `max_distance` ended the search.
    replicates : ndarray of shape (n_groups, n_distances) or None, default=None
        The numbers of pairs as estimated without each group of registers, for intervals; None if
        they are exact.

    Examples
    --------
    >>> from sfumato.mine.rank import Graph, neighbourhood_function
    >>> path = neighbourhood_function(Graph([1, 2, 3], [2, 3, 4]).undirected())
    >>> path.pairs.tolist(), path.diameter
    ([4.0, 10.0, 14.0, 16.0], 3)
    >>> path.effective_diameter(), path.mean_distance()
    (2.2, 1.6666666666666667)
    """

    def __init__(
        self,
        pairs: np.ndarray,
        std_error: float,
        method: str,
        *,
        complete: bool = True,
        replicates: np.ndarray | None = None,
    ) -> None:
        self.pairs: np.ndarray
        self.std_error: float
        self.method: str
        self.pairs, self.std_error, self.method = pairs, std_error, method
        self.complete: bool
        self.replicates: np.ndarray | None
        self.complete, self.replicates = complete, replicates

    def __repr__(self) -> str:
        about = dict(diameter=self.diameter, std_error=self.std_error, complete=self.complete)
        return described(self, method=self.method, **about)

    @property
    def diameter(self) -> int:
        """Largest distance at which pairs were found: never above the true largest distance."""
        return max(int(self.pairs.size) - 1, 0)

    def effective_diameter(self, quantile: float = 0.9) -> float:
        """Compute the distance within which a fraction of all connected pairs lies.

        Parameters
        ----------
        quantile : float, default=0.9
            Fraction of the pairs, between 0 and 1.

        Returns
        -------
        float
            The distance, interpolated linearly between integers; 0 for a graph without nodes.
        """
        quantile = fraction.check("NeighbourhoodFunction", "quantile", quantile)
        return self._distance(self.pairs, quantile * self.pairs[-1]) if self.pairs.size else 0.0

    def effective_diameter_interval(
        self, quantile: float = 0.9, confidence: float = 0.95
    ) -> tuple[float, float]:
        """Bound the effective diameter.

        Parameters
        ----------
        quantile : float, default=0.9
            Fraction of the pairs, between 0 and 1.
        confidence : float, default=0.95
            Approximate probability with which it lies between the bounds, between 0 and 1.

        Returns
        -------
        tuple of float
            Lower and upper bound, by the jackknife over groups of registers: the errors of pairs
            at different distances have the same hashes, and largely cancel in their ratio.
        """
        confidence = fraction.check("NeighbourhoodFunction", "confidence", confidence)
        found = self.effective_diameter(quantile)
        if self.replicates is None:
            return found, found
        each = [self._distance(row, quantile * row[-1]) for row in self.replicates]
        groups = len(each)
        deviation = float(np.std(each)) * (groups - 1) ** 0.5
        half = _student(confidence, groups - 1)
        return max(found - half * deviation, 0.0), found + half * deviation

    def mean_distance(self) -> float:
        """Compute the mean distance of connected pairs of different nodes.

        Returns
        -------
        float
            The mean; 0 if there are no such pairs.
        """
        if self.pairs.size < 2:
            return 0.0
        new = np.diff(self.pairs)
        return float((new * np.arange(1, self.pairs.size)).sum() / new.sum())

    def error_bound(self, confidence: float = 0.95) -> float:
        """Bound the relative error of a number of pairs.

        Parameters
        ----------
        confidence : float, default=0.95
            Approximate probability with which the bound holds, between 0 and 1.

        Returns
        -------
        float
            Bound on ``|pairs - true| / true``.
        """
        confidence = fraction.check("NeighbourhoodFunction", "confidence", confidence)
        return float(NormalDist().inv_cdf((1 + confidence) / 2) * self.std_error)

    @staticmethod
    def _distance(pairs: np.ndarray, wanted: float) -> float:
        """Return the interpolated distance at which this many pairs are reached."""
        at = int(np.argmax(pairs >= wanted))
        if at == 0:
            return 0.0
        return float(at - 1 + (wanted - pairs[at - 1]) / (pairs[at] - pairs[at - 1]))

    def _columns(self) -> dict[str, Any]:
        return {"distance": np.arange(self.pairs.size), "pairs": self.pairs}


def neighbourhood_function(
    graph: Graph,
    *,
    method: str = "auto",
    precision: int = 8,
    max_distance: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> NeighbourhoodFunction:
    """Count the pairs of nodes within each distance along the edges.

    Parameters
    ----------
    graph : Graph
        The graph; paths follow the direction of edges. Take ``graph.undirected()`` for distances
        without it. Weights are not used.
    method : {"auto", "exact", "hyperloglog"}, default="auto"
        "exact" follows the paths from 512 nodes at a time. "hyperloglog" estimates the size of the
        ball around every node, all at once. "auto" takes "exact" for small graphs.
    precision : int, default=8
        Base-2 logarithm of the number of registers of a node, from 4 to 14: the relative standard
        error is 1.04 / 2**(precision / 2), 6.5 % by default.
    max_distance : int or None, default=None
        Distance at which to end, at least 1; None for the largest there is.
    seed : int, default=0
        Seed of the hashes of "hyperloglog".
    threads : int or None, default=None
        Threads of "hyperloglog"; None for as many as there are cores.
    progress : callable or None, default=None
        Called as ``progress(done, None)`` after each distance, or with the number of sources done
        and their total by "exact".

    Returns
    -------
    NeighbourhoodFunction
        Pairs by distance, with the effective diameter.

    Notes
    -----
    **Guarantee.** "exact": no error. "hyperloglog": the relative standard error of every number of
    pairs is at most that of one counter, 1.04 / sqrt(registers): the standard deviation of a sum
    is at most the sum of those of its terms, however they depend on each other [1]_. (Below
    precision 6 estimates are skewed, and their error is a tenth larger.) The number of pairs at
    distance 0 is the number of nodes. `diameter` is never too large, since a counter grows in step
    t only if a node at distance t exists.

    Memory: two tables of 2**precision bytes for each node ("exact": of 64 bytes). Time: as many
    passes over the edges as the diameter has steps; a node is visited only if a neighbour's ball
    grew ("exact": for each 512 nodes).

    References
    ----------
    .. [1] Boldi, Rosa, Vigna. "HyperANF: Approximating the Neighbourhood Function of Very Large
       Graphs on a Budget". WWW 2011, section 3. https://arxiv.org/abs/1011.5599
    .. [2] Ertl. "New cardinality estimation algorithms for HyperLogLog sketches". 2017, Algorithm 6
       (the estimator). https://arxiv.org/abs/1702.01284

    Examples
    --------
    >>> ring = Graph(range(1000), [*range(1, 1000), 0])
    >>> exact = neighbourhood_function(ring, max_distance=50)
    >>> sketched = neighbourhood_function(ring, method="hyperloglog", max_distance=50)
    >>> exact.pairs[:3].tolist(), bool(abs(sketched.pairs[50] / exact.pairs[50] - 1) < 0.2)
    ([1000.0, 2000.0, 3000.0], True)
    """
    given = dict(
        method=method, precision=precision, max_distance=max_distance, seed=seed, threads=threads
    )
    plain = checked_values(OWNER, LIMITS, given)
    size = graph.n_nodes
    if method == "auto":
        method = "exact" if size * (size + graph.n_edges) <= SMALL else "hyperloglog"
    if not size:
        return NeighbourhoodFunction(np.zeros(0), 0.0, method)
    if method == "exact":
        pairs, complete = _exact(graph, plain["max_distance"], progress)
        return NeighbourhoodFunction(pairs, 0.0, method, complete=complete)
    balls = _Balls(graph, plain["precision"], plain["seed"], plain["threads"])
    found, complete = balls.pairs(plain["max_distance"], progress)
    error = STD_ERROR / 2 ** (plain["precision"] / 2)
    return NeighbourhoodFunction(
        found[:, 0], error, method, complete=complete, replicates=found[:, 1:].T
    )


def _exact(graph: Graph, most: int | None, progress: Progress | None) -> tuple[np.ndarray, bool]:
    """Return the pairs within each distance, and whether there are no others."""
    size, complete = graph.n_nodes, True
    new_pairs = [size]
    sets, spare = (aligned((size, SOURCES // 64), np.uint64) for _ in range(2))
    changed, grown = np.empty(size, np.bool_), np.empty(size, np.bool_)
    for first in range(0, size, SOURCES):
        sets.fill(0)
        kernels.start_bits(first, sets)
        changed[:] = False
        changed[first : first + SOURCES] = True
        distance = 1
        while changed.any():
            new = kernels.join_bits(graph.offsets, graph.targets, changed, sets, grown, spare)
            sets, spare, changed, grown = spare, sets, grown, changed
            if new and most is not None and distance > most:
                complete = False
                break
            if new:
                new_pairs += [0] * (distance + 1 - len(new_pairs))
                new_pairs[distance] += int(new)
            distance += 1
        if progress is not None:
            progress(min(first + SOURCES, size), size)
    return np.cumsum(new_pairs, dtype=np.float64), complete


class _Balls:
    """A HyperLogLog for the ball around every node."""

    def __init__(self, graph: Graph, precision: int, seed: int, threads: int | None) -> None:
        self.graph, self.threads = graph, threads or len(os.sched_getaffinity(0))
        registers = 2**precision
        self.rows, self.spare = (aligned((graph.n_nodes, registers), np.uint8) for _ in range(2))
        self.scratch = np.empty(GROUPS), np.empty(GROUPS, np.int64)
        kernels.start_registers(precision, key_of(seed), self.rows)
        self.corrections = np.zeros((2, registers + 1))
        for row, used in enumerate((registers, registers - registers // GROUPS)):
            self.corrections[row, : used + 1] = _corrections(used)

    def pairs(self, most: int | None, progress: Progress | None) -> tuple[np.ndarray, bool]:
        """Return the estimated pairs within each distance, from all registers and without each
        group, and whether there are no others.
        """
        size = self.graph.n_nodes
        changed, grown = np.ones(size, np.bool_), np.empty(size, np.bool_)
        balls = np.ones((size, 1 + GROUPS))
        found = [balls.sum(axis=0)]
        with ThreadPoolExecutor(self.threads) as pool:
            while True:
                self._step(pool, changed, grown)
                if not grown.any():
                    return np.array(found), True
                if most is not None and len(found) > most:
                    return np.array(found), False
                self.rows, self.spare, changed, grown = self.spare, self.rows, grown, changed
                kernels.cardinalities(self.rows, changed, self.corrections, *self.scratch, balls)
                # A ball of two nodes in one register may be estimated a little below 1.
                found.append(np.maximum(balls.sum(axis=0), found[-1]))
                if progress is not None:
                    progress(len(found) - 1, None)

    def _step(self, pool: ThreadPoolExecutor, changed: np.ndarray, grown: np.ndarray) -> None:
        """Join the balls of neighbours; each thread writes the rows of its own nodes."""
        graph = self.graph
        parts = np.linspace(0, graph.n_edges, self.threads + 1)
        cuts = np.searchsorted(graph.offsets, parts[1:-1])
        ends = [0, *np.minimum(cuts, graph.n_nodes).tolist(), graph.n_nodes]
        jobs = [
            pool.submit(
                kernels.join_registers,
                graph.offsets,
                graph.targets,
                begin,
                end,
                changed,
                self.rows,
                grown,
                self.spare,
            )
            for begin, end in pairwise(ends)
        ]
        for job in jobs:
            job.result()


def _student(confidence: float, freedom: int) -> float:
    """Return the two-sided quantile of Student's t distribution."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


def _corrections(registers: int) -> np.ndarray:
    """Return m sigma(z / m) for z = 0, ..., m empty registers; for z = m any number will do."""
    x = np.arange(registers) / registers
    total, scale = x.copy(), 1.0
    for _ in range(64):
        x *= x
        total += x * scale
        scale *= 2
    return np.append(total, 1.0) * registers
