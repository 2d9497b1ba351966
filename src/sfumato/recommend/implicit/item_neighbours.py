"""Item-based nearest neighbours: similar items of a user's history, summed."""

from typing import Any, ClassVar

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.validation import Limit, between, integer, one_of
from sfumato.kernels.recommend import item_pairs
from sfumato.recommend.implicit.base import HistoryModel
from sfumato.recommend.implicit.histories import Histories, History
from sfumato.recommend.implicit.item_weights import PRIOR, ItemWeightModel, SparseWeights

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
    prior : float or None, default=None
        Weight of an item's popularity, which is added to its score, at least 0. None is
        ``(20 / mean number of items of a user)**2``, as came out on validation parts: with short
        histories neighbours are mostly noise.
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
        0, 0 and 1: the range of similarities.

    Notes
    -----
    **Guarantee.** The score of an item is the sum of its similarities to those items of the history
    that are among its `neighbours` most similar items, weighted by their confidence, and `prior`
    times its popularity, the fraction of users who have it. Not private.

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

    SHORT: ClassVar[float] = 20.0
    LIMITS: ClassVar[dict[str, Limit]] = {
        "neighbours": integer(1, 1 << 20),
        "metric": one_of(METRICS),
        "transform": one_of(TRANSFORMS),
        "exponent": between(0, 1),
        "shrinkage": between(0, np.inf),
        "prior": PRIOR,
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
        prior: float | None = None,
        weighting: str = "equal",
        relevant_from: float | None = None,
    ) -> None:
        super().__init__(weighting=weighting, relevant_from=relevant_from)
        self.neighbours: int
        self.metric: str
        self.neighbours, self.metric = neighbours, metric
        self.transform: str
        self.exponent: float
        self.shrinkage: float
        self.transform, self.exponent, self.shrinkage = transform, exponent, shrinkage
        self.prior = prior

    def _item_weights(self, at: np.ndarray) -> np.ndarray:
        rows = [self._weights.column(each) for each in at]
        table = np.array(rows, np.float64).reshape(at.size, len(self.catalogue_))
        table[table == 0] = -np.inf
        return table

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
        there = found >= 0
        targets = np.repeat(np.arange(histories.items), there.sum(1))
        self._weights = SparseWeights.of(found[there], targets, values[there], histories.items)

    def _add_scores(self, history: History, out: np.ndarray) -> None:
        self._weights.score(history, out)

    def _parts(self, history: History, position: int) -> np.ndarray:
        return np.asarray(history.weights * self._weights.column(position)[history.positions])

    def _weight_layout(self) -> dict[str, Cells]:
        return SparseWeights.layout()

    def _weight_arrays(self) -> dict[str, np.ndarray]:
        return self._weights.arrays()

    def _restore_weights(self, arrays: dict[str, np.ndarray]) -> None:
        self._weights = SparseWeights.from_arrays(arrays, len(self.catalogue_))


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
