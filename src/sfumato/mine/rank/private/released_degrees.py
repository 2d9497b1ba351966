"""ReleasedDegrees: the private degrees of `PrivateDegreeHistogram`, and what follows from them."""

from typing import Annotated

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.validation import integer, one_of, optional, positive
from sfumato.privacy.noise.distribution import NoiseDistribution
from sfumato.privacy.release import Release

__all__ = ["DEGREE", "MAX_DEGREE", "METHOD", "ReleasedDegrees"]

DEGREE = one_of(("out", "in", "undirected"))
METHOD = one_of(("cumulative", "sequence", "histogram"))
MAX_DEGREE = integer(1, 2**24)
NODES = integer(1, 2**31)


class ReleasedDegrees(Release):
    """Differentially private degrees of a graph; made by `PrivateDegreeHistogram.fit`.

    Attributes
    ----------
    degree : {"out", "in", "undirected"}
        Which edges of a node count.
    method : {"cumulative", "sequence", "histogram"}
        Which numbers received noise.
    max_degree : int
        Degree to which larger ones are cut.
    n_nodes : int or None
        Number of nodes, if it is public.
    scale : float
        Scale of the discrete Laplace noise on each number.
    statement : PrivacyStatement
        The guarantee.

    Notes
    -----
    **Guarantee.** That of its `statement`, for all numbers together. All results are computed from
    the noisy numbers (post-processing), and cost no further budget. No edge, id or number without
    noise is stored.

    Examples
    --------
    >>> from sfumato.mine.rank import PrivateDegreeHistogram
    >>> star = [[0, k] for k in range(1, 101)]
    >>> release = PrivateDegreeHistogram(5.0, max_degree=150).fit(star).release_
    >>> release.histogram().shape, bool(abs(release.edges - 100) < 30)
    ((151,), True)
    """

    degree: Annotated[str, DEGREE]
    method: Annotated[str, METHOD]
    max_degree: Annotated[int, MAX_DEGREE]
    n_nodes: Annotated[int | None, optional(NODES)]
    scale: Annotated[float, positive]
    _cells: np.ndarray
    _of = "PrivateDegreeHistogram"

    def _layout(self) -> dict[str, Cells]:
        return {"_cells": Cells(np.int64, (self._size(),), "")}

    def _size(self) -> int:
        if self.method == "sequence":
            return self.n_nodes or 0
        return self.max_degree + (self.method == "histogram" and self.n_nodes is not None)

    @property
    def noisy(self) -> np.ndarray:
        """The numbers with noise, by `method`.

        Nodes of degree at least 1, 2, ... ("cumulative"), degrees in rising order ("sequence"), or
        nodes of each degree ("histogram": from 0 if the number of nodes is public, else from 1).
        """
        return self._cells

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on each number."""
        return float(np.sqrt(NoiseDistribution("Laplace", self.scale).variance))

    def cumulative(self) -> np.ndarray:
        """Estimate how many nodes have at least each degree.

        Returns
        -------
        ndarray of shape (max_degree,)
            Number of nodes of degree 1 or more, 2 or more, and so on: integers from 0 up that do
            not rise. They are the closest such numbers to the noisy ones, in squares
            (isotonic regression), rounded.
        """
        if self.method == "cumulative":
            above = _rounded(self._cells, increasing=False)
            return np.asarray(np.clip(above, 0, self.n_nodes))
        if self.method == "sequence":
            degrees = np.clip(_rounded(self._cells, increasing=True), 0, self.max_degree)
            counts = np.bincount(degrees, minlength=self.max_degree + 1)[1:]
        else:
            counts = np.maximum(self._cells[-self.max_degree :], 0)
        return np.asarray(np.cumsum(counts[::-1])[::-1])

    def histogram(self) -> np.ndarray:
        """Estimate how many nodes have each degree.

        Returns
        -------
        ndarray of shape (max_degree + 1,)
            Number of nodes of degree 0, 1, ..., integers from 0 up; the last also of larger
            degrees. Nodes without edges are counted only if the number of nodes is public.
        """
        above = self.cumulative()
        if self.n_nodes is None:
            alone = 0
        elif self.method == "histogram":
            alone = max(int(self._cells[0]), 0)
        else:
            alone = self.n_nodes - int(above[0])
        return np.concatenate([[alone], above - np.append(above[1:], 0)])

    def sequence(self) -> np.ndarray:
        """Estimate the degrees of all nodes, without their names.

        Returns
        -------
        ndarray
            Degrees from 1 up in falling order; then 0 for nodes without edges, if the number of
            nodes is public.
        """
        counts = self.histogram()
        return np.repeat(np.arange(counts.size)[::-1], counts[::-1])

    @property
    def edges(self) -> int:
        """Estimated sum of the degrees (each cut to `max_degree`), halved if undirected."""
        return int(self.cumulative().sum()) // (2 if self.degree == "undirected" else 1)

    def mean_degree(self) -> float:
        """Estimate the mean degree.

        Returns
        -------
        float
            Mean over all nodes if their number is public, else over those with edges; 0 if there
            are none.
        """
        above = self.cumulative()
        nodes = int(above[0]) if self.n_nodes is None else self.n_nodes
        return float(above.sum() / nodes) if nodes else 0.0


def _rounded(noisy: np.ndarray, *, increasing: bool) -> np.ndarray:
    """Return the closest monotone numbers, rounded to integers."""
    from scipy.optimize import isotonic_regression

    fitted = isotonic_regression(noisy.astype(np.float64), increasing=increasing).x
    return np.asarray(np.rint(fitted).astype(np.int64))
