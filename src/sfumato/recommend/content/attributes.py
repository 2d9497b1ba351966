"""Ratings of new users by their attributes: what users of the same kind think of each item."""

from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from sfumato.core.ids import id_arrays, id_layout, ids_from
from sfumato.core.storage import Cells
from sfumato.core.validation import Limit
from sfumato.data.features import Features
from sfumato.data.interactions import Interactions
from sfumato.recommend.base import OPTIONAL_BOUNDS
from sfumato.recommend.catalogue import Catalogue, SortedCatalogue
from sfumato.recommend.content.damped_effects import (
    Effects,
    Membership,
    damped_effects,
    fractions,
    product,
)
from sfumato.recommend.content.profiles import catalogue_with, check_item_features, placed
from sfumato.recommend.content.tfidf import check_features
from sfumato.recommend.ratings.base import RatingModel
from sfumato.recommend.ratings.rated_rows import RatedRows

__all__ = ["AttributeMeans"]

PAIRS = 1 << 21  # products of pairs that are computed at a time
VALUES = "values"


class AttributeMeans(RatingModel):
    """Ratings by attributes of users, such as age and occupation, also of users without ratings.

    A rating is the item's mean, plus how much users with each attribute value deviate from it, in
    general, for items with the same features, and for this item; a known user's own bias is added.
    Every deviation is a mean residual that is damped to 0 where it rests on few ratings.

    Parameters
    ----------
    bounds : tuple of float or None, default=None
        Lowest and highest rating; None means those of the training data.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended: those of the training data, then further ones with features.
    users_ : Catalogue
        Users of the training data, then further ones with attributes.
    values_ : ndarray of shape (n_values,)
        Attribute values, as "column: value".
    dampings_ : dict of str to float
        The estimated damping of each kind of deviation; 1e18 means that there is none.
    mean_, low_, high_ : float
        Mean rating of the training data, and the bounds that predictions are clipped to.

    Notes
    -----
    **Guarantee.** A deviation is the sum of residuals of its ratings, divided by their number plus
    the damping. The damping of each kind is that among 16 values with the smallest squared error of
    training ratings that are predicted without the other ratings of the same user (of the same
    item, for features of items). Users without attributes get the item's mean, plus their bias;
    unknown items the mean of all ratings instead. Not private: the file contains the attributes of
    users.

    A fit to a million ratings, with three attributes and one feature, takes about 3 seconds and
    less than 1 GiB. The file contains a table of items times attribute values.

    References
    ----------
    .. [1] Pazzani. "A Framework for Collaborative, Content-Based and Demographic Filtering".
       Artificial Intelligence Review 13, 1999. https://doi.org/10.1023/A:1006544522159

    Examples
    --------
    >>> from sfumato.data import Features, Interactions
    >>> users, items = [1, 1, 2, 2, 3, 3, 4, 4], ["tea", "rum"] * 4
    >>> train = Interactions(users, items, [5, 1, 5, 2, 1, 5, 2, 5])
    >>> people = Features([1, 2, 3, 4, 9], categories={"age": ["20", "20", "50", "50", "20"]})
    >>> model = AttributeMeans().fit(train, attributes=people)
    >>> model.recommend(9, n=1)[0]  # has no ratings
    array(['tea'], dtype=object)
    """

    LIMITS: ClassVar[dict[str, Limit]] = {"bounds": OPTIONAL_BOUNDS}
    NEEDS: ClassVar[tuple[str, ...]] = ("attributes",)
    values_: np.ndarray
    dampings_: dict[str, float]
    _item_effects: np.ndarray
    _user_effects: np.ndarray
    _value_effects: np.ndarray
    _deviations: np.ndarray  # of (item, value)
    _shares: sp.csr_matrix  # values of each user

    def __init__(self, *, bounds: tuple[float, float] | None = None) -> None:
        super().__init__(bounds=bounds)

    def fit(
        self,
        train: Interactions,
        *,
        attributes: Features | None = None,
        features: Features | None = None,
        catalogue: Any = None,
    ) -> Self:
        """Learn from ratings, and from the attributes of users.

        Parameters
        ----------
        train : Interactions
            Ratings, at least one.
        attributes : Features or None, default=None
            Attributes of users, which must be given; their categories are used.
        features : Features or None, default=None
            Features of items, whose categories are used: they predict the means of items with few
            ratings, and what users of each kind think of them.
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
        people = self._checked_attributes(attributes, train)
        owner = type(self).__name__
        if features is not None:
            _categories_of(owner, "features", check_item_features(owner, features, train))
        items = self._catalogue_of(train, catalogue)
        if catalogue is None and features is not None:
            items = catalogue_with(items, features)
        rows, items = self._rows_of(train, items, plain)
        known = SortedCatalogue(catalogue_with(rows.users, people).ids)
        shares = _shares_of(people, known)
        traits = {} if features is None else _shares_of(features, items)
        self._learn_effects(rows, shares, traits)
        self.values_, self._shares = _names_of(people, shares), sp.hstack([*shares.values()], "csr")
        self._adopt(train, plain, rows, items, None)
        self.users_ = known
        return self

    def _checked_attributes(self, attributes: Any, train: Interactions) -> Features:
        """Return the attributes; raise unless users of the training data have some."""
        owner = type(self).__name__
        if attributes is None:
            raise TypeError(
                f"{owner}: attributes must be given, as fit(train, attributes=...): Features of "
                "the users, built by Features(ids, categories=...) or read_features."
            )
        known = _categories_of(owner, "attributes", check_features(owner, "attributes", attributes))
        if not (known.positions(train.coded().user_ids) >= 0).any():
            raise ValueError(
                f"{owner}: attributes have rows of no user of train; their ids are {known.kind}, "
                "and must be those of the users."
            )
        return known

    def _learn_effects(
        self, rows: RatedRows, shares: dict[str, Any], traits: dict[str, Any]
    ) -> None:
        """Estimate one kind of deviation after the other, each on the residuals of those before."""
        users, items = rows.user_rows, rows.positions
        size, dampings = len(rows), {}
        residuals = rows.ratings - rows.ratings.mean(dtype=np.float64)

        def learned(name: str, groups: Membership, owners: np.ndarray) -> Effects:
            effects = damped_effects(groups, residuals, owners)
            dampings[name] = effects.damping
            residuals[:] -= effects.of_rows(groups, size)
            return effects

        item_effects, values = np.zeros(rows.items), sum(map(_width, shares.values()))
        for name, table in traits.items():
            item_effects += table @ learned(name, Membership.of(table, items), items).values
        of_items = Membership.one(items, rows.items)
        item_effects += learned("items", of_items, users).values
        of_users = {name: Membership.of(table, users) for name, table in shares.items()}
        value_effects = [learned(name, groups, users).values for name, groups in of_users.items()]
        # Own biases of users are noise in the deviations that follow; they come back after them.
        own = Membership.one(users, len(rows.users))
        biases = learned("users", own, np.arange(size))
        deviations, at = np.zeros((rows.items, values)), 0
        for name, groups in of_users.items():
            mine = deviations[:, at : at + groups.size]
            for trait, table in traits.items():
                pairs = product(Membership.of(table, items), groups)
                found = learned(f"{trait} x {name}", pairs, users).values
                mine += table @ found.reshape(-1, groups.size)
            pairs = product(of_items, groups)
            mine += learned(f"items x {name}", pairs, users).values.reshape(-1, groups.size)
            at += groups.size
        residuals += biases.of_rows(own, size)
        user_effects = np.zeros(next(iter(shares.values())).shape[0])
        user_effects[: len(rows.users)] = learned("users", own, np.arange(size)).values
        self.dampings_ = dampings
        self._item_effects, self._user_effects = item_effects, user_effects
        self._value_effects = np.concatenate(value_effects)
        self._deviations = deviations.astype(np.float32)

    def _predicted(
        self, rows: np.ndarray, columns: np.ndarray, times: np.ndarray | None
    ) -> np.ndarray:
        item = np.where(columns >= 0, self._item_effects[columns], 0.0)
        scores = self.mean_ + item + self._user_parts(rows)
        step = max(1, PAIRS // max(self._deviations.shape[1], 1))
        both = np.flatnonzero((rows >= 0) & (columns >= 0))
        for start in range(0, both.size, step):
            part = both[start : start + step]
            shares = self._shares[rows[part]].toarray()
            scores[part] += (shares * self._deviations[columns[part]]).sum(axis=1)
        return np.asarray(scores)

    def _table(self, rows: np.ndarray) -> np.ndarray:
        deviations = np.zeros((rows.size, len(self.catalogue_)))
        known = rows >= 0
        deviations[known] = self._shares[rows[known]] @ self._deviations.T.astype(np.float64)
        deviations += self.mean_ + self._item_effects + self._user_parts(rows)[:, None]
        return deviations

    def _user_parts(self, rows: np.ndarray) -> np.ndarray:
        """Return the bias of each user row, and what its attributes say of it; 0 for -1."""
        parts = self._user_effects + self._shares @ self._value_effects
        return np.where(rows >= 0, parts[rows], 0.0)

    def _folded_in(self, positions: np.ndarray, ratings: np.ndarray) -> np.ndarray:
        scores = self.mean_ + self._item_effects
        residuals = ratings - scores[positions]
        bias = residuals.sum() / (residuals.size + self.dampings_["users"])
        return np.asarray(scores + bias)

    def _explained(self, row: int, column: int, n: int) -> dict[str, Any]:
        item = float(self._item_effects[column]) if column >= 0 else 0.0
        user, parts, names = 0.0, np.empty(0), np.empty(0, object)
        if row >= 0:
            user, mine = float(self._user_effects[row]), self._shares[row]
            effects = self._value_effects[mine.indices]
            if column >= 0:
                effects = effects + self._deviations[column, mine.indices]
            parts, names = mine.data * effects, self.values_[mine.indices]
        largest = np.argsort(-np.abs(parts), kind="stable")[:n]
        pairs = zip(names[largest].tolist(), parts[largest].tolist(), strict=True)
        return {
            "mean": self.mean_,
            "item": item,
            "user": user,
            "attributes": [{"attribute": name, "part": part} for name, part in pairs],
            "rest": float(parts.sum() - parts[largest].sum()),
            "score": self.mean_ + item + user + float(parts.sum()),
        }

    def _learned_layout(self) -> dict[str, Cells]:
        numbers = {
            name: Cells(np.float64, (-1,))
            for name in ("item_effects", "user_effects", "value_effects", "shares")
        }
        return {
            **id_layout(VALUES, "text"),
            **numbers,
            "deviations": Cells(np.float32, (-1, -1)),
            "share_starts": Cells(np.int64, (-1,)),
            "share_values": Cells(np.int32, (-1,)),
        }

    def _learned_arrays(self) -> dict[str, np.ndarray]:
        arrays = {
            **id_arrays(VALUES, self.values_),
            "item_effects": self._item_effects,
            "user_effects": self._user_effects,
            "value_effects": self._value_effects,
            "shares": self._shares.data,
            "deviations": self._deviations,
            "share_starts": self._shares.indptr.astype(np.int64),
            "share_values": self._shares.indices.astype(np.int32),
        }
        return {name: arrays[name] for name in self._learned_layout()}

    def _restore_learned(self, arrays: dict[str, np.ndarray]) -> None:
        self.values_ = ids_from(VALUES, {n: a for n, a in arrays.items() if n.startswith(VALUES)})
        users, items, width = len(self.users_), len(self.catalogue_), self.values_.size
        starts, at, data = arrays["share_starts"], arrays["share_values"], arrays["shares"]
        sound = (
            arrays["item_effects"].size == items
            and arrays["user_effects"].size == users
            and arrays["value_effects"].size == width
            and arrays["deviations"].shape == (items, width)
            and starts.size == users + 1
            and starts[0] == 0
            and starts[-1] == at.size == data.size
            and (np.diff(starts) >= 0).all()
            and (at >= 0).all()
            and (at < width).all()
            and all(np.isfinite(a).all() for a in arrays.values() if a.dtype.kind == "f")
        )
        if not sound:
            raise ValueError("effects must fit users, items and attribute values.")
        self._shares = sp.csr_matrix((data, at, starts), (users, width))
        for name in ("item_effects", "user_effects", "value_effects", "deviations"):
            setattr(self, f"_{name}", arrays[name])

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "dampings": self.dampings_}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        dampings = state["dampings"]
        sound = isinstance(dampings, dict) and "users" in dampings
        if not sound or not all(isinstance(v, float) and v > 0 for v in dampings.values()):
            raise ValueError("dampings must be numbers above 0.")
        self.dampings_ = dampings


def _categories_of(owner: str, name: str, features: Features) -> Features:
    """Return the features; raise ValueError if no categorical column has a value."""
    if not any(column.values.size for column in features.categories.values()):
        raise ValueError(
            f"{owner}: {name} must have categories with values; give Features(ids, categories=)."
        )
    return features


def _width(table: sp.csr_matrix) -> int:
    return int(table.shape[1])


def _shares_of(features: Features, catalogue: Catalogue) -> dict[str, sp.csr_matrix]:
    """Return the fractions of the values of each id of a catalogue, by column.

    Columns of few values come first: their effects rest on more ratings.
    """
    at = features.positions(catalogue.ids)
    chosen = np.flatnonzero(at >= 0)
    part = features.take(at[chosen])
    tables = {}
    filled = {name: each for name, each in part.categories.items() if each.values.size}
    for name, column in sorted(filled.items(), key=lambda each: each[1].values.size):
        table = fractions(column.starts, column.codes, column.values.size)
        tables[name] = placed(table, chosen, len(catalogue))
    return tables


def _names_of(features: Features, tables: dict[str, sp.csr_matrix]) -> np.ndarray:
    """Return the names of all values, in the order of the tables."""
    values = {name: features.categories[name].values for name in tables}
    return np.array([f"{name}: {value}" for name in tables for value in values[name]], object)
