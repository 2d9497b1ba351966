"""CollectiveItems: linear items learned from histories and features of items together."""

from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.validation import Limit, between
from sfumato.data.features import Features
from sfumato.data.interactions import Interactions
from sfumato.recommend.catalogue import SortedCatalogue
from sfumato.recommend.content.profiles import (
    ItemProfiles,
    catalogue_with,
    check_item_features,
)
from sfumato.recommend.content.tfidf import TFIDF_LIMITS, TfIdf
from sfumato.recommend.implicit.base import popularity
from sfumato.recommend.implicit.histories import Histories
from sfumato.recommend.implicit.linear_items import LinearItems, penalty

__all__ = ["CollectiveItems"]


class CollectiveItems(LinearItems):
    """Linear item-item recommender of histories and features, known as collective EASE.

    A feature is one more user, who has the items with this feature. So items that nobody has used
    yet get weights from items with the same features.

    Parameters
    ----------
    regularization : float or None, default=None
        Ridge penalty, above 0, as in `LinearItems`; None is the rule there, of the histories alone.
    feature_weight : float, default=30.0
        How many users the features of an item count for, at least 0.
    dense_items : int, default=8192
        Largest catalogue that is solved at once.
    block_items : int, default=1024
        Items of a block: those that the items of a block are predicted from.
    neighbours : int, default=256
        Largest number of weights per item that are stored of a block, those of the largest absolute
        values.
    prior : float or None, default=None
        Weight of an item's popularity, as in `LinearItems`.
    weighting : {"equal", "log"}, default="equal"
        Confidence of a row: 1, or ``log(1 + rating)`` scaled to a mean of 1, for counts of plays.
    relevant_from : float or None, default=None
        Smallest rating that counts as a preference; None uses all rows.
    terms : int or None, default=100
        Number of words that the profile of an item retains, as in `ContentBased`.
    min_documents : int, default=1
        Smallest number of texts that a word must occur in to be a feature.
    stop_words : str, default=""
        Words that are no features, separated by spaces.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended: those of the training data, then further ones with features.
    histories_ : Histories
        Items of each user, as positions in the catalogue.
    mean_, low_, high_ : float
        0, 0 and 1: scores are estimates of preferences of 1 and 0, not clipped.

    Notes
    -----
    **Guarantee.** The weights are those of `LinearItems` with the Gram matrix
    ``X' X + feature_weight * F' F``, where column i of F is the TF-IDF profile of item i, see
    `TfIdf`, divided by its norm. Without features the model is `LinearItems`. Not private.

    References
    ----------
    .. [1] Jeunen, Van Balen, Goethals. "Closed-Form Models for Collaborative Filtering with
       Side-Information". RecSys 2020. https://doi.org/10.1145/3383313.3418480

    Examples
    --------
    >>> from sfumato.data import Features, Interactions
    >>> genres = ["SciFi", "SciFi", "Crime", "SciFi"]
    >>> films = Features(["alien", "solaris", "heat", "dune"], categories={"genre": genres})
    >>> train = Interactions([1, 1, 2], ["alien", "solaris", "heat"])
    >>> model = CollectiveItems(regularization=1, prior=0).fit(train, features=films)
    >>> model.recommend(1, n=1, exclude=train)[0]  # nobody has used it yet
    array(['dune'], dtype=object)
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "regularization": LinearItems.LIMITS["regularization"],
        "feature_weight": between(0, 1e9),
        **{name: each for name, each in LinearItems.LIMITS.items() if name != "regularization"},
        **TFIDF_LIMITS,
    }
    version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        regularization: float | None = None,
        feature_weight: float = 30.0,
        dense_items: int = 8192,
        block_items: int = 1024,
        neighbours: int = 256,
        prior: float | None = None,
        weighting: str = "equal",
        relevant_from: float | None = None,
        terms: int | None = 100,
        min_documents: int = 1,
        stop_words: str = "",
    ) -> None:
        super().__init__(
            regularization=regularization,
            dense_items=dense_items,
            block_items=block_items,
            neighbours=neighbours,
            prior=prior,
            weighting=weighting,
            relevant_from=relevant_from,
        )
        self.feature_weight = feature_weight
        self.terms: int | None
        self.min_documents: int
        self.stop_words: str
        self.terms, self.min_documents, self.stop_words = terms, min_documents, stop_words

    def fit(
        self, train: Interactions, *, features: Features | None = None, catalogue: Any = None
    ) -> Self:
        """Learn from the histories of users and the features of items.

        Parameters
        ----------
        train : Interactions
            Who used which item; ratings are read as `weighting` and `relevant_from` say.
        features : Features or None, default=None
            Features of items; None learns from histories alone.
        catalogue : object, default=None
            Ids of the items that may be recommended, a `Catalogue` or a column; None for those of
            `train` and then those of `features`. Rows of other items are ignored.

        Returns
        -------
        Self
            The object itself.
        """
        plain = self._check()
        self._check_train(train)
        items = self._catalogue_of(train, catalogue)
        if features is not None:
            check_item_features(type(self).__name__, features, train)
            items = catalogue_with(items, features) if catalogue is None else items
        histories = Histories.of(train, items, plain["weighting"], plain["relevant_from"])
        plain["regularization"] = penalty(histories, plain["regularization"])
        extended = histories
        if features is not None and plain["feature_weight"] > 0:
            inside = features.take(np.flatnonzero(items.positions(features.ids) >= 0))
            encoder = TfIdf(**{name: plain[name] for name in TFIDF_LIMITS}).fit(inside)
            profiles = ItemProfiles.of(encoder, inside, items)
            extended = _with_features(histories, profiles, plain["feature_weight"])
        self._learn(extended, plain)
        self.mean_, self.low_, self.high_ = 0.0, 0.0, 1.0
        self.histories_, self.catalogue_ = histories, items
        self._popularity = popularity(histories)
        return self


def _with_features(histories: Histories, profiles: ItemProfiles, weight: float) -> Histories:
    """Return the histories and, after them, a row of items for each feature."""
    rows = profiles.unit.T.tocsr()
    rows.sort_indices()
    starts = np.concatenate([histories.starts, histories.starts[-1] + rows.indptr[1:]])
    return Histories(
        SortedCatalogue(np.arange(starts.size - 1)),  # features are no users: rows by number
        starts.astype(np.int64),
        np.concatenate([histories.positions, rows.indices.astype(np.int32)]),
        np.concatenate([histories.weights, (rows.data * np.sqrt(weight)).astype(np.float32)]),
        histories.items,
    )
