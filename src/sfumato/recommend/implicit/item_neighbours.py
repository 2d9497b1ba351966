"""Item-based nearest neighbours: similar items of a user's history, summed."""

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from sfumato.core.storage import Cells
from sfumato.core.validation import Limit, between, integer, one_of
from sfumato.kernels.recommend import item_pairs
from sfumato.recommend.implicit.base import HistoryModel, ItemWeightModel, check_size
from sfumato.recommend.implicit.histories import Histories

__all__ = ["ItemNeighbours"]

METRICS = ("cosine", "jaccard")
TRANSFORMS = ("none", "tfidf", "bm25")
K1, B = 1.2, 0.75  # of BM25: saturation, and how much a user's number of items counts


class ItemNeighbours(ItemWeightModel):
    """Item-based nearest-neighbour recommender for implicit feedback.

    Parameters
    ----------
    neighbours : int, default=100
        Largest number of neighbours of an item, at least 1.
    metric : {"cosine", "jaccard"}, default="cosine"
        Similarity of two items: cosine of their columns of weights, or the fraction of users of
        either who have both ("jaccard" ignores weights).
    transform : {"none", "tfidf", "bm25"}, default="none"
        Weights of a row before the cosine: as they are, times the inverse user frequency of the
        item, or by BM25, which also damps users with many items.
    exponent : float, default=0.3
        Exponent of the squared norm of the recommended item in the denominator of the cosine, from
        0 to below 1; that of the item in the history is 1 - exponent. 0.5 is the cosine itself, 0 a
        conditional frequency, which favours popular items. "jaccard" ignores it.
    shrinkage : float, default=20.0
        Added to the denominator of a similarity, at least 0: similarities that rest on few common
        users shrink to 0.
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
        0, 0 and 1: the range of similarities.

    Notes
    -----
    **Guarantee.** The score of an item is the sum of its similarities to those items of the history
    that are among its `neighbours` most similar items, weighted by their confidence. Not private.

    References
    ----------
    .. [1] Sarwar, Karypis, Konstan, Riedl. "Item-Based Collaborative Filtering Recommendation
       Algorithms". WWW 2001. https://doi.org/10.1145/371920.372071
    .. [2] Aiolli. "Efficient Top-N Recommendation for Very Large Scale Binary Rated Datasets".
       RecSys 2013 (asymmetric cosine).

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> users, items = [1, 1, 2, 2, 3, 4], ["tea", "milk", "tea", "milk", "tea", "rum"]
    >>> train = Interactions(users, items, [1] * 6)
    >>> model = ItemNeighbours().fit(train)
    >>> model.recommend(3, n=1, exclude=train)[0]
    array(['milk'], dtype=object)
    >>> model.similar_items("tea", n=1)[0]
    array(['milk'], dtype=object)
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "neighbours": integer(1, 1 << 20),
        "metric": one_of(METRICS),
        "transform": one_of(TRANSFORMS),
        "exponent": between(0, 1),
        "shrinkage": between(0, np.inf),
        **HistoryModel.LIMITS,
    }

    def __init__(
        self,
        *,
        neighbours: int = 100,
        metric: str = "cosine",
        transform: str = "none",
        exponent: float = 0.3,
        shrinkage: float = 20.0,
        weighting: str = "equal",
        relevant_from: float | None = None,
    ) -> None:
        super().__init__(weighting=weighting, relevant_from=relevant_from)
        self.neighbours, self.metric = neighbours, metric
        self.transform, self.exponent, self.shrinkage = transform, exponent, shrinkage

    def _item_weights(self, at: np.ndarray) -> np.ndarray:
        table = np.asarray(self._similarities[:, at].T.toarray(), np.float64)
        table[table == 0] = -np.inf
        return table

    @property
    def _similarities(self) -> sp.csr_matrix:
        size = len(self.catalogue_)
        return sp.csr_matrix((self._values, self._columns, self._ends), (size, size))

    def _learn(self, histories: Histories, plain: dict[str, Any]) -> None:
        rows = histories.matrix
        rows.data = _transformed(histories, plain)
        columns = rows.tocsc()  # who has each item
        squares = np.asarray(columns.power(2).sum(0), np.float64).ravel()
        jaccard = plain["metric"] == "jaccard"
        power = 1.0 if jaccard else plain["exponent"]
        width = min(plain["neighbours"], histories.items)
        found = np.full((histories.items, width), -1, np.int64)
        values = np.full((histories.items, width), -np.inf, np.float32)
        item_pairs.nearest(
            histories.starts,
            histories.positions,
            rows.data,
            columns.indptr.astype(np.int64),
            columns.indices,
            columns.data,
            squares**power,
            squares ** (1.0 if jaccard else 1 - power),
            jaccard,
            plain["shrinkage"],
            found,
            values,
        )
        # Rows are recommended items here; scores are summed along those of the history.
        there = found >= 0
        at = np.repeat(np.arange(histories.items), there.sum(1)), found[there]
        sums = sp.csr_matrix((values[there], at), (histories.items,) * 2).T.tocsr()
        self._ends = sums.indptr.astype(np.int64)
        self._columns, self._values = sums.indices.astype(np.int32), sums.data

    def _scores(self, history: Any) -> np.ndarray:
        out = np.zeros(history.shape)
        starts = history.indptr.astype(np.int64)
        item_pairs.score(
            starts,
            history.indices,
            history.data,
            self._ends,
            self._columns,
            self._values,
            out,
        )
        return out

    def _weight_layout(self) -> dict[str, Cells]:
        return {
            "_ends": Cells(np.int64, (-1,)),
            "_columns": Cells(np.int32, (-1,)),
            "_values": Cells(np.float32, (-1,)),
        }

    def _restore_weights(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_weights(arrays)
        check_size(self._ends.size - 1, self.catalogue_)
        sound = (
            self._ends[0] == 0
            and (np.diff(self._ends) >= 0).all()
            and self._ends[-1] == self._columns.size == self._values.size
            and (self._columns >= 0).all()
            and (self._columns < len(self.catalogue_)).all()
            and np.isfinite(self._values).all()
        )
        if not sound:
            raise ValueError("similarities must be rows of positions within the catalogue.")


def _transformed(histories: Histories, plain: dict[str, Any]) -> np.ndarray:
    """Weights of the rows for the cosine."""
    if plain["metric"] == "jaccard":
        return np.ones(histories.weights.size, np.float32)
    if plain["transform"] == "none":
        return histories.weights
    users, counts = len(histories.users), histories.counts
    rare = np.log1p(users) - np.log1p(counts)
    if plain["transform"] == "tfidf":
        return np.asarray(np.sqrt(histories.weights) * rare[histories.positions], np.float32)
    lengths = np.diff(histories.starts)
    longer = np.repeat(1 - B + B * lengths / max(lengths.mean(), 1e-300), lengths)
    weights = histories.weights * (K1 + 1) / (K1 * longer + histories.weights)
    return np.asarray(weights * rare[histories.positions], np.float32)
