"""Interpolation weights: item-based neighbours whose weights are learned."""

from typing import Any, ClassVar

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.validation import Limit, flag, integer, one_of, optional, positive
from sfumato.kernels.recommend import interpolation
from sfumato.recommend.neighbours.rating_neighbourhood import RatingNeighbourhood, turned
from sfumato.recommend.neighbours.rating_neighbours import FINITE, RatingNeighbours
from sfumato.recommend.ratings.base import RatingModel
from sfumato.recommend.ratings.rated_rows import RatedRows

__all__ = ["InterpolationWeights"]

BLOCK = 64  # items that are learned at a time; Ctrl-C is noticed in between
Context = tuple[np.ndarray, np.ndarray, np.ndarray]


class InterpolationWeights(RatingNeighbours):
    """Item-based neighbours whose weights are learned, beginning with those of similarities.

    The prediction for user x and item i begins as that of `RatingNeighbours` and adds, over the
    items j of R, those that x rated among the neighbours of i, the sum of
    ``(w_ij (r_xj - b_xj) + c_ij) / sqrt(|R|)``. Here b is the baseline of a pair, and ``c_ij``
    counts that j was rated, whatever the rating. Both are learned by least squares and need not sum
    to 1.

    Parameters
    ----------
    neighbours : int, default=600
        Largest number of neighbours of an item that have weights, at least 1: the most similar.
    weights : {"relative", "plain"}, default="relative"
        "relative" begins with `RatingNeighbours`, as said above. "plain" begins with the baseline
        and does not divide: ``b_xi`` plus the sum of ``w_ij (r_xj - b_xj) + c_ij``.
    implicit : bool, default=True
        Whether there are ``c_ij``.
    regularization : float, default=20.0
        Ridge penalty that draws learned numbers to 0, and so predictions to those they begin with,
        above 0.
    shrinkage : float, default=20.0
        A similarity that rests on n common ratings is multiplied by ``n / (n + shrinkage)``.
    epochs : int, default=8
        Steps of descent, at least 1.
    learning_rate : float or None, default=None
        Size of a step of plain full gradient descent, above 0. None for conjugate gradients, which
        need fewer steps and no size.
    bounds : tuple of float or None, default=None
        Lowest and highest rating; None means those of the training data.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    high_ : float
        Upper bound of ratings; predictions are clipped to it.
    history_ : list of float
        Sum of squared errors plus penalty after each step of descent.
    low_ : float
        Lower bound of ratings; predictions are clipped to it.
    mean_ : float
        Mean rating of the training data.
    slope_ : float
        Factor of what similarities add to the baseline, as in `RatingNeighbours`; 0 if "plain".
    users_ : Catalogue
        Users with training ratings.

    Notes
    -----
    **Guarantee.** The numbers of an item descend, from 0, to the minimum of the sum over its raters
    of the squared error, plus `regularization` times their squares; items do not depend on each
    other. Conjugate gradients are at the minimum after as many steps as there are numbers, and in
    every step the error falls. An unknown user or item, and a user without rated neighbours, is
    predicted by the baseline. After Ctrl-C, items that were not learned yet are predicted as they
    began. Not private: the model stores the ratings.

    Time is that of `RatingNeighbours`, plus for each step that of the rated neighbours of all
    ratings. Memory is that of the ratings and of 16 bytes for each neighbour of an item.

    References
    ----------
    .. [1] Bell and Koren. "Scalable Collaborative Filtering with Jointly Derived Neighborhood
       Interpolation Weights". ICDM 2007. https://doi.org/10.1109/ICDM.2007.90
    .. [2] Koren. "Factor in the Neighbors: Scalable and Accurate Collaborative Filtering". ACM TKDD
       2010 (global weights, implicit weights). https://doi.org/10.1145/1644873.1644874

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> users = [1, 1, 2, 2, 3, 3, 4]
    >>> items = ["a", "b", "a", "b", "a", "b", "a"]
    >>> train = Interactions(users, items, [5, 5, 1, 1, 4, 5, 5])
    >>> model = InterpolationWeights(shrinkage=0.0).fit(train)
    >>> model.similar_items("a", n=1)[0]
    array(['b'], dtype=object)
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "neighbours": integer(1, 1 << 20),
        "weights": one_of(("relative", "plain")),
        "implicit": flag,
        "regularization": positive,
        "shrinkage": FINITE,
        "epochs": integer(1, 1 << 20),
        "learning_rate": optional(positive),
        **RatingModel.LIMITS,
    }
    history_: list[float]
    _weights: np.ndarray
    _divided: bool

    def __init__(
        self,
        *,
        neighbours: int = 600,
        weights: str = "relative",
        implicit: bool = True,
        regularization: float = 20.0,
        shrinkage: float = 20.0,
        epochs: int = 8,
        learning_rate: float | None = None,
        bounds: tuple[float, float] | None = None,
    ) -> None:
        RatingModel.__init__(self, bounds=bounds)
        self.weights: str
        self.implicit: bool
        self.neighbours, self.weights, self.implicit = neighbours, weights, implicit
        self.regularization: float
        self.regularization, self.shrinkage = regularization, shrinkage
        self.epochs: int
        self.learning_rate: float | None
        self.epochs, self.learning_rate = epochs, learning_rate

    def _learn(self, rows: RatedRows, plain: dict[str, Any]) -> bool:
        divided = plain["weights"] == "relative"
        more = {"shrinkage": plain["shrinkage"], "stored": plain["neighbours"]}
        given = RatingNeighbours(slope=None if divided else 0.0, **more)
        near = RatingNeighbourhood.learned(rows, given._settings(given._check()))
        numbers = np.zeros((2 if plain["implicit"] else 1, near.lists.columns.size), np.float32)
        errors = np.zeros(plain["epochs"])
        try:
            _descend(near, divided, plain, numbers, errors)
            complete = True
        except KeyboardInterrupt:
            complete = False
        self._near, self._weights, self._divided = near, numbers, divided
        self.history_ = errors.tolist()
        return complete

    def _added(self, context: Context, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Return what learned weights add for pairs of a row of the context and an item."""
        out, order = np.zeros(users.size), np.argsort(users, kind="stable")
        lists, here = self._near.lists, np.zeros(len(self.catalogue_), np.int64)
        learned = lists.ends, lists.columns, self._weights, self._divided
        interpolation.interpolate(order, users, items, *context, *learned, here, out)
        return out

    def _predicted(
        self, rows: np.ndarray, columns: np.ndarray, times: np.ndarray | None
    ) -> np.ndarray:
        learned = self._added(self._near.contexts, rows, columns)
        return np.asarray(self._near.at(rows, columns) + learned)

    def _folded_in(self, positions: np.ndarray, ratings: np.ndarray) -> np.ndarray:
        base = self._near.baseline
        level = base.mean + base.user_bias(positions, ratings) + base.items[positions]
        own = np.array([0, positions.size]), positions, ratings - level
        every = np.arange(len(self.catalogue_))
        learned = self._added(own, 0 * every, every)
        return np.asarray(self._near.folded_in(positions, ratings) + learned)

    def _parts(
        self, row: int, column: int
    ) -> tuple[dict[str, float], list[tuple[int, float, float]]]:
        """As those of the similarities, with what is learned of each rated neighbour."""
        terms, parts = super()._parts(row, column)
        if row < 0 or column < 0:
            return terms, parts
        starts, positions, residuals = self._near.contexts
        mine, lists = slice(starts[row], starts[row + 1]), self._near.lists
        known = dict(zip(positions[mine].tolist(), residuals[mine].tolist(), strict=True))
        listed = range(lists.ends[column], lists.ends[column + 1])
        rated = [k for k in listed if int(lists.columns[k]) in known]
        scale = len(rated) ** -0.5 if self._divided and rated else 1.0
        begun = {at: part for at, _, part in parts}
        found = []
        for k in rated:
            at, numbers = int(lists.columns[k]), self._weights[:, k].tolist()
            learned = scale * (numbers[0] * known[at] + sum(numbers[1:]))
            found.append((at, float(lists.values[k]), begun.get(at, 0.0) + learned))
        return terms, found

    def _learned_layout(self) -> dict[str, Cells]:
        return {**super()._learned_layout(), "_weights": Cells(np.float32, (-1, -1))}

    def _learned_arrays(self) -> dict[str, np.ndarray]:
        return {**super()._learned_arrays(), "_weights": self._weights}

    def _restore_learned(self, arrays: dict[str, np.ndarray]) -> None:
        numbers = arrays.pop("_weights")
        if numbers.shape[0] not in (1, 2) or numbers.shape[1] != arrays["_columns"].size:
            raise ValueError("weights must be one or two for each neighbour.")
        if not np.isfinite(numbers).all():
            raise ValueError("weights must be finite.")
        super()._restore_learned(arrays)
        self._weights = numbers

    def _state(self) -> dict[str, Any]:
        learned = {"divided": self._divided, "history": list(map(float, self.history_))}
        return {**super()._state(), **learned}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._divided = flag.check("state", "divided", state["divided"])
        self.history_ = [float(each) for each in state["history"]]


def _descend(
    near: RatingNeighbourhood,
    divided: bool,
    plain: dict[str, Any],
    numbers: np.ndarray,
    errors: np.ndarray,
) -> None:
    """Learn the numbers of all neighbours, some items at a time."""
    rated = near.rated
    begun = near.at(rated.user_rows, rated.positions)
    item_starts, raters, targets = turned(rated, (rated.ratings - begun).astype(np.float32))
    lists = near.lists.ends, near.lists.columns
    how = divided, float(plain["regularization"]), float(plain["learning_rate"] or 0)
    local = np.full(rated.items, -1, np.int32)
    for first in range(0, rated.items, BLOCK):
        those = first, min(first + BLOCK, rated.items), item_starts, raters, targets
        interpolation.learn(*those, *near.contexts, *lists, *how, local, numbers, errors)
