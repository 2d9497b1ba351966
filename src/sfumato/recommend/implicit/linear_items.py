"""Linear item-item model with a closed form (EASE)."""

from typing import Any, ClassVar

import numpy as np
from scipy.linalg import lapack

from sfumato.core.storage import Cells
from sfumato.core.validation import Limit, integer, positive
from sfumato.kernels.recommend import item_pairs
from sfumato.recommend.implicit.base import HistoryModel, ItemWeightModel, check_size
from sfumato.recommend.implicit.histories import Histories

__all__ = ["LinearItems"]

LARGEST = integer(1, 1 << 17)


class LinearItems(ItemWeightModel):
    """Linear item-item recommender solved in closed form, known as EASE.

    Scores are the histories times a dense matrix with zero diagonal that predicts each item from
    the others by ridge regression. One solve of a matrix of n_items rows; best for catalogues up
    to some tens of thousands of items.

    Parameters
    ----------
    regularization : float, default=300.0
        Ridge penalty, above 0, in squared weights of a history (users, if `weighting` is "equal").
    weighting : {"equal", "log"}, default="equal"
        Confidence of a row: 1, or ``log(1 + rating)`` for counts such as plays.
    relevant_from : float or None, default=None
        Smallest rating that counts as a preference; None uses all rows.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    histories_ : Histories
        Items of each user, as positions in the catalogue.
    mean_, low_, high_ : float
        0, 0 and 1: scores are estimates of preferences of 1 and 0, not clipped.

    Notes
    -----
    **Guarantee.** With the Gram matrix G of the histories, P = (G + regularization I)^-1 and the
    weights ``B[i, j] = -P[i, j] / P[j, j]`` off the diagonal, B minimises
    ``|X - X B|^2 + regularization |B|^2`` over matrices of zero diagonal. Not private.

    Memory is 4 n_items^2 bytes in the model and 8 n_items^2 while it is fitted.

    References
    ----------
    .. [1] Steck. "Embarrassingly Shallow Autoencoders for Sparse Data". WWW 2019.
       https://arxiv.org/abs/1905.03375

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> users, items = [1, 1, 2, 2, 3, 4], ["tea", "milk", "tea", "milk", "tea", "rum"]
    >>> train = Interactions(users, items, [1] * 6)
    >>> LinearItems(regularization=1).fit(train).recommend(3, n=1, exclude=train)[0]
    array(['milk'], dtype=object)
    """

    LIMITS: ClassVar[dict[str, Limit]] = {"regularization": positive, **HistoryModel.LIMITS}

    def __init__(
        self,
        *,
        regularization: float = 300.0,
        weighting: str = "equal",
        relevant_from: float | None = None,
    ) -> None:
        super().__init__(weighting=weighting, relevant_from=relevant_from)
        self.regularization = regularization

    def _item_weights(self, at: np.ndarray) -> np.ndarray:
        table = np.array(self._matrix[at], np.float64)
        table[np.arange(at.size), at] = -np.inf
        return table

    def _learn(self, histories: Histories, plain: dict[str, Any]) -> None:
        LARGEST.check("LinearItems", "number of items of catalogue", histories.items)
        inverse = np.zeros((histories.items, histories.items))
        item_pairs.gram(histories.starts, histories.positions, histories.weights, inverse)
        inverse[np.diag_indices_from(inverse)] += plain["regularization"]
        # LAPACK sees the transpose: the upper triangle of rows is its lower one.
        factor, failed = lapack.dpotrf(inverse.T, lower=1, overwrite_a=1)
        if not failed:
            inverse, failed = lapack.dpotri(factor, lower=1, overwrite_c=1)
        if failed:
            raise ValueError("LinearItems: regularization is too small for these histories.")
        inverse = inverse.T
        item_pairs.mirror(inverse)
        weights = np.divide(inverse, -np.diag(inverse)[None], out=inverse)
        np.fill_diagonal(weights, 0.0)
        self._matrix = weights.astype(np.float32)

    def _scores(self, history: Any) -> np.ndarray:
        return np.asarray(history @ self._matrix, np.float64)

    def _weight_layout(self) -> dict[str, Cells]:
        return {"_matrix": Cells(np.float32, (-1, -1))}

    def _restore_weights(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_weights(arrays)
        check_size(self._matrix.shape[0], self.catalogue_)
        check_size(self._matrix.shape[1], self.catalogue_)
