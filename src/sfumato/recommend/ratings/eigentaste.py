"""Eigentaste: clusters of users in the plane of two principal components, in constant time."""

from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from sfumato.core.ids import as_ids, kind_of
from sfumato.core.storage import Cells
from sfumato.core.tables import described
from sfumato.core.validation import Limit, integer
from sfumato.data.interactions import Interactions
from sfumato.errors import ParameterError
from sfumato.recommend.base import OPTIONAL_BOUNDS
from sfumato.recommend.ranking import fitting
from sfumato.recommend.ratings.clustered import DAMPING, ClusteredMeans
from sfumato.recommend.ratings.rated_rows import RatedRows

__all__ = ["Eigentaste"]

MOST = 4096  # items of a gauge set: its principal components need a matrix of all pairs
NUMBER = integer(1, MOST)


class _GaugeLimit:
    """Limit of a gauge set: the number of items, or a list of ids of items."""

    def check(self, owner: str, name: str, value: Any) -> int | list[Any]:
        if not isinstance(value, list | tuple | np.ndarray):
            return NUMBER.check(owner, name, value)
        try:
            ids = as_ids(value, name)
        except (TypeError, ValueError):
            ids = []
        plain = ids if isinstance(ids, list | np.ndarray) else ids.to_numpy(zero_copy_only=False)
        if not 1 <= len(set(plain)) == len(plain) <= MOST:
            wanted = f"an integer from 1 to {MOST}, or a list of so many distinct item ids"
            raise ParameterError.of(owner, name, f"must be {wanted}.")
        return list(np.asarray(plain).tolist())

    def bad(self) -> list[Any]:
        return [*NUMBER.bad(), [], [1, 1], [0.5], [1, "tea"]]


class Eigentaste(ClusteredMeans):
    """Mean plus biases plus the mean deviation of the item in the user's cell of a plane.

    Few items, the gauge set, place a user: the coordinates are the first two principal components
    of the ratings of these items. The plane is cut into rectangles, smaller ones around the origin,
    where most users are. A new user rates the gauge set and is answered in constant time.

    Parameters
    ----------
    gauge : int or list, default=100
        Number of items in the gauge set, from 1 to 4096: those with the most ratings. Or the ids of
        these items.
    levels : int, default=4
        How often the cells at the origin are cut into four, from 1 to 16; there are ``12 * levels -
        8`` cells.
    damping : float or None, default=None
        Number of ratings of deviation 0 that every item has in every cell, above 0. None chooses it
        by the error on a tenth of the ratings, in twice the time.
    bounds : tuple of float or None, default=None
        Lowest and highest rating; None means those of the training data.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    damping_ : float
        Damping of the deviations, given or chosen.
    high_ : float
        Upper bound of ratings; predictions are clipped to it.
    low_ : float
        Lower bound of ratings; predictions are clipped to it.
    mean_ : float
        Mean rating of the training data.
    users_ : Catalogue
        Users with training ratings.

    Notes
    -----
    **Guarantee.** The prediction for user u and item i is ``mean_ + b_u + b_i + s / (n +
    damping_)``, clipped to [`low_`, `high_`]: biases are damped as suits the data, and s is the sum
    of what they leave of the n ratings of i in the cell of u. Nothing is random. A user without
    ratings of the gauge set, and an unknown one, is in no cell, and an unknown item has no bias:
    the other terms remain.

    The first level cuts the smallest rectangle around all users along both axes; each further one
    cuts the four cells at the origin in the middle of both sides [1]_. The paper's users rate all
    of ten items of the gauge set, and its predictions are means of normalised ratings; here missing
    ratings are those of the baseline, for which more items are needed, and biases are added, since
    ratings are not normalised. Fitting takes time in proportion to ratings plus users times gauge,
    and the model has 4 bytes per cell and item. Not private.

    References
    ----------
    .. [1] Goldberg, Roeder, Gupta, Perkins. "Eigentaste: A Constant Time Collaborative Filtering
       Algorithm". Information Retrieval 2001, section 3. https://doi.org/10.1023/A:1011419012209

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> who, what = np.divmod(np.arange(48), 8)
    >>> ratings = Interactions(who, what, np.where((who + what) % 2, 1.0, 5.0))
    >>> model = Eigentaste(gauge=[0, 1, 2], damping=1.0).fit(ratings)
    >>> model.predict([0, 1], 4)
    array([4.5, 1.5])
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "gauge": _GaugeLimit(),
        "levels": integer(1, 16),
        "damping": DAMPING,
        "bounds": OPTIONAL_BOUNDS,
    }
    _gauge: np.ndarray  # positions of the gauge set
    _axes: np.ndarray  # two principal components over the gauge set
    _edges: np.ndarray  # least and greatest coordinate of each axis

    def __init__(
        self,
        *,
        gauge: int | list[Any] = 100,
        levels: int = 4,
        damping: float | None = None,
        bounds: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(bounds=bounds)
        self.gauge: int | list[Any]
        self.levels: int
        self.damping: float | None
        self.gauge, self.levels, self.damping = gauge, levels, damping

    def __repr__(self) -> str:
        shown = self.get_params()
        if not isinstance(self.gauge, int):
            shown["gauge"] = f"<{len(self.gauge)}>"  # ids are data
        return described(self, **shown)

    def fit(self, train: Interactions, *, catalogue: Any = None) -> Self:
        plain = self._check()
        rows, items = self._rows_of(train, catalogue, plain)
        if isinstance(plain["gauge"], list):
            ids = fitting(type(self).__name__, "gauge", plain["gauge"], kind_of(train.items))
            at = items.positions(ids)
            if (at < 0).any():
                wanted = "must be items of train, and of the catalogue if there is one."
                raise ParameterError.of(type(self).__name__, "gauge", wanted)
            plain["gauge"] = np.sort(at)
        return self._adopt(train, plain, rows, items, self._learn(rows, plain))

    def _clustered(
        self, rows: RatedRows, residuals: np.ndarray, plain: dict[str, Any]
    ) -> tuple[np.ndarray, int, dict[str, np.ndarray]]:
        gauge = plain["gauge"]
        if isinstance(gauge, int):
            most = np.argsort(-np.bincount(rows.positions, minlength=rows.items), kind="stable")
            gauge = np.sort(most[:gauge])
        shape = len(rows.users), rows.items
        matrix = sp.csr_matrix((residuals, rows.positions, rows.starts), shape)[:, gauge]
        axes = _principal(matrix)
        points = np.asarray(matrix @ axes)
        edges = np.stack([points.min(0), points.max(0)], axis=1)
        cells = _cells_of(points, edges, plain["levels"])
        cells[np.diff(matrix.indptr) == 0] = -1
        learned = {"_gauge": gauge.astype(np.int64), "_axes": axes, "_edges": edges}
        return cells, 4 * (3 * plain["levels"] - 2), learned

    def _cluster_of(self, positions: np.ndarray, residuals: np.ndarray) -> int:
        at = np.minimum(np.searchsorted(self._gauge, positions), self._gauge.size - 1)
        rated = self._gauge[at] == positions
        if not rated.any():
            return -1
        point = residuals[rated] @ self._axes[at[rated]]
        levels = (len(self._deviations) // 4 + 2) // 3
        return int(_cells_of(point[None], self._edges, levels)[0])

    def _learned_layout(self) -> dict[str, Cells]:
        return {
            **super()._learned_layout(),
            "_gauge": Cells(np.int64, (-1,)),
            "_axes": Cells(np.float64, (-1, 2)),
            "_edges": Cells(np.float64, (2, 2)),
        }

    def _restore_learned(self, arrays: dict[str, np.ndarray]) -> None:
        gauge, cells = arrays["_gauge"], len(arrays["_deviations"])
        sound = (
            0 < gauge.size == len(arrays["_axes"])
            and gauge[0] >= 0
            and gauge[-1] < len(self.catalogue_)
            and (np.diff(gauge) > 0).all()
            and cells % 12 == 4
        )
        if not sound:
            raise ValueError("the gauge set must be positions of items, each with two components.")
        super()._restore_learned(arrays)


def _principal(matrix: sp.csr_matrix) -> np.ndarray:
    """The first two principal components of rows that are centred already, one per column."""
    dense = (matrix.T @ matrix).toarray().astype(np.float64)
    axes = np.linalg.eigh(dense)[1][:, ::-1][:, :2]
    # The sign of an eigenvector is arbitrary: its largest component is positive here.
    largest = np.take_along_axis(axes, np.abs(axes).argmax(0)[None], 0)
    return np.pad(axes * np.where(largest < 0, -1, 1), ((0, 0), (0, 2 - axes.shape[1])))


def _cells_of(points: np.ndarray, edges: np.ndarray, levels: int) -> np.ndarray:
    """The cell of each point: four quadrants of nested cells, those at the origin the smallest."""
    above = points > 0
    ends = np.where(above, edges[:, 1], edges[:, 0])
    far = np.abs(points) / np.where(ends != 0, np.abs(ends), 1)
    found = np.full(len(points), 3 * (levels - 1))
    for level in range(levels - 1, 0, -1):
        outer = far > 0.5**level
        place = outer[:, 0] + 2 * outer[:, 1]
        found = np.where(place > 0, 3 * (level - 1) + place - 1, found)
    return np.asarray((above[:, 0] + 2 * above[:, 1]) * (3 * levels - 2) + found)
