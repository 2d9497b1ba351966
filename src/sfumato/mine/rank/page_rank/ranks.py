"""Scores of all nodes of a graph, as methods of ranking return them."""

from typing import Any

import numpy as np

from sfumato.core.ids import ids_of, positions
from sfumato.core.tables import Table, described
from sfumato.core.typing import Ids
from sfumato.core.validation import integer
from sfumato.errors import ParameterError

__all__ = ["Ranks"]

N = integer(1)


class Ranks(Table):
    """The score of every node, and how it was computed.

    Parameters
    ----------
    nodes : ndarray of shape (n_nodes,)
        Id of each position.
    scores : ndarray of shape (n_nodes,)
        Score of each position, float64.
    iterations : int, default=0
        Number of passes over the edges; 0 for a direct solution.
    residual : float, default=0.0
        L1 norm of the change in the last iteration.
    converged : bool, default=True
        Whether the residual is below the tolerance.
    method : str, default="pagerank"
        Name of the method.

    Attributes
    ----------
    nodes, scores, iterations, residual, converged, method : object
        As given.

    Examples
    --------
    >>> from sfumato.mine.rank import Graph, pagerank
    >>> ranks = pagerank(Graph(["y", "y", "a", "a", "m"], ["y", "a", "y", "m", "a"]), beta=0.8)
    >>> ranks.top(2)[0].tolist()
    ['a', 'y']
    """

    def __init__(
        self,
        nodes: np.ndarray,
        scores: np.ndarray,
        *,
        iterations: int = 0,
        residual: float = 0.0,
        converged: bool = True,
        method: str = "pagerank",
    ) -> None:
        self.nodes: np.ndarray
        self.scores: np.ndarray
        self.nodes, self.scores = nodes, scores
        self.iterations: int
        self.residual: float
        self.converged: bool
        self.iterations, self.residual, self.converged = iterations, residual, converged
        self.method = method

    def __len__(self) -> int:
        return int(self.scores.size)

    def __repr__(self) -> str:
        return described(
            self,
            method=self.method,
            nodes=len(self),
            iterations=self.iterations,
            residual=float(f"{self.residual:.3g}"),
            converged=self.converged,
        )

    def top(self, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """Select the nodes with the highest scores.

        Parameters
        ----------
        n : int, default=10
            How many, from 1 up; all of them if there are fewer.

        Returns
        -------
        ids : ndarray
            Their ids, best first, ties in the order of positions.
        scores : ndarray
            Their scores.

        Examples
        --------
        >>> from sfumato.mine.rank import Ranks
        >>> Ranks(np.array([7, 8, 9]), np.array([0.2, 0.5, 0.3])).top(2)
        (array([8, 9]), array([0.5, 0.3]))
        """
        order = self._order(N.check(type(self).__name__, "n", n))
        return self.nodes[order], self.scores[order]

    def _order(self, n: int) -> np.ndarray:
        """Positions of the n best, ties by position."""
        size = len(self)
        if n >= size:
            return np.argsort(-self.scores, kind="stable")
        least = np.partition(self.scores, size - n)[size - n]
        candidates = np.flatnonzero(self.scores >= least)
        return candidates[np.argsort(-self.scores[candidates], kind="stable")[:n]]

    def score(self, ids: Ids) -> np.ndarray:
        """Look up the scores of some nodes.

        Parameters
        ----------
        ids : array_like or scalar
            Ids of nodes.

        Returns
        -------
        ndarray
            The score of each.

        Raises
        ------
        ParameterError
            An id is not a node of the graph.

        Examples
        --------
        >>> from sfumato.mine.rank import Ranks
        >>> Ranks(np.array([7, 8, 9]), np.array([0.2, 0.5, 0.3])).score(8)
        array([0.5])
        """
        at = positions(ids_of(ids, "ids"), np.asarray(self.nodes))
        if at.size and at.min() < 0:
            row = int(np.flatnonzero(at < 0)[0])
            raise ParameterError.of(
                type(self).__name__, "ids", f"must be nodes of the graph; row {row} is none."
            )
        return np.asarray(self.scores[at])

    def _columns(self) -> dict[str, Any]:
        order = self._order(len(self))
        return {"node": self.nodes[order], "score": self.scores[order]}
