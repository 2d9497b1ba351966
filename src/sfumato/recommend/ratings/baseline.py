"""Baseline: mean rating plus biases of users and items, damped as suits the data."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from sfumato.data.interactions import Coded
from sfumato.recommend.factorization.damping import BiasPrior
from sfumato.recommend.ratings.rated_rows import RatedRows

__all__ = ["Baseline"]

ROUNDS = 5  # of biases of items and of users in turn


@dataclass(frozen=True)
class Baseline:
    """Predictions ``mean + users[u] + items[i]``, the b_xi of neighbourhood models.

    A bias is the mean of what the other side leaves, damped by `BiasPrior`; biases of users are
    computed last, so that `user_bias` of the same ratings is equal.
    """

    mean: float
    users: np.ndarray
    items: np.ndarray
    user_damping: float

    @classmethod
    def of(cls, rows: RatedRows) -> Self:
        """Compute mean and biases."""
        who, what = rows.user_rows, rows.positions
        mean = float(rows.ratings.mean(dtype=np.float64))
        over = rows.ratings - mean
        prior = BiasPrior.of(Coded(who, what, rows.users.ids, np.arange(rows.items)), over)
        counts = np.bincount(what, minlength=rows.items) + prior.item_damping
        users = np.zeros(len(rows.users))
        for _ in range(ROUNDS):
            items = np.bincount(what, over - users[who], rows.items) / counts
            sums = np.bincount(who, over - items[what], users.size)
            users = sums / (np.diff(rows.starts) + prior.user_damping)
        return cls(mean, users, items, prior.user_damping)

    def at(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the predictions of pairs; a row or column of -1 has no bias."""
        users = np.where(rows >= 0, self.users[rows], 0.0)
        return np.asarray(self.mean + users + np.where(columns >= 0, self.items[columns], 0.0))

    def residuals(self, rows: RatedRows) -> np.ndarray:
        """Return what the predictions leave of all ratings, float32."""
        return np.asarray(
            (rows.ratings - self.at(rows.user_rows, rows.positions)).astype(np.float32)
        )

    def user_bias(self, positions: np.ndarray, ratings: np.ndarray) -> float:
        """Return the bias of a new user with these ratings, perhaps none."""
        over = ratings - self.mean - self.items[positions]
        return float(over.sum() / (positions.size + self.user_damping))
