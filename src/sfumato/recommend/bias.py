"""Damped means: the baseline that every recommender is compared with."""

from typing import Any, Self

import numpy as np
import pyarrow as pa

from sfumato.core.ids import as_ids
from sfumato.core.typing import Ids
from sfumato.core.validation import between
from sfumato.data.interactions import Interactions
from sfumato.recommend.base import check_has_ratings

__all__ = ["DampedMeans"]


class DampedMeans:
    """Baseline predictor: global mean plus shrunken item and user deviations.

    Parameters
    ----------
    damping : float, default=5.0
        Shrinkage, at least 0: the number of prior ratings, equal to the mean, that every user and
        item is given.

    Attributes
    ----------
    mean_ : float
        Mean of all ratings.
    item_ids_ : ndarray of shape (n_items,)
        Item ids, sorted.
    item_means_ : ndarray of shape (n_items,)
        Deviation of each item.
    user_ids_ : ndarray of shape (n_users,)
        User ids, sorted.
    user_means_ : ndarray of shape (n_users,)
        Deviation of each user.

    Notes
    -----
    **Guarantee.** The deviation of an item with n ratings is `sum(r - mean_) / (damping + n)`; that
    of a user is the same of the residuals `r - mean_ - item deviation`. So a mean deviation over n
    ratings is shrunk by `n / (n + damping)`. Unknown users and items have deviation 0. Predictions
    are not clipped to the range of the ratings. Not differentially private.

    References
    ----------
    .. [1] Koren. "Factor in the Neighbors: Scalable and Accurate Collaborative Filtering". ACM TKDD
       2010, baseline estimates; here with one damping for users and items.
       https://doi.org/10.1145/1644873.1644874

    Examples
    --------
    >>> ratings = Interactions(users=[1, 1, 2], items=["tea", "rum", "tea"], ratings=[5, 3, 4])
    >>> DampedMeans(damping=0).fit(ratings).predict([2, 9], ["rum", "rum"])
    array([2.5, 3. ])
    """

    def __init__(self, *, damping: float = 5.0) -> None:
        self.damping = damping

    def __repr__(self) -> str:
        return f"DampedMeans(damping={self.damping!r})"

    def fit(self, interactions: Interactions) -> Self:
        """Compute the mean and all deviations.

        Parameters
        ----------
        interactions : Interactions
            Ratings, at least one.

        Returns
        -------
        Self
            The object itself.
        """
        damping = between(0, float("inf")).check("DampedMeans", "damping", self.damping)
        if not len(interactions):
            raise ValueError("DampedMeans: there are no ratings to learn from; give at least one.")
        check_has_ratings("DampedMeans", interactions, "interactions")
        codes = interactions.coded()
        mean = float(interactions.ratings.mean())
        residuals = interactions.ratings - mean
        items = _damped(codes.item_codes, residuals, damping)
        users = _damped(codes.user_codes, residuals - items[codes.item_codes], damping)
        self.mean_ = mean
        self.item_ids_, self.item_means_ = _by_id(codes.item_ids, items)
        self.user_ids_, self.user_means_ = _by_id(codes.user_ids, users)
        return self

    @property
    def nbytes(self) -> int:
        """Size of all ids and deviations in bytes."""
        self._check_fitted()
        ids = _bytes(self.user_ids_) + _bytes(self.item_ids_)
        return int(ids + self.user_means_.nbytes + self.item_means_.nbytes)

    def _check_fitted(self) -> None:
        """Raise ValueError before `fit`."""
        if not hasattr(self, "mean_"):
            raise ValueError("DampedMeans: fit it first.")

    def predict(self, users: Ids, items: Ids) -> np.ndarray:
        """Predict the rating of each user for the corresponding item.

        Parameters
        ----------
        users : array_like or scalar
            User ids, of the kind (integers or text) given to `fit`.
        items : array_like or scalar
            Item ids, as many as users.

        Returns
        -------
        ndarray of shape (n,)
            `mean_` plus the deviations of user and item.
        """
        self._check_fitted()
        deviations = [
            _looked_up(as_ids(users, "users"), self.user_ids_, self.user_means_, "users"),
            _looked_up(as_ids(items, "items"), self.item_ids_, self.item_means_, "items"),
        ]
        if deviations[0].size != deviations[1].size:
            raise ValueError(
                f"DampedMeans: users and items differ in length, {deviations[0].size} and "
                f"{deviations[1].size}."
            )
        return np.asarray(self.mean_ + deviations[0] + deviations[1])


def _damped(codes: np.ndarray, values: np.ndarray, damping: float) -> np.ndarray:
    """Return the damped mean of the values of each code."""
    return np.asarray(np.bincount(codes, values) / (damping + np.bincount(codes)))


def _bytes(ids: np.ndarray) -> int:
    # An array of objects counts its pointers alone.
    """Return the size of a column of ids, including the characters of texts."""
    return int(ids.nbytes if ids.dtype == np.int64 else pa.array(ids, pa.large_string()).nbytes)


def _by_id(ids: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ids and means sorted by id."""
    order = np.argsort(ids)
    return ids[order], means[order]


def _looked_up(wanted: Any, ids: np.ndarray, means: np.ndarray, name: str) -> np.ndarray:
    """Return the mean of each wanted id, 0 if unknown; raise TypeError for another kind of id."""
    plain = wanted if isinstance(wanted, np.ndarray) else wanted.to_numpy()
    if plain.size and plain.dtype != ids.dtype:
        kinds = ["integers" if each.dtype == np.int64 else "texts" for each in (ids, plain)]
        raise TypeError(f"DampedMeans: {name} were {kinds[0]} in fit, and are {kinds[1]} now.")
    positions = np.minimum(np.searchsorted(ids, plain), ids.size - 1)
    return np.where(ids[positions] == plain, means[positions], 0.0)
