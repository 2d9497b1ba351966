"""PrivateDegreeHistogram: how many nodes have which degree, with differential privacy of edges."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.arrays import without_rows
from sfumato.core.edge_columns import numbered_ends, readable_edges, texts_of, two_columns
from sfumato.core.hashing import KeyColumn
from sfumato.core.tables import described
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, optional, positive
from sfumato.errors import ParameterError
from sfumato.mine.rank.graph.graph import Graph
from sfumato.mine.rank.private.engine_degrees import degree_counts
from sfumato.mine.rank.private.released_degrees import (
    DEGREE,
    MAX_DEGREE,
    METHOD,
    ReleasedDegrees,
)
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.parameters import PRIVACY, Privacy
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, ReleaseRequest

if TYPE_CHECKING:
    from sfumato.engine import Engine

__all__ = ["PrivateDegreeHistogram"]

OWNER = "PrivateDegreeHistogram"
LIMITS: dict[str, Limit] = {
    "epsilon": optional(positive),
    "max_degree": MAX_DEGREE,
    "degree": DEGREE,
    "method": METHOD,
    "privacy": PRIVACY,
}
PARTS = {"out": "out-degree", "in": "in-degree", "undirected": "degree"}


class PrivateDegreeHistogram:
    """Degrees of the nodes of a graph with differential privacy for each edge.

    The result of `fit` is `release_`, which may be published.

    Parameters
    ----------
    epsilon : float or None, default=None
        Privacy parameter epsilon, above 0. Required unless `privacy` gives it.
    max_degree : int
        Degree to which larger ones are cut, from 1 to 2**24; must be public.
    degree : {"out", "in", "undirected"}, default="out"
        Whether the edges that begin at a node count, those that end at it, or both as neighbours.
    method : {"cumulative", "sequence", "histogram"}, default="cumulative"
        Which numbers receive noise: how many nodes have at least each degree; the degrees in
        rising order, which needs `nodes`; or how many nodes have exactly each degree, with twice
        as much noise.
    nodes : array_like, scalar or None, default=None
        Public ids of all nodes; they must not be taken from the edges. Edges of other nodes are
        left out. None counts the nodes that have edges, whose number is then private.
    privacy : Privacy or None, default=None
        A `sfumato.privacy.Privacy` in place of epsilon and the ledger arguments of `fit`.

    Attributes
    ----------
    release_ : ReleasedDegrees
        The private release.

    Notes
    -----
    **Guarantee.** `release_` is epsilon-differentially private for one edge under add/remove
    adjacency. An edge is a pair of different nodes, with all its repetitions; undirected, in both
    directions. Which nodes exist is protected only as far as it follows from one edge.

    Proof. Repeated edges and loops are left out, so one edge more raises the degree of one node by
    1 (directed) or of two nodes by 1 each (undirected); cut degrees rise by at most that. Where
    the degree of a node rises from k to k + 1: the number of nodes of degree at least j changes
    for j = k + 1 alone, by 1. In the rising sequence the last k becomes k + 1 and nothing else
    moves [1]_. In the histogram the cells k and k + 1 change by 1. With e = 1 or 2 such nodes the
    L1 sensitivity is e, e and 2 e, and discrete Laplace noise of that scale over epsilon on every
    number is epsilon-private. How many numbers there are follows from `max_degree` and `nodes`,
    which are public. If `nodes` is None, a node without edges is counted nowhere: the cells of
    degree 0 do not exist, and a node that appears by an edge adds to the cells of degree 1.

    The noisy numbers of "cumulative" and "sequence" must be monotone, and the closest monotone ones
    have far less error where many are equal [1]_: isotonic regression, after the noise. Both have
    the same sensitivity and are each other's conjugate, so the area between the true and the
    released curve is measured alike; "cumulative" has `max_degree` noisy numbers in place of one
    for each node, and needs no list of nodes.

    References
    ----------
    .. [1] Hay, Li, Miklau, Jensen. "Accurate Estimation of the Degree Distribution of Private
       Networks". ICDM 2009, sections III and IV. https://doi.org/10.1109/ICDM.2009.11

    Examples
    --------
    >>> edges = [[k, (k + 1) % 500] for k in range(500)] + [[0, k] for k in range(2, 60)]
    >>> release = PrivateDegreeHistogram(4.0, max_degree=100).fit(edges).release_
    >>> release.statement.unit, bool(abs(int(release.histogram()[1]) - 499) < 20)
    ('edge', True)
    """

    release_: ReleasedDegrees

    def __init__(
        self,
        epsilon: float | None = None,
        *,
        max_degree: int,
        degree: str = "out",
        method: str = "cumulative",
        nodes: Ids | None = None,
        privacy: Privacy | None = None,
    ) -> None:
        self.epsilon: float | None
        self.privacy: Privacy | None
        self.epsilon, self.privacy = epsilon, privacy
        self.max_degree: int
        self.degree: str
        self.method: str
        self.max_degree, self.degree, self.method = max_degree, degree, method
        self.nodes = nodes
        for name, limit in LIMITS.items():
            setattr(self, name, limit.check(OWNER, name, getattr(self, name)))
        self._names = None if nodes is None else _public(nodes)
        if self.method == "sequence" and self._names is None:
            raise ParameterError.of(
                OWNER,
                "nodes",
                "must be given for method 'sequence', which has one number for each node; or take "
                "method 'cumulative'.",
            )

    def __repr__(self) -> str:
        names = ("epsilon", "max_degree", "degree", "method")
        nodes = None if self._names is None else len(self._names)
        return described(self, **{name: getattr(self, name) for name in names}, nodes=nodes)

    @property
    def sensitivity(self) -> int:
        """L1 sensitivity of the numbers that receive noise, for one edge."""
        ends = 2 if self.degree == "undirected" else 1
        return 2 * ends if self.method == "histogram" else ends

    def fit(
        self,
        edges: Any,
        *,
        ledger: Any = None,
        dataset: str | None = None,
        release_id: str | None = None,
        source: Source | None = None,
        engine: "Engine | None" = None,
        source_column: str = "source",
        target_column: str = "target",
    ) -> Self:
        """Charge the budget, count with noise, and set `release_`.

        Parameters
        ----------
        edges : Graph or array_like
            A `Graph`, or two columns, source and target: a matrix, a table, a list of pairs or a
            tuple of two columns. Nodes are compared by value (7, 7.0 and "7" are one node), and a
            row without two ends is left out, so that no error depends on the content. Building a
            `Graph` may raise: give the edges themselves where that must not be seen.
        ledger : Ledger, path_like or None, default=None
            Ledger that is charged; None charges none. The unit of its data set must be "edge".
        dataset : str or None, default=None
            Data set of the ledger.
        release_id : str or None, default=None
            Name of the release; repeating it returns the stored release at no cost.
        source : Source or None, default=None
            Source of the noise, for tests only.
        engine : Engine or None, default=None
            Where edges are counted, `sfumato.engine.LocalEngine` or `sfumato.engine.SparkEngine`;
            `edges` is then what the engine reads, one edge per row. The release is the same:
            partitions return histograms of degrees, the budget is charged once all edges were
            read, and noise is added once, here. None for this process.
        source_column : str, default="source"
            Name of the column of nodes where edges begin; only with `engine`, as is the next one.
        target_column : str, default="target"
            Name of the column of nodes where edges end.

        Returns
        -------
        Self
            The object itself.
        """
        request = self._request(
            ledger=ledger, dataset=dataset, release_id=release_id, source=source
        )
        scale = self._scale(request.epsilon)
        if engine is None:
            _check_container(edges)
        nodes = 0 if self._names is None else len(self._names)
        request.check_room(8 * (nodes + self.max_degree + 1))

        cells = partial(self._cells, edges)
        if engine is not None:
            columns = source_column, target_column
            rows = engine.rows(edges, columns, private=True)
            counts = degree_counts(rows, columns, self.degree, self._names, self.max_degree)
            cells = partial(self._numbers, counts)
        self.release_ = self._calibrated(cells, scale, request.epsilon).publish(request)
        return self

    def _scale(self, epsilon: float) -> Fraction:
        """Return the scale of the noise: the sensitivity over epsilon, without rounding."""
        scale = Fraction(self.sensitivity) / Fraction(epsilon)
        if scale > noise.LARGEST:
            raise ParameterError.of(
                OWNER, "epsilon", "must be larger: the noise would not fit into 64 bits."
            )
        return scale

    def _request(self, **options: Any) -> ReleaseRequest:
        return ReleaseRequest.of_unit("edge", OWNER, self.epsilon, 0.0, self.privacy, options)

    def _cells(self, edges: Any) -> np.ndarray:
        """Return the numbers that receive noise."""
        degrees = np.minimum(_degrees(_ends(edges), self._names, self.degree), self.max_degree)
        return self._numbers(np.bincount(degrees, minlength=self.max_degree + 1))

    def _numbers(self, counts: np.ndarray) -> np.ndarray:
        """Return the numbers that receive noise, from the number of nodes of each degree."""
        if self.method == "sequence":
            return np.repeat(np.arange(counts.size), counts)
        if self.method == "histogram":
            return counts if self._names is not None else counts[1:]
        return np.asarray(np.cumsum(counts[:0:-1])[::-1])

    def _calibrated(
        self, cells: Callable[[], np.ndarray], scale: Fraction, epsilon: float
    ) -> CalibratedRelease[ReleasedDegrees]:
        """Plan the release; `cells` reads the edges, once all is charged."""
        parameters = dict(
            degree=self.degree,
            method=self.method,
            max_degree=self.max_degree,
            n_nodes=None if self._names is None else len(self._names),
            scale=float(scale),
        )
        what = {
            "cumulative": f"numbers of nodes of {PARTS[self.degree]} at least 1 to",
            "sequence": f"sorted {PARTS[self.degree]}s of all nodes, cut to",
            "histogram": f"numbers of nodes of each {PARTS[self.degree]} up to",
        }[self.method]
        mechanism = (
            f"discrete Laplace noise, scale {float(scale):.6g}, on the {what} {self.max_degree}"
        )

        def noisy(source: Source) -> dict[str, np.ndarray]:
            out = np.array(cells(), np.int64)
            noise.add_laplace(out, scale, source=source)
            return {"_cells": out}

        return CalibratedRelease(ReleasedDegrees, parameters, Pure(epsilon), mechanism, noisy)


def _public(nodes: Any) -> pa.Array:
    """Return the distinct public ids as comparable values."""
    names = KeyColumn(nodes, name=f"{OWNER}: nodes").names()
    if not len(names) or names.null_count or len(names.unique()) != len(names):
        raise ParameterError.of(OWNER, "nodes", "must be at least one id, each of another value.")
    return names


def _check_container(edges: Any) -> None:
    """Refuse what is no graph and no pair of columns, before an edge is read."""
    if isinstance(edges, Graph):
        return
    if isinstance(edges, tuple):
        two_columns(list(edges))
    else:
        readable_edges(without_rows(edges))


def _ends(edges: Any) -> tuple[pa.Array, pa.Array]:
    """Return both ends of every edge that has two."""
    if isinstance(edges, Graph):
        begins = np.repeat(np.arange(edges.n_nodes), edges.out_degrees)
        edges = edges.nodes[begins], edges.nodes[edges.targets]
    ends, known = readable_edges(edges)
    mask = pa.array(known)
    return ends[0].filter(mask), ends[1].filter(mask)


def _degrees(ends: tuple[pa.Array, pa.Array], names: pa.Array | None, degree: str) -> np.ndarray:
    """Return the degree of each public node, or of each node with edges."""
    first, second, nodes = _numbered(*ends, names)
    if degree == "in":
        first, second = second, first
    if degree == "undirected":
        first, second = np.minimum(first, second), np.maximum(first, second)
    first, second = np.divmod(np.unique(first * max(nodes, 1) + second), max(nodes, 1))
    degrees = np.bincount(first, minlength=nodes)
    if degree == "undirected":
        degrees = degrees + np.bincount(second, minlength=nodes)
    return np.asarray(degrees)


def _numbered(
    source: pa.Array, target: pa.Array, names: pa.Array | None
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the ends of edges between different nodes as numbers, and the number of nodes."""
    if names is None:
        first, second, _ = numbered_ends(source, target)
        nodes, at = np.unique(np.concatenate([first, second]), return_inverse=True)
        first, second, size = at[: first.size], at[first.size :], nodes.size
    else:
        if names.type != source.type:
            source, target, names = (texts_of(each) for each in (source, target, names))
        first, second = (
            np.asarray(pc.fill_null(pc.index_in(each, value_set=names), -1)).astype(np.int64)
            for each in (source, target)
        )
        size = len(names)
    valid = (first != second) & (first >= 0) & (second >= 0)
    return first[valid].astype(np.int64), second[valid].astype(np.int64), size
