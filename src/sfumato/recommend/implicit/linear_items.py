"""Linear item-item model with a closed form (EASE), solved at once or in blocks of items."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import scipy

from sfumato.core.linear_algebra import blas_threads
from sfumato.core.storage import Cells
from sfumato.core.validation import Limit, integer, one_of, optional, positive
from sfumato.kernels.recommend import item_pairs
from sfumato.recommend.implicit.base import HistoryModel
from sfumato.recommend.implicit.histories import Histories, History
from sfumato.recommend.implicit.item_weights import PRIOR, ItemWeightModel, SparseWeights

__all__ = ["LinearItems", "penalty"]

FORM = one_of(("dense", "sparse"))
TARGETS = 4  # a block of this many times the items is solved for its targets
LEAST, PENALTY = 60.0, 6.0  # the latter times the mean sum of squared weights of a history
LATE = 1e-6  # of a cosine, at most, that popularity counts in the choice of targets


class LinearItems(ItemWeightModel):
    """Linear item-item recommender solved in closed form, known as EASE.

    Scores are the histories times a matrix with zero diagonal that predicts each item from the
    others by ridge regression. A catalogue of up to `dense_items` is solved at once; a larger one
    in overlapping blocks of items that are used together.

    Parameters
    ----------
    regularization : float or None, default=None
        Ridge penalty, above 0, in squared weights of a history (users, if `weighting` is "equal").
        None is 60 and 6 times the mean, over users with rows, of the sum of their squared weights
        (their number of items), the rule that came out on validation parts of several data sets.
    dense_items : int, default=8192
        Largest catalogue that is solved at once.
    block_items : int, default=1024
        Items of a block: those that the items of a block are predicted from.
    neighbours : int, default=256
        Largest number of weights per item that are stored of a block, those of the largest absolute
        values.
    prior : float or None, default=None
        Weight of an item's popularity, which is added to its score, at least 0. None is
        ``(6 / mean number of items of a user)**2``, as came out on validation parts: short
        histories say little.
    weighting : {"equal", "log"}, default="equal"
        Confidence of a row: 1, or ``log(1 + rating)`` scaled to a mean of 1, for counts of plays.
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
    ``|X - X B|^2 + regularization |B|^2`` over matrices of zero diagonal. In blocks, column j
    minimises it over weights of the items of one block, which contains j and the items most often
    used together with j and the other targets of the block (by cosine), and the largest
    `neighbours` of these weights are stored. `prior` times the popularity, the fraction of users
    who have the item, is added to its score. Not private.

    Memory is 4 n_items^2 bytes in the model and 12 n_items^2 while it is fitted; in blocks,
    8 n_items `neighbours` and 10 block_items^2.

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

    SHORT: ClassVar[float] = 6.0
    version: ClassVar[int] = 2
    LIMITS: ClassVar[dict[str, Limit]] = {
        "regularization": optional(positive),
        "dense_items": integer(1, 1 << 16),
        "block_items": integer(TARGETS, 1 << 14),
        "neighbours": integer(1, 1 << 14),
        "prior": PRIOR,
        **HistoryModel.LIMITS,
    }

    def __init__(
        self,
        *,
        regularization: float | None = None,
        dense_items: int = 8192,
        block_items: int = 1024,
        neighbours: int = 256,
        prior: float | None = None,
        weighting: str = "equal",
        relevant_from: float | None = None,
    ) -> None:
        super().__init__(weighting=weighting, relevant_from=relevant_from)
        self.regularization: float | None
        self.dense_items: int
        self.regularization, self.dense_items = regularization, dense_items
        self.block_items: int
        self.neighbours: int
        self.block_items, self.neighbours = block_items, neighbours
        self.prior = prior

    def _item_weights(self, at: np.ndarray) -> np.ndarray:
        if self._form == "sparse":
            table = np.array([self._weights.row(each) for each in at], np.float64)
            table = table.reshape(at.size, len(self.catalogue_))
            table[table == 0] = -np.inf
            return table
        table = np.array(self._matrix[at], np.float64)
        table[np.arange(at.size), at] = -np.inf
        return table

    def _learn(self, histories: Histories, plain: dict[str, Any]) -> None:
        plain = plain | {"regularization": penalty(histories, plain["regularization"])}
        if histories.items > plain["dense_items"]:
            parts = [*_blocks(histories, plain)]
            sources, targets, values = (np.concatenate(each) for each in zip(*parts, strict=True))
            self._weights = SparseWeights.of(sources, targets, values, histories.items)
            self._form = "sparse"
            return
        inverse = np.zeros((histories.items, histories.items))
        item_pairs.gram(histories.starts, histories.positions, histories.weights, inverse)
        with blas_threads(histories.items):
            inverse, failed = scipy.linalg.lapack.dpotri(
                _factor(inverse, plain), lower=1, overwrite_c=1
            )
        if failed:
            raise ValueError(TOO_SMALL)
        inverse = inverse.T
        item_pairs.mirror(inverse)
        weights = np.divide(inverse, -np.diag(inverse)[None], out=inverse)
        np.fill_diagonal(weights, 0.0)
        self._matrix = weights.astype(np.float32)
        self._form = "dense"

    def _add_scores(self, history: History, out: np.ndarray) -> None:
        if self._form == "sparse":
            self._weights.score(history, out)
        else:
            item_pairs.score_dense(*history, self._matrix, out)

    def _parts(self, history: History, position: int) -> np.ndarray:
        if self._form == "sparse":
            return np.asarray(history.weights * self._weights.column(position)[history.positions])
        return np.asarray(history.weights * self._matrix[history.positions, position])

    def _weight_layout(self) -> dict[str, Cells]:
        dense = {"_matrix": Cells(np.float32, (-1, -1))}
        return SparseWeights.layout() if self._form == "sparse" else dense

    def _weight_arrays(self) -> dict[str, np.ndarray]:
        return self._weights.arrays() if self._form == "sparse" else {"_matrix": self._matrix}

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "form": self._form}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._form = FORM.check("state", "form", state["form"])

    def _restore_weights(self, arrays: dict[str, np.ndarray]) -> None:
        items = len(self.catalogue_)
        if self._form == "sparse":
            self._weights = SparseWeights.from_arrays(arrays, items)
            return
        self._matrix = arrays["_matrix"]
        if self._matrix.shape != (items, items):
            raise ValueError("learned weights must have one row per item of the catalogue.")


TOO_SMALL = "LinearItems: regularization is too small for these histories; enlarge it."


def penalty(histories: Histories, given: float | None) -> float:
    """The penalty that was given, or the rule of `regularization`."""
    if given is not None:
        return given
    squares = float(np.square(histories.weights, dtype=np.float64).sum())
    return LEAST + PENALTY * squares / max(histories.active, 1)


def _factor(gram: np.ndarray, plain: dict[str, Any]) -> np.ndarray:
    """Cholesky factor of a Gram matrix, given by its upper triangle, and the ridge."""
    gram[np.diag_indices_from(gram)] += plain["regularization"]
    # LAPACK sees the transpose: the upper triangle of rows is its lower one.
    factor, failed = scipy.linalg.lapack.dpotrf(gram.T, lower=1, overwrite_a=1)
    if failed:
        raise ValueError(TOO_SMALL)
    return np.asarray(factor)


def _blocks(
    histories: Histories, plain: dict[str, Any]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Sources, targets and weights, block by block, until every item was a target once."""
    items, size = histories.items, min(plain["block_items"], histories.items)
    columns = histories.matrix.tocsc()
    sides = histories.starts, histories.positions, columns.indptr.astype(np.int64), columns.indices
    scales = (np.maximum(histories.counts, 1) ** -0.5).astype(np.float32)
    solved = np.zeros(items, bool)
    by_popularity = np.argsort(-histories.counts, kind="stable")
    late = np.empty(items)  # orders items that are as near by popularity
    late[by_popularity] = np.arange(items) * (LATE / items)
    for seed in by_popularity:
        if solved[seed]:
            continue
        near = np.zeros(items, np.float32)
        item_pairs.related(np.array([seed]), *sides, scales, near)
        near[seed], near[solved] = np.inf, -np.inf
        count = max(size // TARGETS, 1)
        targets = np.argpartition(late - near, count - 1)[:count]
        targets = np.sort(targets[~solved[targets]])
        near[:] = 0
        item_pairs.related(targets, *sides, scales, near)
        near[targets] = np.inf
        members = np.sort(np.argpartition(-near, size - 1)[:size])
        yield _solved(histories, members, targets, plain)
        solved[targets] = True


def _solved(
    histories: Histories, members: np.ndarray, targets: np.ndarray, plain: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Largest weights of the members of a block for each of its targets."""
    local = np.full(histories.items, -1, np.int64)
    local[members] = np.arange(members.size)
    gram = np.zeros((members.size, members.size))
    rows = histories.starts, histories.positions, histories.weights
    item_pairs.gram_of_some(*rows, local, gram)
    unit = np.zeros((members.size, targets.size), order="F")
    own = local[targets], np.arange(targets.size)
    unit[own] = 1
    inverse, failed = scipy.linalg.lapack.dpotrs(_factor(gram, plain), unit, lower=1, overwrite_b=1)
    if failed:
        raise ValueError(TOO_SMALL)
    weights = (inverse / -inverse[own]).astype(np.float32)
    weights[own] = 0
    count = min(plain["neighbours"], members.size)
    best = np.argpartition(-np.abs(weights), count - 1, axis=0)[:count]
    values = np.take_along_axis(weights, best, axis=0)
    there = values != 0
    return members[best][there], np.broadcast_to(targets, best.shape)[there], values[there]
