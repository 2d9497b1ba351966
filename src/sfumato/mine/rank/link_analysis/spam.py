"""Defences against link spam: TrustRank, spam mass, and what a link farm gains."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.core.tables import Table, described
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, checked, fraction, integer, optional
from sfumato.errors import ParameterError
from sfumato.mine.rank.graph.graph import Graph
from sfumato.mine.rank.page_rank.page_rank import pagerank
from sfumato.mine.rank.page_rank.ranks import Ranks

__all__ = ["LinkFarm", "SpamMass", "link_farm", "plant_link_farm", "spam_mass", "trustrank"]


class _Share:
    """A number from 0 to 1."""

    def check(self, owner: str, name: str, value: Any) -> float:
        try:
            number = float("nan") if isinstance(value, bool | str) else float(value)
        except (TypeError, ValueError):
            number = float("nan")
        if not 0 <= number <= 1:
            raise ParameterError.of(
                owner, name, f"must be a number from 0 to 1, not {value!r:.200}."
            )
        return number

    def bad(self) -> list[Any]:
        return [-0.1, 1.5, float("nan"), "much", None, True]


SHARE = _Share()


def trustrank(graph: Graph, trusted: Ids, beta: float = 0.85, *, tolerance: float = 1e-8) -> Ranks:
    """Rank nodes by how well they are reached from trusted ones: PageRank that teleports there.

    Parameters
    ----------
    graph : Graph
        The graph; weights count.
    trusted : array_like or scalar
        Ids of trusted nodes, at least one.
    beta : float, default=0.85
        Probability of following a link, between 0 and 1.
    tolerance : float, default=1e-08
        Sum of absolute changes in one iteration at which to end.

    Returns
    -------
    Ranks
        Scores that sum to 1; 0 for a node that trusted ones do not reach.

    Notes
    -----
    **Guarantee.** That of `pagerank` with the trusted nodes as its teleport set.

    References
    ----------
    .. [1] Gyongyi, Garcia-Molina, Pedersen. "Combating Web Spam with TrustRank". VLDB 2004,
       section 4. https://www.vldb.org/conf/2004/RS15P3.PDF

    Examples
    --------
    >>> web = Graph(["news", "blog", "farm", "spam"], ["blog", "news", "spam", "farm"])
    >>> trustrank(web, ["news"]).top(2)[0].tolist()
    ['news', 'blog']
    """
    ranks = pagerank(graph, beta, teleport=_known(graph, trusted), tolerance=tolerance)
    ranks.method = "trustrank"
    return ranks


def _known(graph: Graph, trusted: Ids) -> np.ndarray:
    """Return distinct ids of nodes of the graph."""
    at = np.unique(graph.positions(trusted))
    if not at.size or at[0] < 0:
        raise ParameterError.of(
            "trustrank", "trusted", "must be ids of nodes of the graph, at least one."
        )
    return np.asarray(graph.nodes[at])


class SpamMass(Table):
    """PageRank, trust and spam mass of every node, as `spam_mass` returns them.

    Parameters
    ----------
    nodes : ndarray of shape (n_nodes,)
        Ids of the nodes.
    ranks : ndarray of shape (n_nodes,)
        PageRank r.
    trust : ndarray of shape (n_nodes,)
        TrustRank t, times the fraction of nodes that are good.

    Examples
    --------
    >>> from sfumato.mine.rank import Graph, spam_mass
    >>> web = Graph(["news", "blog", "farm", "spam"], ["blog", "news", "spam", "farm"])
    >>> spam_mass(web, ["news"]).suspects(2)[0].tolist()
    ['farm', 'spam']
    """

    def __init__(self, nodes: np.ndarray, ranks: np.ndarray, trust: np.ndarray) -> None:
        self.nodes: np.ndarray
        self.ranks: np.ndarray
        self.trust: np.ndarray
        self.nodes, self.ranks, self.trust = nodes, ranks, trust

    def __repr__(self) -> str:
        return described(self, n_nodes=int(self.nodes.size))

    @property
    def mass(self) -> np.ndarray:
        """Fraction of the rank that does not come from trusted nodes, (r - t) / r, at most 1."""
        return np.asarray(1 - self.trust / self.ranks)

    def suspects(
        self, n: int = 20, *, min_mass: float = 0.5, min_rank: float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """List the nodes of largest spam mass among those of high rank.

        Parameters
        ----------
        n : int, default=20
            Number of nodes, at least 1.
        min_mass : float, default=0.5
            Smallest mass that is listed, between 0 and 1.
        min_rank : float or None, default=None
            Smallest PageRank that is listed, between 0 and 1: that of a node without links says
            little. None for the mean, 1 / n_nodes.

        Returns
        -------
        tuple of ndarray
            Ids and masses, largest first, of equal masses those of higher rank.
        """
        n = integer(1).check("SpamMass", "n", n)
        least = fraction.check("SpamMass", "min_mass", min_mass)
        given = optional(fraction).check("SpamMass", "min_rank", min_rank)
        # The mean itself is reached up to rounding by nodes that are all alike.
        floor = (1 - 1e-9) / max(self.nodes.size, 1) if given is None else given
        mass = self.mass
        rows = np.flatnonzero((mass >= least) & (self.ranks >= floor))
        rows = rows[np.lexsort((-self.ranks[rows], -mass[rows]))][:n]
        return self.nodes[rows], mass[rows]

    def _columns(self) -> dict[str, Any]:
        names = ("node", "rank", "trust", "mass")
        return dict(zip(names, (self.nodes, self.ranks, self.trust, self.mass), strict=True))


def spam_mass(
    graph: Graph,
    trusted: Ids,
    beta: float = 0.85,
    *,
    good: float = 1.0,
    tolerance: float = 1e-8,
) -> SpamMass:
    """Measure how much of each node's PageRank does not come from trusted nodes.

    Parameters
    ----------
    graph : Graph
        The graph; weights count.
    trusted : array_like or scalar
        Ids of trusted nodes, at least one.
    beta : float, default=0.85
        Probability of following a link, between 0 and 1.
    good : float, default=1.0
        Estimated fraction of nodes that are good, from 0 to 1, for which the trusted ones stand:
        trust sums to it. With 1, good nodes far from the trusted ones have small, trusted ones
        large negative masses.
    tolerance : float, default=1e-08
        Sum of absolute changes in one iteration at which to end, for both ranks.

    Returns
    -------
    SpamMass
        Ranks, trust and masses of all nodes.

    Notes
    -----
    **Guarantee.** With PageRank r and TrustRank t, both within their tolerance, the mass of a node
    is 1 - good t / r: 1 for a node that no trusted one reaches.

    References
    ----------
    .. [1] Gyongyi, Berkhin, Garcia-Molina, Pedersen. "Link Spam Detection Based on Mass
       Estimation". VLDB 2006, sections 3.4 and 3.5. https://www.vldb.org/conf/2006/p439-gyongyi.pdf

    Examples
    --------
    >>> web = Graph(["news", "blog", "farm", "spam"], ["blog", "news", "spam", "farm"])
    >>> spam_mass(web, ["news", "blog"], good=0.5).mass.round(6).tolist()
    [0.0, 1.0, 0.0, 1.0]
    """
    good = SHARE.check("spam_mass", "good", good)
    trust = trustrank(graph, trusted, beta, tolerance=tolerance).scores
    ranks = pagerank(graph, beta, tolerance=tolerance).scores
    return SpamMass(graph.nodes, ranks, good * trust)


@dataclass(frozen=True)
class LinkFarm:
    """What a link farm gains, as `link_farm` returns it.

    The target links to all pages of the farm, each of which links back to it alone.

    Parameters
    ----------
    pages : int
        Number M of pages in the farm, at least 1.
    total : int
        Number N of all pages, at least M + 1.
    contributed : float, default=0.0
        PageRank x that flows to the target from pages of others, from 0 to 1: for each of them
        beta times its rank over its number of links.
    beta : float, default=0.85
        Probability of following a link, between 0 and 1.
    teleport : float or None, default=None
        Rank u that every page receives by teleports; None for (1 - beta) / N, which holds if no
        page is a dead end. In general it is (1 - S) / N with S the rank that follows links.

    Notes
    -----
    **Guarantee.** Exact. A page of the farm has rank f = beta y / M + u and the target
    y = x + beta M f + u, so y = (x + u (1 + beta M)) / (1 - beta**2). Without dead ends that is

    y = x / (1 - beta**2) + beta / (1 + beta) M / N + 1 / ((1 + beta) N).

    The course's formula leaves the last term out: the target's own (1 - beta) / N, amplified.

    Examples
    --------
    >>> farm = LinkFarm(pages=1000, total=1_000_000, contributed=0.001)
    >>> round(farm.amplification, 4), round(farm.share, 4)
    (3.6036, 0.4595)
    >>> f"{farm.target:.8f} {farm.approximation:.8f}"
    '0.00406360 0.00406306'
    """

    pages: int
    total: int
    contributed: float = 0.0
    beta: float = 0.85
    teleport: float | None = None

    def __post_init__(self) -> None:
        checked(self, FARM)
        if self.total <= self.pages:
            raise ParameterError.of(
                "LinkFarm", "total", "must count the farm and its target: at least pages + 1."
            )

    @property
    def amplification(self) -> float:
        """How many times the contributed rank arrives at the target: 1 / (1 - beta**2)."""
        return 1 / (1 - self.beta**2)

    @property
    def share(self) -> float:
        """Rank of the target for each part M / N of the web that the farm is: c."""
        return self.beta / (1 + self.beta)

    @property
    def target(self) -> float:
        """PageRank y of the target."""
        return self.amplification * (
            self.contributed + self._teleport * (1 + self.beta * self.pages)
        )

    @property
    def page(self) -> float:
        """PageRank of each page of the farm."""
        return self.beta * self.target / self.pages + self._teleport

    @property
    def approximation(self) -> float:
        """The course's x / (1 - beta**2) + c M / N, which leaves out 1 / ((1 + beta) N)."""
        return self.amplification * self.contributed + self.share * self.pages / self.total

    @property
    def _teleport(self) -> float:
        return (1 - self.beta) / self.total if self.teleport is None else self.teleport


FARM: dict[str, Limit] = {
    "pages": integer(1),
    "total": integer(2),
    "contributed": SHARE,
    "beta": fraction,
    "teleport": optional(SHARE),
}


def link_farm(
    pages: int,
    total: int,
    *,
    contributed: float = 0.0,
    beta: float = 0.85,
    teleport: float | None = None,
) -> LinkFarm:
    """Compute the PageRank that a link farm gives to its target.

    Parameters
    ----------
    pages : int
        Number of pages in the farm, at least 1.
    total : int
        Number of all pages, at least `pages` + 1.
    contributed : float, default=0.0
        PageRank that flows to the target from pages of others, from 0 to 1.
    beta : float, default=0.85
        Probability of following a link, between 0 and 1.
    teleport : float or None, default=None
        Rank that every page receives by teleports; None if no page is a dead end.

    Returns
    -------
    LinkFarm
        Ranks of the target and the pages of the farm; the formulas are stated there.

    Examples
    --------
    >>> round(link_farm(100, 10_000, beta=0.85).target, 6)
    0.004649
    """
    return LinkFarm(pages, total, contributed, beta, teleport)


def plant_link_farm(graph: Graph, accessible: Ids, pages: int) -> tuple[Graph, Any]:
    """Add a link farm to a graph, to try defences against it.

    Parameters
    ----------
    graph : Graph
        The graph.
    accessible : array_like or scalar
        Ids of pages of others that get a link to the target, such as blogs with comments; may be
        none.
    pages : int
        Number of pages in the farm, at least 1.

    Returns
    -------
    tuple of (Graph, object)
        The graph with the target and the farm behind its nodes, and the id of the target. New ids
        are the next integers, or the texts "farm target", "farm 1", "farm 2" and so on. New edges
        have weight 1.

    Examples
    --------
    >>> graph, target = plant_link_farm(Graph([1, 2], [2, 1]), [1], pages=3)
    >>> graph.n_nodes, graph.n_edges, int(target)
    (6, 9, 3)
    """
    pages = integer(1, 2**31).check("plant_link_farm", "pages", pages)
    links = np.unique(graph.positions(accessible))
    if links.size and links[0] < 0:
        raise ParameterError.of(
            "plant_link_farm", "accessible", "must be ids of nodes of the graph."
        )
    nodes, target = _with_farm(graph, pages), graph.n_nodes
    farm = target + 1 + np.arange(pages)
    begins = np.repeat(np.arange(graph.n_nodes), graph.out_degrees)
    first = np.concatenate([begins, links, np.full(pages, target), farm])
    second = np.concatenate(
        [graph.targets, np.full(links.size, target), farm, np.full(pages, target)]
    )
    weights = graph.weights
    if weights is not None:
        weights = np.concatenate([weights, np.ones(first.size - weights.size)])
    made = Graph(
        nodes[first], nodes[second], weights, nodes=nodes, multi_edges=graph.policy["multi_edges"]
    )
    return made, nodes[target]


def _with_farm(graph: Graph, pages: int) -> np.ndarray:
    """Return the ids of all nodes, those of the target and the farm last."""
    if graph.nodes.dtype == np.int64:
        first = int(graph.nodes.max(initial=-1)) + 1
        return np.concatenate([graph.nodes, np.arange(first, first + pages + 1)])
    new = ["farm target", *(f"farm {k}" for k in range(1, pages + 1))]
    if (graph.positions(new) >= 0).any():
        raise ValueError("plant_link_farm: the graph has nodes of the names of a farm already.")
    return np.concatenate([graph.nodes, np.array(new, object)])
