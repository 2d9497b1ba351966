"""PartsModel: the base of models that combine the scores of other models."""

from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.ids import is_one
from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, one_of, optional
from sfumato.data.interactions import Interactions
from sfumato.errors import ParameterError
from sfumato.recommend.base import Estimator
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.content.profiles import catalogue_with, check_item_features
from sfumato.recommend.hybrid.parts import (
    PARTS,
    made_part,
    part_arrays,
    part_layout,
    read_parts,
    score_fold_in,
    score_table,
)
from sfumato.recommend.hybrid.support import Support
from sfumato.recommend.ranking import (
    COUNT,
    ExcludedItems,
    barred,
    best,
    check_filter,
    excluded_by,
    fitting,
    listed,
    listing,
    one_pair,
    own_ratings,
    pairs,
    row_blocks,
)
from sfumato.recommend.ratings.base import times_of

__all__ = ["PartsModel"]

BLOCK = 1 << 20  # scores of each part that are computed at a time
KIND = one_of(("integers", "text"))
EXTRAS = ("features", "attributes")


class PartsModel(Estimator, in_files=False):
    """Base of models made of models.

    A subclass fits the parts in `_learn` and combines their scores in `_combined`, `_pairs_scored`
    and `_terms`.

    Parameters
    ----------
    parts : object, default=None
        The parts, by their names in `sfumato.recommend.models`: a text "a,b", a sequence of names
        or unfitted models, or a mapping of names to dicts of parameters (with "model", if the name
        is another) or models. None for those of the class.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    models_ : dict of str to Estimator
        The fitted parts by name.
    mean_, low_, high_ : float
        Mean and bounds of the training ratings; 0, 0 and 1 if scores only order items.

    Notes
    -----
    **Guarantee.** A file contains the files of the parts, each checked when it is read. All parts
    have the same catalogue. Not private.

    Examples
    --------
    >>> from sfumato.recommend import BellKorBlend
    >>> issubclass(BellKorBlend, PartsModel)
    True
    """

    LIMITS: ClassVar[dict[str, Limit]] = {"parts": optional(PARTS)}
    parts: Any
    _default_extras: ClassVar[tuple[str, ...]] = ()  # what the parts of None use
    models_: dict[str, Any]
    _entries: list[dict[str, Any]]
    _support: Support
    _kind: str  # of user ids, while a file is read

    @property
    def user_kind_(self) -> str:
        """Kind of the user ids: "integers" or "text"."""
        self._check_fitted()
        return self._support.users.kind

    @property
    def uses_times(self) -> bool:
        """Whether a part learns from times, and `predict` takes those of the pairs."""
        return any(each.uses_times for each in self._described_parts())

    @property
    def extras_of_parts(self) -> tuple[str, ...]:
        """Which of "features" and "attributes" a part uses."""
        if self.parts is None:
            return self._default_extras
        takers = [signature(each.fit).parameters for each in self._described_parts()]
        return tuple(name for name in EXTRAS if any(name in each for each in takers))

    def fit(
        self,
        train: Interactions,
        *,
        catalogue: Any = None,
        features: Any = None,
        attributes: Any = None,
    ) -> Self:
        """Fit the parts and what combines them.

        Parameters
        ----------
        train : Interactions
            Ratings or histories, at least one row, as the parts need them.
        catalogue : object, default=None
            Ids of the items that may be recommended, a `Catalogue` or a column; None for those of
            `train` and, after them, those of `features`.
        features : object, default=None
            Features of items, for the parts that use them.
        attributes : object, default=None
            Attributes of users, for the parts that use them.

        Returns
        -------
        Self
            The object itself.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C; a model whose parts were all fitted once keeps those fits, otherwise it is
            unchanged.
        """
        plain = self._check()
        self._check_train(train)
        items = self._items_of(train, catalogue, features)
        extras = {"features": features, "attributes": attributes}
        entries = plain["parts"] or PARTS.check(
            type(self).__name__, "parts", self._default_parts(train, extras)
        )
        self._check_extras(entries, extras)
        return self._learn(train, items, entries, plain, extras)

    def predict(self, users: Ids, items: Ids, times: Any = None) -> np.ndarray:
        """Predict the rating of each user for the corresponding item, or its score.

        Parameters
        ----------
        users : array_like or scalar
            User ids; a single id is paired with every item.
        items : array_like or scalar
            Item ids of the same length; a single id is paired with every user.
        times : object, default=None
            Time of each pair, or one for all, if `uses_times`; None for the latest time of the
            training data.

        Returns
        -------
        ndarray of shape (n,)
            Predicted ratings, float64, clipped to [`low_`, `high_`]; scores as they are, if
            `predicts_ratings` is False.
        """
        self._check_fitted()
        owner = type(self).__name__
        who, what = pairs(owner, users, items, (self.user_kind_, self.catalogue_.kind))
        when = None if times is None else times_of(owner, times, who.size)
        return self._clipped(self._pairs_scored(who, what, when))

    def recommend(
        self, users: Ids, n: int = 10, *, exclude: Interactions | None = None, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recommend the items with the highest combined scores to each user.

        Parameters
        ----------
        users : array_like or scalar
            User ids.
        n : int, default=10
            Number of items per user, at least 1.
        exclude : Interactions or None, default=None
            Items that the users beside them do not get, usually the training data.
        filter : object, default=None
            Boolean mask over `catalogue_`: only items that are True are recommended.

        Returns
        -------
        items : ndarray of shape (n_users, n)
            Item ids, best first; -1 or None as padding. Of shape (k,), k <= n, for a single user.
        scores : ndarray of shape (n_users, n)
            Their scores, before clipping; -inf as padding.
        """
        self._check_fitted()
        owner = type(self).__name__
        n = min(COUNT.check(owner, "n", n), len(self.catalogue_))
        who = fitting(owner, "users", users, self.user_kind_)
        allowed = check_filter(owner, filter, self.catalogue_)
        excluded = excluded_by(owner, who, exclude, self.catalogue_)
        found, scores = np.full((who.size, n), -1, np.int64), np.full((who.size, n), -np.inf)
        for part in row_blocks(who.size, len(self.catalogue_), BLOCK):
            eligible = self._eligible(part, allowed, excluded)
            table = self._table(who[part], eligible)
            table[~eligible] = -np.inf
            found[part], scores[part] = best(table, n)
        return listing(self.catalogue_, found, scores, is_one(users))

    def recommend_fold_in(
        self, items: Ids, ratings: Any = None, *, n: int = 10, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recommend items to a new user with these items; nothing about the user is stored.

        Parameters
        ----------
        items : array_like or scalar
            Item ids of the new user, which are not recommended again; unknown ids are ignored.
        ratings : array_like of shape (n_items,) or None, default=None
            Ratings of these items, for the parts that use them; None: all have the highest rating.
        n : int, default=10
            Number of items, at least 1.
        filter : object, default=None
            Boolean mask over `catalogue_`: only items that are True are recommended.

        Returns
        -------
        items : ndarray of shape (k,)
            Item ids, best first, k <= n.
        scores : ndarray of shape (k,)
            Their scores, before clipping.
        """
        self._check_fitted()
        owner = type(self).__name__
        n = min(COUNT.check(owner, "n", n), len(self.catalogue_))
        what = fitting(owner, "items", items, self.catalogue_.kind)
        given = None if ratings is None else own_ratings(owner, ratings, what.size)
        allowed = check_filter(owner, filter, self.catalogue_)
        eligible = self._eligible(slice(0, 1), allowed, listed(what, self.catalogue_))
        scores = np.stack([score_fold_in(each, what, given) for each in self.models_.values()])
        own = np.unique(self.catalogue_.positions(what))
        table = self._combined(scores[:, None], np.array([(own >= 0).sum()]), eligible)
        table[~eligible] = -np.inf
        return listing(self.catalogue_, *best(table, n), True)

    def explain(self, user: Ids, item: Ids, n: int = 5) -> dict[str, Any]:
        """Split one score into what each part adds to it.

        Parameters
        ----------
        user : array_like or scalar
            One user id.
        item : array_like or scalar
            One item id.
        n : int, default=5
            Number of parts to list, at least 1: those that add most, in absolute value.

        Returns
        -------
        dict
            Plain values: "parts" (each with "name", its own "score", its "weight" and what it adds,
            "part"), "rest" (what all other parts add), further terms of the class, "score" (the
            sum of all terms) and "prediction" (the score, clipped to the bounds of ratings).
        """
        self._check_fitted()
        owner = type(self).__name__
        n = COUNT.check(owner, "n", n)
        who, what = one_pair(owner, user, item, (self.user_kind_, self.catalogue_.kind))
        terms, further = self._terms(who, what)
        terms.sort(key=lambda term: -abs(term["part"]))
        rest = float(sum(term["part"] for term in terms[n:]))
        score = float(sum(term["part"] for term in terms) + sum(further.values()))
        plain = {"parts": terms[:n], "rest": rest, **further, "score": score}
        return {**plain, "prediction": float(self._clipped(np.array([score]))[0])}

    def _described_parts(self) -> list[Any]:
        """Return the fitted parts or, before, unfitted ones; none where they are not valid."""
        if "models_" in self.__dict__:
            return list(self.models_.values())
        try:
            return [made_part(entry) for entry in optional(PARTS).check("", "parts", self.parts)]
        except (ValueError, TypeError):
            return []

    def _clipped(self, scores: np.ndarray) -> np.ndarray:
        return np.clip(scores, self.low_, self.high_) if self.predicts_ratings else scores

    def _items_of(self, train: Interactions, catalogue: Any, features: Any) -> Catalogue:
        """Return the given catalogue, or the items of the rows and then those of the features."""
        known = self._catalogue_of(train, catalogue)
        if catalogue is not None or features is None:
            return known
        check_item_features(type(self).__name__, features, train)
        return catalogue_with(known, features)

    def _check_extras(self, entries: list[dict[str, Any]], extras: dict[str, Any]) -> None:
        """Raise ParameterError where features or attributes are given that no part takes."""
        takers = [signature(made_part(entry).fit).parameters for entry in entries]
        for name, value in extras.items():
            if value is not None and not any(name in each for each in takers):
                problem = "must be None, since no part uses them; add a part that does."
                raise ParameterError.of(type(self).__name__, name, problem)

    def _eligible(
        self, part: slice, allowed: np.ndarray | None, excluded: ExcludedItems | None
    ) -> np.ndarray:
        """Return which items each of these users may get."""
        table = np.zeros((part.stop - part.start, len(self.catalogue_)))
        return np.asarray(barred(table, allowed, excluded, part) == 0)

    def _tables(self, who: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Combined scores of some of the users at a time."""
        for part in row_blocks(who.size, len(self.catalogue_), BLOCK):
            yield part, self._table(who[part])

    def _table(self, who: np.ndarray, eligible: np.ndarray | None = None) -> np.ndarray:
        """Return the combined scores of all items for these users."""
        scores = np.stack([score_table(each, who) for each in self.models_.values()])
        return self._combined(scores, self._support.of_users(who), eligible)

    def _default_parts(self, train: Interactions, extras: dict[str, Any]) -> Any:
        """Return the parts that are used where none are given."""
        raise NotImplementedError

    def _learn(
        self,
        train: Interactions,
        items: Catalogue,
        entries: list[dict[str, Any]],
        plain: dict[str, Any],
        extras: dict[str, Any],
    ) -> Self:
        """Fit the parts and what combines them, setting attributes last."""
        raise NotImplementedError

    def _fit_finally(self, fit: Callable[[dict[str, Any]], Any], learned: dict[str, Any]) -> Self:
        """Fit all parts into `learned["models_"]` and adopt what was learned.

        After Ctrl-C the parts that were not fitted yet stay as they are there, if all are there.
        """
        models, entries = learned["models_"], learned["_entries"]
        try:
            for each in entries:
                models[each["name"]] = fit(each)
        except KeyboardInterrupt:
            if len(models) == len(entries):
                vars(self).update(learned)
            raise
        vars(self).update(learned)
        return self

    def _combined(
        self, scores: np.ndarray, counts: np.ndarray, eligible: np.ndarray | None
    ) -> np.ndarray:
        """Return the scores of all items from those of the parts, which may be overwritten.

        scores: (n_parts, n, n_items); counts: training rows of each user; eligible: items that may
        be recommended, None for all. The result is new, float64 of shape (n, n_items).
        """
        raise NotImplementedError

    def _pairs_scored(
        self, who: np.ndarray, what: np.ndarray, times: np.ndarray | None
    ) -> np.ndarray:
        """Return the combined scores of pairs of ids."""
        raise NotImplementedError

    def _terms(
        self, who: np.ndarray, what: np.ndarray
    ) -> tuple[list[dict[str, Any]], dict[str, float]]:
        """Return what each part adds to the score of one pair, and further terms of the score."""
        raise NotImplementedError

    def _own_layout(self) -> dict[str, Cells]:
        """The arrays of a file beside the parts."""
        return {}

    def _layout(self) -> dict[str, Cells]:
        kind = self.__dict__.get("_kind") or self._support.users.kind
        counts = Support.layout(kind)
        return {**counts, **self._own_layout(), **part_layout(len(self._entries))}

    def _arrays(self) -> dict[str, np.ndarray]:
        own = {name: getattr(self, name) for name in self._own_layout()}
        return {**self._support.arrays(), **own, **part_arrays(self.models_.values())}

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        counts = {name: arrays.pop(name) for name in Support.layout(self._kind)}
        self._support = Support.from_arrays(counts, len(self.catalogue_))
        del self._kind
        for name in self._own_layout():
            setattr(self, name, arrays.pop(name))
        self.models_ = read_parts(self._entries, arrays, self.catalogue_)

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "users": self._support.users.kind, "parts": self._entries}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._kind = KIND.check("state", "users", state["users"])
        self._entries = PARTS.check("state", "parts", state["parts"])
