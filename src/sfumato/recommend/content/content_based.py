"""Content-based lists: items whose features are those of the items that a user liked."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from sfumato.core.ids import is_one
from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, between, one_of
from sfumato.data.features import Features
from sfumato.data.interactions import Interactions
from sfumato.recommend.catalogue import SortedCatalogue
from sfumato.recommend.content.profiles import (
    ItemProfiles,
    catalogue_with,
    check_item_features,
)
from sfumato.recommend.content.tfidf import TFIDF_LIMITS, TfIdf, check_features
from sfumato.recommend.implicit.base import COUNT, TIE, HistoryModel, popularity
from sfumato.recommend.implicit.histories import Histories, History
from sfumato.recommend.ranking import best, fitting, listing, own_ratings, ranked_fold_in

if TYPE_CHECKING:
    from sfumato.recommend.content.index import ContentIndex

__all__ = ["ContentBased"]

RATED = ("rating", "centred")
WEIGHTINGS = ("equal", "log", *RATED)


class ContentBased(HistoryModel):
    """Content-based recommender: cosines between the profile of a user and those of items.

    The profile of an item is the TF-IDF weights of its features, see `TfIdf`; that of a user is the
    weighted mean of the profiles of the user's items. Items that nobody has used yet are
    recommended at once, from their features alone.

    Parameters
    ----------
    weighting : {"equal", "log", "rating", "centred"}, default="equal"
        Weight of an item in the user's profile: 1; ``log(1 + rating)``, for counts; the rating; or
        the rating minus the user's mean rating, so that features of disliked items count against
        an item.
    relevant_from : float or None, default=None
        Smallest rating that counts; None uses all rows.
    prior : float, default=1.0
        Weight of popularity: the most popular item gets so much more than one that nobody has, at
        least 0. 0 ranks by features alone, which new items among known ones need.
    terms : int or None, default=100
        Number of words that the profile of an item retains, those of the largest weights, at least
        1; None for all of them.
    min_documents : int, default=1
        Smallest number of texts that a word must occur in to be a feature.
    stop_words : str, default=""
        Words that are no features, separated by spaces.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended: those of the training data, then further ones with features.
    histories_ : Histories
        Items of each user, as positions in the catalogue, with their weights.
    profiles_ : ItemProfiles
        Profiles of the items of the catalogue, and the features that they are made of.
    mean_, low_, high_ : float
        0, 0 and 1: the range of cosines, which "centred" extends to -1.

    Notes
    -----
    **Guarantee.** The score of an item is the cosine of its profile and the user's, plus `prior`
    times its popularity, the fraction of users who have the item relative to that of the most
    popular one. For a user without history it is the fraction itself. The cosine of an item without
    features is 0, and so is the score of an unknown item. Not private: the file contains the
    histories of users.

    The profiles of 100,000 texts of 150 words take 10 to 15 seconds and 300 MiB.

    References
    ----------
    .. [1] Leskovec, Rajaraman, Ullman. "Mining of Massive Datasets", section 9.2.
       http://www.mmds.org
    .. [2] Pazzani, Billsus. "Content-Based Recommendation Systems". The Adaptive Web, 2007.
       https://doi.org/10.1007/978-3-540-72079-9_10

    Examples
    --------
    >>> from sfumato.data import Features, Interactions
    >>> films = Features(
    ...     ["alien", "solaris", "heat", "dune"],
    ...     categories={"genre": ["SciFi", "SciFi", "Crime", "SciFi"]},
    ... )
    >>> train = Interactions([1, 1, 2, 2], ["alien", "solaris", "heat", "alien"])
    >>> model = ContentBased().fit(train, features=films)
    >>> model.recommend(1, n=1, exclude=train)[0]  # nobody has used it yet
    array(['dune'], dtype=object)
    >>> model.explain(1, "dune")["features"][0]["feature"]
    'genre: SciFi'
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "weighting": one_of(WEIGHTINGS),
        "relevant_from": HistoryModel.LIMITS["relevant_from"],
        "prior": between(0, 1e9),
        **TFIDF_LIMITS,
    }
    NEEDS: ClassVar[tuple[str, ...]] = ("features",)
    profiles_: ItemProfiles

    def __init__(
        self,
        *,
        weighting: str = "equal",
        relevant_from: float | None = None,
        prior: float = 1.0,
        terms: int | None = 100,
        min_documents: int = 1,
        stop_words: str = "",
    ) -> None:
        super().__init__(weighting=weighting, relevant_from=relevant_from)
        self.prior: float
        self.terms: int | None
        self.prior, self.terms = prior, terms
        self.min_documents: int
        self.stop_words: str
        self.min_documents, self.stop_words = min_documents, stop_words

    @property
    def _prior(self) -> float:
        return max(float(self.prior) / max(float(self._popularity.max()), TIE), TIE)

    def fit(
        self, train: Interactions, *, features: Features | None = None, catalogue: Any = None
    ) -> Self:
        """Compute the profiles of items and the histories of users.

        Parameters
        ----------
        train : Interactions
            Who used or rated which item.
        features : Features or None, default=None
            Features of items, which must be given.
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
        owner = type(self).__name__
        known = check_item_features(owner, features, train)
        items = self._catalogue_of(train, catalogue)
        if catalogue is None:
            items = catalogue_with(items, known)
        encoder = TfIdf(**{name: plain[name] for name in TFIDF_LIMITS})
        inside = known.take(np.flatnonzero(items.positions(known.ids) >= 0))
        check_features(owner, "features of the catalogue", inside)
        profiles = ItemProfiles.of(encoder.fit(inside), inside, items)
        histories = _histories(train, items, plain["weighting"], plain["relevant_from"])
        self.mean_, self.low_, self.high_ = 0.0, 0.0, 1.0
        self.histories_, self.catalogue_, self.profiles_ = histories, items, profiles
        self._popularity = popularity(histories)
        return self

    def add_items(self, features: Features) -> Self:
        """Add new items to the catalogue, or replace the features of known ones.

        Inverse document frequencies stay those of `fit`, and words that were not there are ignored.

        Parameters
        ----------
        features : Features
            Features of the items, in the columns of `fit`.

        Returns
        -------
        Self
            The object itself.
        """
        self._check_fitted()
        owner = type(self).__name__
        check_features(owner, "features", features)
        if features.kind != self.catalogue_.kind:
            raise TypeError(
                f"{owner}: ids of features are {features.kind}, but the model knows "
                f"{self.catalogue_.kind}."
            )
        items = catalogue_with(self.catalogue_, features)
        profiles = self.profiles_.replaced(features, items)
        if not profiles.matrix[items.positions(features.ids)].nnz:
            raise ValueError(f"{owner}: no feature is known; give the columns that fit got.")
        histories = replace(self.histories_, items=len(items))
        self.histories_, self.catalogue_, self.profiles_ = histories, items, profiles
        self._popularity = popularity(histories)
        return self

    def recommend_fold_in(
        self, items: Ids, ratings: Any = None, *, n: int = 10, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recommend items to a new user with these items; nothing about the user is stored.

        Parameters
        ----------
        items : array_like or scalar
            Item ids of the new user, which are not recommended again; unknown ids are ignored.
        ratings : array_like of shape (n_items,) or None, default=None
            Ratings of these items, read as `weighting` says; None weighs all of them 1.
        n : int, default=10
            Number of items, at least 1.
        filter : object, default=None
            Boolean mask over `catalogue_`: only items that are True are recommended.

        Returns
        -------
        items : ndarray of shape (k,)
            Item ids, best first, k <= n.
        scores : ndarray of shape (k,)
            Their scores.
        """
        if ratings is None:
            return super().recommend_fold_in(items, n=n, filter=filter)
        self._check_fitted()
        if not len(fitting(type(self).__name__, "items", items, self.catalogue_.kind)):
            own_ratings(type(self).__name__, ratings, 0)
            return super().recommend_fold_in(items, n=n, filter=filter)

        def scored(what: np.ndarray) -> np.ndarray:
            given = own_ratings(type(self).__name__, ratings, what.size)
            rows = Interactions(np.zeros(what.size, np.int64), what, given)
            new = _histories(rows, self.catalogue_, self.weighting, self.relevant_from)
            return self._scored(new.take(np.zeros(1, np.int64)))

        return ranked_fold_in(type(self).__name__, self.catalogue_, items, n, filter, scored)

    def user_profile(self, user: Ids, n: int | None = None) -> dict[str, float]:
        """Return the profile of a user: the weighted mean of the profiles of the user's items.

        Parameters
        ----------
        user : array_like or scalar
            One user id.
        n : int or None, default=None
            Number of features, those of the largest absolute weights; None for all.

        Returns
        -------
        dict of str to float
            Weights by feature, largest absolute weight first; empty for an unknown user.
        """
        self._check_fitted()
        owner = type(self).__name__
        who = fitting(owner, "users", user, self.histories_.users.kind)
        if who.size != 1:
            raise ValueError(f"{owner}: user_profile takes one user, not {who.size}.")
        row = self._user_profiles(self.histories_.take(self.histories_.rows(who)))
        order = np.argsort(-np.abs(row.data), kind="stable")
        order = order if n is None else order[: COUNT.check(owner, "n", n)]
        names = self.profiles_.encoder.names_[row.indices[order]]
        return dict(zip(names.tolist(), row.data[order].tolist(), strict=True))

    def similar_items(self, items: Ids, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """List the items with the most similar profiles.

        Parameters
        ----------
        items : array_like or scalar
            Item ids; an item outside the catalogue has no similar ones.
        n : int, default=10
            Number of items, at least 1.

        Returns
        -------
        items : ndarray of shape (n_items, n)
            Item ids, most similar first; -1 or None as padding. Of shape (k,) for a single id.
        cosines : ndarray of shape (n_items, n)
            Cosines of their profiles, none of which is 0; -inf as padding.
        """
        self._check_fitted()
        owner = type(self).__name__
        n = min(COUNT.check(owner, "n", n), len(self.catalogue_))
        what = fitting(owner, "items", items, self.catalogue_.kind)
        at = self.catalogue_.positions(what)
        found, scores = np.full((at.size, n), -1, np.int64), np.full((at.size, n), -np.inf)
        for row in np.flatnonzero(at >= 0):
            table = np.zeros((1, len(self.catalogue_)))
            self.profiles_.add_cosines(self.profiles_.matrix[at[row]], table)
            table[:, at[row]] = 0
            table[table == 0] = -np.inf
            found[row], scores[row] = best(table, n)
        found[scores == -np.inf] = -1
        return listing(self.catalogue_, found, scores, is_one(items))

    def index(
        self, *, bands: int = 16, rows: int | None = None, probes: int = 16, seed: int = 0
    ) -> "ContentIndex":
        """Build hash tables of the item profiles, so that a list reads part of a large catalogue.

        Parameters
        ----------
        bands : int, default=16
            Number of hash tables, 1 to 4096.
        rows : int or None, default=None
            Random hyperplanes per key of a table, 1 to 64; None for about one bucket per eight
            items.
        probes : int, default=16
            Buckets to look up per table, 1 to 4096.
        seed : int, default=0
            Seed of the hyperplanes.

        Returns
        -------
        ContentIndex
            The index; it belongs to this fitted state.
        """
        self._check_fitted()
        from sfumato.recommend.content.index import ContentIndex  # and with it retrieve and sketch

        return ContentIndex(self, bands=bands, rows=rows, probes=probes, seed=seed)

    def _user_profiles(self, history: History) -> sp.csr_matrix:
        """Return the weighted means of the profiles of the items of each history."""
        counts = np.diff(history.starts)
        data = history.weights / np.repeat(counts, counts)
        shape = counts.size, len(self.catalogue_)
        rows = sp.csr_matrix((data, history.positions, history.starts), shape)
        made = rows @ self.profiles_.matrix.astype(np.float64)
        made.sort_indices()
        return made

    def _add_scores(self, history: History, out: np.ndarray) -> None:
        self.profiles_.add_cosines(self._user_profiles(history), out)

    def _explained(self, history: History, at: int, n: int) -> dict[str, Any]:
        """Return what each feature adds to the cosine."""
        popular, parts, names = 0.0, np.empty(0), np.empty(0, object)
        if at >= 0:
            empty = not history.positions.size
            popular = float(self._popularity[at]) * (1 if empty else self._prior)
            profile, item = self._user_profiles(history), self.profiles_.unit[at]
            length = np.sqrt((profile.data**2).sum())
            shared = profile.multiply(item).tocsr()
            parts = shared.data / (length if length > 0 else 1)
            names = self.profiles_.encoder.names_[shared.indices]
        largest = np.argsort(-np.abs(parts), kind="stable")[:n]
        rows = zip(names[largest].tolist(), parts[largest].tolist(), strict=True)
        return {
            "features": [{"feature": name, "part": part} for name, part in rows],
            "rest": float(parts.sum() - parts[largest].sum()),
            "popularity": popular,
            "score": float(parts.sum()) + popular,
        }

    def _weight_layout(self) -> dict[str, Cells]:
        return ItemProfiles.layout()

    def _weight_arrays(self) -> dict[str, np.ndarray]:
        return self.profiles_.arrays()

    def _restore_weights(self, arrays: dict[str, np.ndarray]) -> None:
        encoder = TfIdf(**{name: getattr(self, name) for name in TFIDF_LIMITS})
        self.profiles_ = ItemProfiles.from_arrays(encoder, arrays, len(self.catalogue_))


def _histories(
    train: Interactions, catalogue: Any, weighting: str, relevant_from: float | None
) -> Histories:
    """Build histories whose weights are ratings where `weighting` says so."""
    if weighting not in RATED:
        return Histories.of(train, catalogue, weighting, relevant_from)
    coded = train.coded()
    at = catalogue.positions(coded.item_ids)[coded.item_codes]
    used = at >= 0
    if relevant_from is not None:
        used &= train.ratings >= relevant_from
    shape = coded.user_ids.size, len(catalogue)
    pairs = coded.user_codes[used], at[used]
    rows = sp.csr_matrix((train.ratings[used], pairs), shape)
    # Of several ratings of one item the mean counts.
    rows.data /= sp.csr_matrix((np.ones(pairs[0].size), pairs), shape).data
    if weighting == "centred":
        counts = np.diff(rows.indptr)
        means = np.asarray(rows.sum(axis=1)).ravel() / np.maximum(counts, 1)
        rows.data -= np.repeat(means, counts)
    return Histories(
        SortedCatalogue(coded.user_ids),
        rows.indptr.astype(np.int64),
        rows.indices.astype(np.int32),
        rows.data.astype(np.float32),
        len(catalogue),
    )
