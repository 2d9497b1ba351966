"""UserNeighbours: user-based collaborative filtering on raw or released profiles."""

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.deprecation import keyword_only, renamed_arguments, renamed_method
from sfumato.core.ids import distinct, is_one, kind_of
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, between, flag, integer, number, one_of, optional
from sfumato.data.interactions import Interactions
from sfumato.errors import ParameterError
from sfumato.privacy.statement import PrivacyStatement
from sfumato.recommend.base import Label, check_has_ratings, label_of
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.neighbours.neighbourhood import (
    catalogue_of,
    checked_profiles,
    most,
    nearest_to,
    neighbours,
    weighed,
)
from sfumato.recommend.neighbours.popularity_shrinkage import (
    BLOCK,
    PopularityPrior,
    spaced,
    weighted_memberships,
)
from sfumato.recommend.neighbours.profiles import (
    METRICS,
    THREADS,
    RawProfiles,
)
from sfumato.recommend.neighbours.rating_neighbours import RatingNeighbours
from sfumato.recommend.neighbours.user_neighbours_file import UserNeighboursFile
from sfumato.recommend.ranking import (
    barred,
    best,
    check_filter,
    excluded_by,
    fitting,
    listed,
    listing,
    pairs,
)

__all__ = ["UserNeighbours"]

COUNT = integer(1, 2**31 - 1)
MINIMUM = optional(number)
SAMPLED = 128  # profiles whose neighbours the shrinkage is estimated from
# How RatingNeighbours compares users; the cosine of residuals foretells more than that of ratings.
RATED_METRICS = {"cosine": "residual", "jaccard": "jaccard", "pearson": "pearson"}


class UserNeighbours(UserNeighboursFile):
    """User-based nearest-neighbour recommender, on raw or released profiles.

    Parameters
    ----------
    neighbours : int or None, default=50
        Largest number of neighbours per user, at least 1; None for all others.
    threshold : float or None, default=None
        Smallest similarity of a neighbour, at least -1; None for any similarity above 0, as
        `predicts="ratings"` needs.
    metric : {"cosine", "jaccard", "inner", "pearson"}, default="cosine"
        Similarity of two users; "pearson", the correlation of ratings, needs raw profiles. Where
        ratings are predicted, "cosine" is that of the residuals of ratings, and "inner" refused.
    weighting : {"similarity", "equal"}, default="similarity"
        Weights of the neighbours: their similarities, or all equal.
    shrink : bool, default=True
        Whether scores are shrunk to the population mean according to the sampling variance and
        noise of the neighbours. If False, noisy estimates are used as they are.
    predicts : {"memberships", "ratings"}, default="memberships"
        What `predict` returns; "ratings" needs raw profiles.
    threads : int, default=1
        Threads that compare raw profiles, from 1 to 256.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    crowd_ : PopularityPrior
        Population mean and variance of each item, and the shrinkage.
    high_ : float
        Upper bound of predicted ratings; 1 for memberships.
    low_ : float
        Lower bound of predicted ratings; 0 for memberships.
    mean_ : float
        Mean rating of the training data; 0 for memberships.
    profiles_ : Profiles
        The profiles given to `fit`, or built from its interactions.

    Notes
    -----
    **Guarantee.** Every other user is compared with the given one; neighbours are the most similar
    ones with a similarity above 0; the score of an item is the weighted mean of their memberships
    (1 if the neighbour has the item, 0 if not, or a release's estimate of it), shrunk if `shrink`.
    A user without neighbours, or unknown to the profiles, gets the mean of all profiles; if a
    release's noise leaves no signal, all scores are 0.

    On released profiles everything is computed from the release, the public catalogue and the
    arguments of the call: `statement` is that of the release, and no further budget is spent; such
    a model is not saved, since the release is. On raw profiles the model and its file store
    complete histories: they are not private.

    References
    ----------
    .. [1] Resnick, Iacovou, Suchak, Bergstrom, Riedl. "GroupLens: An Open Architecture for
       Collaborative Filtering of Netnews". CSCW 1994. https://doi.org/10.1145/192844.192905
    .. [2] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 2.2.2.2 (user-based collaborative filtering).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> users, items = ["ann", "ann", "bob", "bob", "eve"], ["tea", "rum", "tea", "milk", "ale"]
    >>> baskets = Interactions(users, items, ratings=[1, 1, 1, 1, 1])
    >>> model = UserNeighbours(neighbours=2).fit(baskets)
    >>> model.recommend("ann", n=1, exclude=baskets)[0]
    array(['milk'], dtype=object)
    >>> model.profiles_, model.statement
    (RawProfiles(3 users, 4 items: whole histories, not private), None)
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "neighbours": optional(COUNT),
        "threshold": optional(between(-1, math.inf)),
        "metric": one_of(METRICS),
        "weighting": one_of(("similarity", "equal")),
        "shrink": flag,
        "predicts": one_of(("memberships", "ratings")),
        "threads": THREADS,
    }

    @renamed_arguments(measure="metric")
    def __init__(
        self,
        *,
        neighbours: int | None = 50,
        threshold: float | None = None,
        metric: str = "cosine",
        weighting: str = "similarity",
        shrink: bool = True,
        predicts: str = "memberships",
        threads: int = 1,
    ) -> None:
        self.neighbours: int | None
        self.threshold: float | None
        self.neighbours, self.threshold = neighbours, threshold
        self.metric: str
        self.weighting: str
        self.shrink: bool
        self.metric, self.weighting, self.shrink = metric, weighting, shrink
        self.predicts: str
        self.threads: int
        self.predicts, self.threads = predicts, threads

    @renamed_arguments(measure="metric")
    def set_params(self, **params: Any) -> Self:
        return super().set_params(**params)

    @property
    def measure(self) -> str:
        """Deprecated name of `metric`."""
        warnings.warn("UserNeighbours: measure is now metric.", DeprecationWarning, stacklevel=2)
        return self.metric

    def fit(self, train: Any, *, catalogue: Any = None) -> Self:
        """Store the profiles and estimate the popularity prior.

        Parameters
        ----------
        train : Interactions or Profiles
            Interactions, `RawProfiles`, or a release of profiles.
        catalogue : array_like or None, default=None
            Ids of the items that may be recommended. Required for released profiles, where it must
            be public; None means the items that occur in raw ones.

        Returns
        -------
        Self
            The object itself.
        """
        settings = self._check()
        profiles = train
        if isinstance(train, Interactions):
            profiles = RawProfiles(train, threads=settings["threads"])
        profiles = checked_profiles("UserNeighbours", profiles, settings)
        items = catalogue_of("UserNeighbours", profiles, catalogue)
        prior = PopularityPrior.of(profiles, items.ids)
        if settings["shrink"]:
            rows = spaced(len(profiles.users_), SAMPLED)
            near, weights = neighbours(profiles, rows, settings)
            prior = prior.fitted(profiles, items.ids, near, weights)
        rated = _rating_model(profiles, items, settings)
        self._settings, self.catalogue_ = settings, items
        self._adopt(profiles, prior, rated)
        return self

    def __repr__(self) -> str:
        return super().__repr__() + (f" of {self.profiles_!r}" if self._is_fitted else "")

    @property
    def statement(self) -> PrivacyStatement | None:
        """Privacy statement of the release; None for raw profiles."""
        self._check_fitted()
        return getattr(self.profiles_, "statement", None)

    @property
    def privacy_label(self) -> Label:
        """Privacy in one word: "proved", "measured" or "none", as for raw profiles."""
        return label_of(self.statement if self._is_fitted else None)

    @property
    def nbytes(self) -> int | None:  # type: ignore[override]
        """Size of the profiles in bytes; None if they do not report it."""
        self._check_fitted()
        return getattr(self.profiles_, "nbytes", None)

    @property
    def user_kind_(self) -> str:
        """Kind of the user ids: "integers" or "text"."""
        self._check_fitted()
        return kind_of(self.profiles_.users_)

    @property
    def predicts_ratings(self) -> bool:
        """Whether `predict` returns ratings; memberships only order items."""
        return self.predicts == "ratings"

    def recommend(
        self,
        users: Ids,
        n: int = 10,
        *,
        exclude: Interactions | None = None,
        filter: Any = None,
        minimum: float | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recommend the n items with the highest scores to each user.

        Ties are in the catalogue's order.

        Parameters
        ----------
        users : array_like or scalar
            User ids, or a single id.
        n : int, default=10
            Number of items per user, at least 1.
        exclude : Interactions or None, default=None
            Interactions whose items are not recommended to the same user again. A user's own items
            are recommended unless they are in it, also on raw profiles.
        filter : array_like of bool or None, default=None
            Mask over `catalogue_`; only items with True are recommended.
        minimum : float or None, default=None
            Smallest score of a recommended item.

        Returns
        -------
        tuple of ndarray
            Item ids and scores, best first, both of shape (n_users, n). Where fewer than n items
            remain, the score is -inf and the item -1 (integer ids) or None (text ids). For a single
            user id, both are of shape (m,) with m <= n.
        """
        self._check_fitted()
        n, minimum = _checked_arguments(n, minimum)
        who = fitting("UserNeighbours", "users", users, kind_of(self.profiles_.users_))
        allowed = check_filter("UserNeighbours", filter, self.catalogue_)
        excluded = excluded_by("UserNeighbours", who, exclude, self.catalogue_)
        found, scores = np.full((who.size, n), -1, np.int64), np.full((who.size, n), -np.inf)
        for part, near, weights in self._neighbourhoods(self._known.positions(who)):
            masked = barred(self._scores(near, weights), allowed, excluded, part)
            found[part], scores[part] = best(masked, n, minimum)
        return listing(self.catalogue_, found, scores, is_one(users))

    @keyword_only("n")
    def recommend_fold_in(
        self, items: Ids, *, n: int = 10, filter: Any = None, minimum: float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recommend items to a new user, given the user's items.

        The model does not change and stores nothing of the new user (fold-in of a cold-start user).
        Not for metric "pearson", which needs ratings.

        Parameters
        ----------
        items : array_like or scalar
            Ids of the user's items; they are not recommended again.
        n : int, default=10
            Number of items to recommend, at least 1.
        filter : array_like of bool or None, default=None
            Mask over `catalogue_`; only items with True are recommended.
        minimum : float or None, default=None
            Smallest score of a recommended item.

        Returns
        -------
        tuple of ndarray
            Item ids and scores of shape (m,), m <= n, best first.
        """
        self._check_fitted()
        n, minimum = _checked_arguments(n, minimum)
        what = fitting("UserNeighbours", "items", items, self.catalogue_.kind)
        allowed = check_filter("UserNeighbours", filter, self.catalogue_)
        count, metric = most(self.profiles_, self._settings), self._settings["metric"]
        near, weights = weighed(*nearest_to(self.profiles_, what, count, metric), self._settings)
        excluded = listed(what, self.catalogue_)
        masked = barred(self._scores(near, weights), allowed, excluded, slice(0, 1))
        return listing(self.catalogue_, *best(masked, n, minimum), True)

    recommend_guest: Callable[..., Any] = renamed_method("recommend_guest", "recommend_fold_in")

    def similar_users(self, users: Ids, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """Find the n users most similar to each user.

        `neighbours` and `threshold` do not apply. An unknown user has no similar ones.

        Parameters
        ----------
        users : array_like or scalar
            User ids, or a single id.
        n : int, default=10
            Number of users to return per user, at least 1.

        Returns
        -------
        tuple of ndarray
            User ids and similarities, most similar first, in the shapes of `recommend`.
        """
        self._check_fitted()
        n = COUNT.check("UserNeighbours", "n", n)
        who = fitting("UserNeighbours", "users", users, kind_of(self.profiles_.users_))
        rows = self._known.positions(who)
        found, near = np.full((who.size, n), -1, np.int64), np.full((who.size, n), -np.inf)
        there = rows >= 0
        nearest = self.profiles_.nearest_rows(rows[there], n, metric=self._settings["metric"])
        found[there], near[there] = nearest
        return listing(self._known, found, near, is_one(users))

    def predict(self, users: Ids, items: Ids) -> np.ndarray:
        """Predict the score or rating of each user for the corresponding item.

        With `predicts="memberships"` the result is the score of `recommend`, 0 for an item outside
        of the catalogue. With `predicts="ratings"` it is that of `RatingNeighbours` by users: the
        damped means of user and item plus the damped weighted mean of the residuals of the
        `neighbours` most similar users who rated the item, clipped to the range of all ratings. If
        `shrink`, that mean is multiplied by a slope from 0 to 1, by which neighbours foretell
        ratings that were held out; 0 leaves the damped means.

        Parameters
        ----------
        users : array_like or scalar
            User ids. A single id is paired with every item.
        items : array_like or scalar
            Item ids, as many as users. A single id is paired with every user.

        Returns
        -------
        ndarray of shape (n,)
            Scores or ratings, float64.
        """
        self._check_fitted()
        kinds = kind_of(self.profiles_.users_), self.catalogue_.kind
        who, what = pairs("UserNeighbours", users, items, kinds)
        if self._rated is not None:
            return self._rated.predict(who, what)
        (ids, at), (things, item) = distinct(who), distinct(what)
        order, out = np.argsort(at, kind="stable"), np.zeros(who.size)
        columns = self.catalogue_.positions(things)
        for part, near, weights in self._neighbourhoods(self._known.positions(ids)):
            first, last = np.searchsorted(at[order], (part.start, part.stop))
            here = order[first:last]
            here = here[columns[item[here]] >= 0]
            table = self._scores(near, weights, np.maximum(columns, 0))
            out[here] = table[at[here] - part.start, item[here]]
        return out

    def _neighbourhoods(self, rows: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield batches: slice of the rows, rows of their neighbours and the weights of these."""
        widest = max(most(self.profiles_, self._settings), len(self.catalogue_))
        step = max(1, BLOCK // widest)
        for start in range(0, rows.size, step):
            part = slice(start, min(start + step, rows.size))
            yield part, *neighbours(self.profiles_, rows[part], self._settings)

    def _scores(
        self, near: np.ndarray, weights: np.ndarray, columns: np.ndarray | slice = slice(None)
    ) -> np.ndarray:
        """Return the score of each query for the items in these columns of the catalogue."""
        items = self.catalogue_.ids[columns]
        means = weighted_memberships(self.profiles_, near, weights, items)
        return self.crowd_.at(columns).blended(means, weights)

    @property
    def _is_fitted(self) -> bool:
        """Whether `fit` was called."""
        return "profiles_" in self.__dict__

    def _check_together(self, plain: dict[str, Any]) -> None:
        if plain["predicts"] == "ratings":
            for name, wanted, sound in (
                ("metric", "cosine, jaccard or pearson", plain["metric"] in RATED_METRICS),
                ("threshold", "None", plain["threshold"] is None),
            ):
                if not sound:
                    sentence = f"must be {wanted} for predicts='ratings', not {plain[name]!r}."
                    raise ParameterError.of("UserNeighbours", name, sentence)


def _rating_model(
    profiles: Any, items: Catalogue, settings: dict[str, Any]
) -> RatingNeighbours | None:
    """Return what predicts ratings, fitted to the profiles; None where memberships are wanted."""
    if settings["predicts"] != "ratings":
        return None
    rows = profiles.interactions
    check_has_ratings("UserNeighbours", rows)
    return RatingNeighbours(
        by="users",
        metric=RATED_METRICS[settings["metric"]],
        neighbours=most(profiles, settings),
        min_overlap=profiles.least_common,
        exponent=1.0 if settings["weighting"] == "similarity" else 0.0,
        slope=None if settings["shrink"] else 1.0,
    ).fit(rows, catalogue=items)


def _checked_arguments(n: Any, minimum: Any) -> tuple[int, float | None]:
    """Return n and minimum as plain numbers; raise ValueError if one is invalid."""
    least = MINIMUM.check("UserNeighbours", "minimum", minimum)
    return COUNT.check("UserNeighbours", "n", n), None if least is None else float(least)
