"""Neighbours: what users who are alike have, from raw profiles and from released ones alike."""

import math
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.deprecation import renamed_method
from sfumato.core.ids import distinct, is_one, kind_of
from sfumato.core.typing import Ids
from sfumato.core.validation import (
    Limit,
    between,
    flag,
    integer,
    keyword_only,
    number,
    one_of,
    optional,
    renamed_arguments,
)
from sfumato.data.interactions import Interactions
from sfumato.privacy.statement import PrivacyStatement
from sfumato.recommend.base import Label, NotFittedError, Parameters, label_of
from sfumato.recommend.catalogue import Catalogue, SortedCatalogue
from sfumato.recommend.neighbours.neighbourhood import (
    Deviations,
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
from sfumato.recommend.neighbours.profiles import METRICS, Profiles, RawProfiles
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
SAMPLED = 128  # profiles by whose neighbours it is seen what neighbours are worth


class UserNeighbours(Parameters):
    """A recommender by users who are alike: compare, choose neighbours, aggregate, rank.

    Parameters
    ----------
    neighbours : int or None, default=50
        At most, None for all.
    threshold : float or None, default=None
        The least similarity of a neighbour.
    metric : str, default="cosine"
        Cosine, jaccard or inner, and pearson of raw ratings.
    weighting : str, default="similarity"
        Of neighbours: by "similarity" or "equal".
    shrink : bool, default=True
        Whether scores are drawn towards the mean of all profiles by as much as neighbours vary by
        chance and noise (else noisy ones are taken at their word).
    predicts : str, default="memberships"
        "memberships" or, from raw profiles, "ratings".
    threads : int, default=1
        That compare raw profiles.

    Attributes
    ----------
    catalogue_ : Catalogue
        TODO.
    crowd_ : PopularityPrior
        TODO.
    profiles_ : Profiles
        TODO.

    Notes
    -----
    **Guarantee.** (1) every other user is compared with the given one; (2) neighbours are the most
    similar ones with a similarity above 0; (3) an item scores the weighted mean of their
    memberships, 1 for one who has it and 0 for one who has not, or what a release estimates; (4)
    the best items are told. On released profiles all of it is computed from the release, the public
    catalogue and what the asker tells: `statement` is the release's and nothing is spent. On raw
    profiles the model keeps whole histories: it is not private, and has no file. Whoever has no
    neighbours, or is not in the profiles, is answered by the mean of all profiles; a release whose
    noise hides everything scores all items 0.

    References
    ----------
    .. [1] Thesis 2.2.2.2; Resnick et al. 1994.

    Examples
    --------
    >>> users, items = ["ann", "ann", "bob", "bob", "eve"], ["tea", "rum", "tea", "milk", "ale"]
    >>> had = Interactions(users, items, ratings=[1, 1, 1, 1, 1])
    >>> model = UserNeighbours(neighbours=2).fit(had)
    >>> model.recommend("ann", n=1, exclude=had)[0]
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
        "threads": integer(1, 256),
    }
    profiles_: Profiles
    catalogue_: Catalogue
    crowd_: PopularityPrior

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
        self.neighbours, self.threshold = neighbours, threshold
        self.metric, self.weighting, self.shrink = metric, weighting, shrink
        self.predicts, self.threads = predicts, threads

    @renamed_arguments(measure="metric")
    def set_params(self, **params: Any) -> Self:
        """Change parameters; the next `fit` checks and uses them, what was learned stays.

        Parameters
        ----------
        **params : object
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        return super().set_params(**params)

    @property
    def measure(self) -> str:
        """The old name of `metric`."""
        warnings.warn("UserNeighbours: measure is now metric.", DeprecationWarning, stacklevel=2)
        return self.metric

    def fit(self, train: Any, *, catalogue: Any = None) -> Self:
        """Take over profiles and look at what neighbours are worth; nothing else is learned.

        Parameters
        ----------
        train : object
            Interactions, or profiles: RawProfiles, or released ones.
        catalogue : object, default=None
            The ids that may be recommended: public, and asked for, where profiles are released; of
            raw ones those that occur unless told.

        Returns
        -------
        Self
            The object itself.
        """
        told = self._limited()
        profiles = train
        if isinstance(train, Interactions):
            profiles = RawProfiles(train, threads=told["threads"])
        profiles = checked_profiles("UserNeighbours", profiles, told)
        shelf = catalogue_of("UserNeighbours", profiles, catalogue)
        crowd = PopularityPrior.of(profiles, shelf.ids)
        if told["shrink"]:
            rows = spaced(len(profiles.users_), SAMPLED)
            near, weights = neighbours(profiles, rows, told)
            crowd = crowd.fitted(profiles, shelf.ids, near, weights)
        rated = Deviations.of(profiles) if told["predicts"] == "ratings" else None
        self._told, self._rated, self._known = told, rated, SortedCatalogue(profiles.users_)
        self.profiles_, self.catalogue_, self.crowd_ = profiles, shelf, crowd
        return self

    def __repr__(self) -> str:
        return super().__repr__() + (f" of {self.profiles_!r}" if self._is_fitted else "")

    @property
    def statement(self) -> PrivacyStatement | None:
        """What the release promises; None for raw profiles, which promise nothing."""
        self._check_fitted()
        return getattr(self.profiles_, "statement", None)

    @property
    def privacy_label(self) -> Label:
        """Whether privacy is proved, only measured, or not claimed, as on raw profiles."""
        return label_of(self.statement if self._is_fitted else None)

    @property
    def nbytes(self) -> int | None:
        """Bytes of the profiles, where these tell."""
        self._check_fitted()
        return getattr(self.profiles_, "nbytes", None)

    def recommend(
        self,
        users: Ids,
        n: int = 10,
        *,
        exclude: Interactions | None = None,
        filter: Any = None,
        minimum: float | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The n best items of the catalogue for each user, and their scores, best first.

        Equal scores stand in the catalogue's order. A column of users gets two arrays of shape
        (users, n), with score -inf (and item -1 or None) where fewer are left; one single id gets
        two arrays of what is left.

        Parameters
        ----------
        users : array_like or scalar
            A column or one id.
        n : int, default=10
            From 1 up.
        exclude : Interactions or None, default=None
            Interactions whose items the user beside them does not get (also on raw profiles: own
            items are not left out unasked).
        filter : object, default=None
            A boolean mask over `catalogue_`.
        minimum : float or None, default=None
            The least score that is told.

        Returns
        -------
        tuple
            The n best items of the catalogue for each user, and their scores, best first.
        """
        self._check_fitted()
        n, minimum = _asked_for(n, minimum)
        who = fitting("UserNeighbours", "users", users, kind_of(self.profiles_.users_))
        allowed = check_filter("UserNeighbours", filter, self.catalogue_)
        seen = excluded_by("UserNeighbours", who, exclude, self.catalogue_)
        found, scores = np.full((who.size, n), -1, np.int64), np.full((who.size, n), -np.inf)
        for part, near, weights in self._neighbourhoods(self._known.positions(who)):
            told = barred(self._scores(near, weights), allowed, seen, part)
            found[part], scores[part] = best(told, n, minimum)
        return listing(self.catalogue_, found, scores, is_one(users))

    @keyword_only("n")
    def recommend_fold_in(
        self, items: Ids, *, n: int = 10, filter: Any = None, minimum: float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The n best items for somebody who has these, which are not listed again; none is kept.

        Parameters
        ----------
        items : array_like or scalar
            A column of ids or one; the others as in `recommend`. Pearson is refused: it needs
            ratings.
        n : int, default=10
            TODO.
        filter : object, default=None
            TODO.
        minimum : float or None, default=None
            TODO.

        Returns
        -------
        tuple
            The n best items for somebody who has these, which are not listed again; none is kept.
        """
        self._check_fitted()
        n, minimum = _asked_for(n, minimum)
        what = fitting("UserNeighbours", "items", items, self.catalogue_.kind)
        allowed = check_filter("UserNeighbours", filter, self.catalogue_)
        count, metric = most(self.profiles_, self._told), self._told["metric"]
        near, weights = weighed(*nearest_to(self.profiles_, what, count, metric), self._told)
        seen = listed(what, self.catalogue_)
        told = barred(self._scores(near, weights), allowed, seen, slice(0, 1))
        return listing(self.catalogue_, *best(told, n, minimum), True)

    recommend_guest = renamed_method("recommend_guest", "recommend_fold_in")

    def similar_users(self, users: Ids, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """The n users most like each, and how alike they are; shapes as in `recommend`.

        All who can be compared are told, whatever neighbours and threshold are; to a user who is
        not in the profiles nobody can.

        Parameters
        ----------
        users : array_like or scalar
            TODO.
        n : int, default=10
            TODO.

        Returns
        -------
        tuple
            The n users most like each, and how alike they are; shapes as in `recommend`.
        """
        self._check_fitted()
        n = COUNT.check("UserNeighbours", "n", n)
        who = fitting("UserNeighbours", "users", users, kind_of(self.profiles_.users_))
        rows = self._known.positions(who)
        found, near = np.full((who.size, n), -1, np.int64), np.full((who.size, n), -np.inf)
        there = rows >= 0
        asked = self.profiles_.nearest_rows(rows[there], n, metric=self._told["metric"])
        found[there], near[there] = asked
        return listing(self._known, found, near, is_one(users))

    def predict(self, users: Ids, items: Ids) -> np.ndarray:
        """The score of each user for the item beside it, or the rating, as `predicts` says.

        A score is that of `recommend`, 0 for an item outside of the catalogue. A rating is that of
        `DampedMeans` plus the damped weighted mean of what neighbours who rated the item departed
        from theirs, cut to the bounds of all ratings; so the means alone where none of them did.

        Parameters
        ----------
        users : array_like or scalar
            Columns of one length; one single id stands for a whole column.
        items : array_like or scalar
            Columns of one length; one single id stands for a whole column.

        Returns
        -------
        ndarray
            The score of each user for the item beside it, or the rating, as `predicts` says.
        """
        self._check_fitted()
        kinds = kind_of(self.profiles_.users_), self.catalogue_.kind
        who, what = pairs("UserNeighbours", users, items, kinds)
        (ids, at), (things, item) = distinct(who), distinct(what)
        order, out = np.argsort(at, kind="stable"), np.zeros(who.size)
        columns = self.catalogue_.positions(things)
        for part, near, weights in self._neighbourhoods(self._known.positions(ids)):
            first, last = np.searchsorted(at[order], (part.start, part.stop))
            here = order[first:last]
            table = self._told_of(near, weights, columns)
            out[here] = table[at[here] - part.start, item[here]]
        return out if self._rated is None else self._rated.predicted(who, what, out)

    def _neighbourhoods(self, rows: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Some of the rows at a time, the rows of their neighbours and the weights of these."""
        widest = max(most(self.profiles_, self._told), len(self.catalogue_))
        step = max(1, BLOCK // widest)
        for start in range(0, rows.size, step):
            part = slice(start, min(start + step, rows.size))
            yield part, *neighbours(self.profiles_, rows[part], self._told)

    def _scores(
        self, near: np.ndarray, weights: np.ndarray, columns: np.ndarray | slice = slice(None)
    ) -> np.ndarray:
        """What each query scores for the items in these columns of the catalogue."""
        items = self.catalogue_.ids[columns]
        means = weighted_memberships(self.profiles_, near, weights, items)
        return self.crowd_.at(columns).blended(means, weights)

    def _told_of(self, near: np.ndarray, weights: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Scores, or what neighbours add to ratings, of items that may be in no catalogue: 0."""
        inside = columns >= 0
        out = np.zeros((len(near), columns.size))
        if self._rated is None:
            out[:, inside] = self._scores(near, weights, columns[inside])
        else:
            items = self.catalogue_.ids[columns[inside]]
            out[:, inside] = self._rated.expected(near, weights, items)
        return out

    @property
    def _is_fitted(self) -> bool:
        return "profiles_" in self.__dict__

    def _check_fitted(self) -> None:
        if not self._is_fitted:
            raise NotFittedError("UserNeighbours: not fitted yet; call fit first.")


def _asked_for(n: Any, minimum: Any) -> tuple[int, float | None]:
    least = MINIMUM.check("UserNeighbours", "minimum", minimum)
    return COUNT.check("UserNeighbours", "n", n), None if least is None else float(least)
