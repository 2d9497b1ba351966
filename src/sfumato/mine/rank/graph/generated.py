"""Random graphs with the heavy tails of real ones (R-MAT), the same for the same seed."""

from collections.abc import Sequence

import numpy as np

from sfumato.core.validation import RandomState, integer, random_seed
from sfumato.errors import ParameterError
from sfumato.kernels import hash as hash_kernels
from sfumato.kernels.mine.graphs import rmat as rmat_kernels
from sfumato.kernels.seed_keys import key_of
from sfumato.mine.rank.graph.graph import Graph

__all__ = ["rmat_graph"]

SCALE = integer(1, 30)
QUADRANTS = (0.57, 0.19, 0.19, 0.05)  # of Graph500


def rmat_graph(
    scale: int,
    edges: int,
    *,
    quadrants: Sequence[float] = QUADRANTS,
    random_state: RandomState = 0,
) -> Graph:
    """Generate a graph whose in- and out-degrees have heavy tails, as those of the web.

    Parameters
    ----------
    scale : int
        The graph has 2**scale nodes, 0 to 2**scale - 1; scale is 1 to 30. Many have no edges.
    edges : int
        Number of edges, from 0 to a quarter of all pairs; all are different, and loops are among
        them.
    quadrants : sequence of float, default=(0.57, 0.19, 0.19, 0.05)
        Probabilities of the four quadrants of the matrix into which an edge falls at each of the
        `scale` levels; they sum to 1.
    random_state : int, Generator or None, default=0
        Seed.

    Returns
    -------
    Graph
        The graph; its nodes are shuffled, so that ids say nothing about degrees.

    Notes
    -----
    **Guarantee.** The same graph for the same integer seed, on any machine.

    References
    ----------
    Chakrabarti, Zhan and Faloutsos (2004), R-MAT: a recursive model for graph mining. Graph500.

    Examples
    --------
    >>> rmat_graph(10, 5000).n_edges
    5000
    """
    owner = "rmat_graph"
    levels = SCALE.check(owner, "scale", scale)
    wanted = integer(0, 4**levels // 4).check(owner, "edges", edges)
    bounds = _bounds(owner, quadrants)
    seed = random_seed(owner, random_state)
    pairs = _distinct(levels, wanted, bounds, seed)
    nodes = 1 << levels
    shuffled = np.random.default_rng(seed).permutation(nodes)
    begins = shuffled[(pairs >> np.uint64(32)).astype(np.int64)]
    ends = shuffled[(pairs & np.uint64(2**32 - 1)).astype(np.int64)]
    return Graph(begins, ends, nodes=np.arange(nodes), multi_edges="drop")


def _bounds(owner: str, quadrants: Sequence[float]) -> np.ndarray:
    given = np.asarray(quadrants, np.float64)
    fits = given.shape == (4,) and (given >= 0).all() and abs(given.sum() - 1) < 1e-9
    if not fits or given.max() > 0.9:
        raise ParameterError.of(
            owner, "quadrants", "must be 4 probabilities up to 0.9 that sum to 1."
        )
    return np.rint(2**16 * np.cumsum(given)[:3]).astype(np.int64)


def _distinct(scale: int, wanted: int, bounds: np.ndarray, seed: int) -> np.ndarray:
    """So many different edges as source << 32 | target."""
    pairs, first, size = np.empty(0, np.uint64), 0, wanted + wanted // 8 + 64
    while pairs.size < wanted:
        drawn = np.empty(size, np.uint64)
        rmat_kernels.rmat(first, key_of(seed), scale, bounds, drawn)
        pairs = np.unique(np.concatenate([pairs, drawn]))
        first += size
    hashes = np.empty_like(pairs)
    hash_kernels.unsigned(pairs, key_of(seed), hashes)
    least = np.argpartition(hashes, max(wanted - 1, 0))[:wanted]  # no corner of the matrix is cut
    return pairs[np.sort(least)]
