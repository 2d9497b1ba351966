"""Candidate strings: n-grams that go together at every two positions, as cliques of a graph."""

from dataclasses import dataclass

import numpy as np

__all__ = ["Cliques", "cliques"]


@dataclass(frozen=True)
class Cliques:
    """One row a clique, the node of each position; and how many more the limit left out."""

    nodes: np.ndarray
    left_out: int


def cliques(scores: dict[tuple[int, int], np.ndarray], least: float, limit: int) -> Cliques:
    """All choices of one node a position whose every pair scores at least `least`.

    Guarantee: never more than `limit` are held; beyond it, those with the highest sum of scores go
    on, and the rest is counted.
    Parameters: scores, for positions i < j a table of the nodes of i by those of j.

    >>> score = np.array([[3.0, 0.0], [0.0, 3.0]])
    >>> cliques({(0, 1): score, (0, 2): score, (1, 2): score}, 2.0, 10).nodes.tolist()
    [[0, 0, 0], [1, 1, 1]]
    """
    last = max(j for _, j in scores)
    nodes = np.arange(scores[0, 1].shape[0])[:, None]
    sums, left_out = np.zeros(len(nodes)), 0
    for position in range(1, last + 1):
        nodes, sums = _extended(nodes, sums, scores, position, least)
        if len(nodes) > limit:
            best = np.sort(np.argsort(-sums, kind="stable")[:limit])
            left_out += len(nodes) - limit
            nodes, sums = nodes[best], sums[best]
    return Cliques(nodes, left_out)


def _extended(
    nodes: np.ndarray,
    sums: np.ndarray,
    scores: dict[tuple[int, int], np.ndarray],
    position: int,
    least: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Every clique with every node of the next position that fits all its nodes."""
    rows = [scores[i, position][nodes[:, i]] for i in range(position)]
    fits = np.logical_and.reduce([row >= least for row in rows])
    clique, node = np.nonzero(fits)
    added = np.sum([row[clique, node] for row in rows], axis=0)
    return np.column_stack([nodes[clique], node]), sums[clique] + added
