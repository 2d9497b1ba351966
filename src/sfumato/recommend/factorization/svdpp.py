"""SVD++: factors of a user that include which items the user has rated."""

import math
from typing import Any, ClassVar

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.validation import (
    RANDOM_STATE,
    Limit,
    RandomState,
    integer,
    optional,
    positive,
)
from sfumato.data.interactions import Interactions
from sfumato.recommend.base import OPTIONAL_BOUNDS
from sfumato.recommend.factorization.base import fold_in
from sfumato.recommend.factorization.sgd import STARS
from sfumato.recommend.factorization.stored_vectors import FACTORS, EpochVectors
from sfumato.recommend.factorization.svdpp_training import PENALTIES, PENALTY, SvdppTraining
from sfumato.recommend.ratings.rated_rows import RatedRows

__all__ = ["SVDpp"]


class SVDpp(EpochVectors):
    """SVD++: matrix factorization whose user vectors include the set of rated items.

    Which items somebody rates says something of what they like, whatever the ratings. Every item
    has a second vector y, and the vector of a user is p plus the sum of y over the user's items,
    divided by the square root of their number. Not differentially private.

    Parameters
    ----------
    factors : int, default=128
        Number of factors per user and item, including the bias, from 1 to 4096. One more than a
        multiple of 16 wastes nothing.
    epochs : int, default=60
        Passes over the data, at least 1.
    learning_rate : float, default=0.02
        Initial learning rate eta, above 0, for ratings in stars; epoch t of T uses `eta / (1 +
        decay * t / T)`.
    decay : float, default=20.0
        Decay of the learning rate, at least 0.
    regularization : float, default=0.04
        Penalty of all parameters whose own penalty is None, at least 0.
    user_regularization : float or None, default=None
        L2 penalty of p, per rating.
    item_regularization : float or None, default=None
        L2 penalty of item vectors, per rating.
    implicit_regularization : float or None, default=0.5
        L2 penalty of y, per rating of its item.
    user_bias_regularization : float or None, default=None
        L2 penalty of user biases, per rating. None damps them instead, as `DenseFactorization`
        does, if `regularization` is above 0.
    item_bias_regularization : float or None, default=None
        L2 penalty of item biases, in the same way.
    bounds : tuple of float or None, default=None
        Lowest and highest rating; None takes them from the data.
    random_state : int, Generator or None, default=0
        Seed of initialisation and order.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    high_ : float
        Upper bound of ratings; predictions are clipped to it.
    history_ : list of dict
        "epoch" and "valid_rmse" (None without validation data) of each epoch of `fit`.
    low_ : float
        Lower bound of ratings; predictions are clipped to it.
    mean_ : float
        Mean of all training ratings.
    user_kind_ : str
        Type of user ids, "integers" or "text".

    Notes
    -----
    **Guarantee.** The prediction is ``mean_ + b_u + b_i + q_i.(p_u + n**-0.5 * sum of y_j)``,
    clipped to [`low_`, `high_`], with the n items j that user u has rated in `train`. The same
    `random_state` gives bitwise the same model. Unknown users and items have vectors and biases of
    0. A new user of `recommend_fold_in` starts from the sum of y over the given items; ratings, if
    given, add p and a bias by ridge regression.

    Every epoch visits the users in random order, and the ratings of each at random. A rating moves
    all y of its user by the same amount, so that the steps of [1] on every y at every rating are
    made once per visit; the penalty of y too is taken once per visit. An epoch thus takes time in
    proportion to ratings times factors. `fit` needs 16 bytes per rating beside the data, and about
    8 `factors` bytes per user and 16 `factors` per item.

    References
    ----------
    .. [1] Koren. "Factorization Meets the Neighborhood: a Multifaceted Collaborative Filtering
       Model". KDD 2008, section 4. https://doi.org/10.1145/1401890.1401944

    Examples
    --------
    >>> ratings = Interactions(users=[1, 1, 2, 2], items=[10, 20, 10, 30], ratings=[5, 1, 4, 2])
    >>> model = SVDpp(factors=4).fit(ratings)
    >>> bool(model.predict(1, 10)[0] > model.predict(1, 20)[0])
    True
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "factors": FACTORS,
        "epochs": integer(1),
        "learning_rate": positive,
        "decay": PENALTY,
        "regularization": PENALTY,
        **{name: optional(PENALTY) for name in PENALTIES},
        "bounds": OPTIONAL_BOUNDS,
        "random_state": RANDOM_STATE,
    }
    _implicit_rows: np.ndarray  # y of each item, in the unit of the ratings

    def __init__(
        self,
        *,
        factors: int = 128,
        epochs: int = 60,
        learning_rate: float = 0.02,
        decay: float = 20.0,
        regularization: float = 0.04,
        user_regularization: float | None = None,
        item_regularization: float | None = None,
        implicit_regularization: float | None = 0.5,
        user_bias_regularization: float | None = None,
        item_bias_regularization: float | None = None,
        bounds: tuple[float, float] | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.factors: int
        self.epochs: int
        self.factors, self.epochs = factors, epochs
        self.learning_rate: float
        self.decay: float
        self.regularization: float
        self.learning_rate, self.decay, self.regularization = learning_rate, decay, regularization
        self.user_regularization = user_regularization
        self.item_regularization = item_regularization
        self.implicit_regularization = implicit_regularization
        self.user_bias_regularization = user_bias_regularization
        self.item_bias_regularization = item_bias_regularization
        self.bounds: tuple[float, float] | None
        self.bounds, self.random_state = bounds, random_state

    def _training(self, plain: dict[str, Any], train: Interactions) -> SvdppTraining:
        rows = RatedRows.of(train, self._known_items)
        scale = (self.high_ - self.low_) / STARS or 1.0
        return SvdppTraining(type(self).__name__, plain, rows, self.mean_, scale)

    def _take(self, training: Any) -> None:
        self._set_vectors(*training.vectors())
        self._implicit_rows = training.implicit()

    def _folded_in(self, items: np.ndarray, ratings: Any, ridge: float | None) -> np.ndarray:
        found = self._known_items.positions(items)
        found = np.unique(found[found >= 0])
        start = self._implicit_rows[found].sum(0) / np.float32(math.sqrt(max(found.size, 1)))
        if ratings is None:
            return np.append(start, np.float32(0))
        return fold_in(self, items, ratings, ridge, start)

    def _layout(self) -> dict[str, Cells]:
        return {**super()._layout(), "implicit_rows": Cells(np.float32, (-1, -1))}

    def _arrays(self) -> dict[str, np.ndarray]:
        return {**super()._arrays(), "implicit_rows": self._implicit_rows}

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        rows = arrays.pop("implicit_rows")
        super()._restore_arrays(arrays)
        count, factors = self._item_rows.shape
        if rows.shape != (count, factors - 1) or not np.isfinite(rows).all():
            raise ValueError("implicit_rows must be finite, one row of components for each item.")
        self._implicit_rows = rows
