"""Damped means: the baseline of every table, from which a model must be told apart."""

from typing import Any, Self

import numpy as np
import pyarrow as pa

from sfumato.core.ids import as_ids
from sfumato.core.typing import Ids
from sfumato.core.validation import between
from sfumato.data.interactions import Interactions

__all__ = ["DampedMeans"]


class DampedMeans:
    """A rating as the mean of all, plus what the item and what the user deviate from it.

    Parameters
    ----------
    damping : float, default=5.0
        Ratings at the mean that each user and item is taken to have given before. Learned: mean_,
        user_ids_, user_means_, item_ids_, item_means_ (the deviations).

    Notes
    -----
    **Guarantee.** First b_i = sum of (r - mean) / (damping + n_i) over the n_i ratings of an item,
    then b_u likewise of what r - mean - b_i leaves; a deviation of n ratings is shrunk by n / (n +
    damping). Who or what was not seen deviates by 0. Predictions are not cut to bounds.

    References
    ----------
    .. [1] Koren 2010, "Factor in the Neighbors", baseline estimates, with one damping for both.

    Examples
    --------
    >>> seen = Interactions(users=[1, 1, 2], items=["tea", "rum", "tea"], ratings=[5, 3, 4])
    >>> DampedMeans(damping=0).fit(seen).predict([2, 9], ["rum", "rum"])
    array([2.5, 3. ])
    """

    def __init__(self, *, damping: float = 5.0) -> None:
        self.damping = damping

    def __repr__(self) -> str:
        return f"DampedMeans(damping={self.damping!r})"

    def fit(self, interactions: Interactions) -> Self:
        """Learn from these ratings alone.

        Parameters
        ----------
        interactions : Interactions
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        damping = between(0, float("inf")).check("DampedMeans", "damping", self.damping)
        if not len(interactions):
            raise ValueError("DampedMeans: there are no ratings to learn from; give at least one.")
        codes = interactions.coded()
        mean = float(interactions.ratings.mean())
        rest = interactions.ratings - mean
        items = _damped(codes.item_codes, rest, damping)
        users = _damped(codes.user_codes, rest - items[codes.item_codes], damping)
        self.mean_ = mean
        self.item_ids_, self.item_means_ = _by_id(codes.item_ids, items)
        self.user_ids_, self.user_means_ = _by_id(codes.user_ids, users)
        return self

    @property
    def nbytes(self) -> int:
        """Bytes of all ids, texts with their ends, and of all deviations."""
        self._check_fitted()
        ids = _bytes(self.user_ids_) + _bytes(self.item_ids_)
        return int(ids + self.user_means_.nbytes + self.item_means_.nbytes)

    def _check_fitted(self) -> None:
        if not hasattr(self, "mean_"):
            raise ValueError("DampedMeans: fit it first.")

    def predict(self, users: Ids, items: Ids) -> np.ndarray:
        """mean_ + deviation of the item + deviation of the user, for columns of one length.

        Parameters
        ----------
        users : array_like or scalar
            TODO.
        items : array_like or scalar
            TODO.

        Returns
        -------
        ndarray
            TODO.
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
    return np.asarray(np.bincount(codes, values) / (damping + np.bincount(codes)))


def _bytes(ids: np.ndarray) -> int:
    # An array of objects counts its pointers alone.
    return int(ids.nbytes if ids.dtype == np.int64 else pa.array(ids, pa.large_string()).nbytes)


def _by_id(ids: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(ids)
    return ids[order], means[order]


def _looked_up(wanted: Any, ids: np.ndarray, means: np.ndarray, name: str) -> np.ndarray:
    plain = wanted if isinstance(wanted, np.ndarray) else wanted.to_numpy()
    if plain.size and plain.dtype != ids.dtype:
        kinds = ["integers" if each.dtype == np.int64 else "texts" for each in (ids, plain)]
        raise TypeError(f"DampedMeans: {name} were {kinds[0]} in fit, and are {kinds[1]} now.")
    positions = np.minimum(np.searchsorted(ids, plain), ids.size - 1)
    return np.where(ids[positions] == plain, means[positions], 0.0)
