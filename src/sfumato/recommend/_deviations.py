"""Ratings from neighbours: damped means, and by how much users who are alike departed from them."""

from dataclasses import dataclass

import numpy as np

from sfumato.data.means import DampedMeans
from sfumato.recommend._profiles import RawProfiles

__all__ = ["Deviations"]

DAMPING = 5.0  # neighbours of mean weight who are taken to have rated as the means say


@dataclass(frozen=True)
class Deviations:
    """left: what the damped means leave of each rating; low and high: the bounds of the ratings."""

    profiles: RawProfiles
    means: DampedMeans
    left: np.ndarray
    low: float
    high: float

    @classmethod
    def of(cls, profiles: RawProfiles) -> "Deviations":
        told = profiles.interactions
        means = DampedMeans().fit(told)
        left = told.ratings - means.predict(told.users, told.items)
        return cls(profiles, means, left, float(told.ratings.min()), float(told.ratings.max()))

    def expected(self, rows: np.ndarray, weights: np.ndarray, items: np.ndarray) -> np.ndarray:
        """The damped mean of the neighbours' deviations, 0 where none of them rated the item."""
        over = self.profiles.sums(rows, weights, items, self.left)
        raters = self.profiles.sums(rows, weights, items)
        before = DAMPING * (weights**2).sum(axis=1, keepdims=True)
        return np.asarray(np.divide(over, raters + before, out=over, where=raters > 0))

    def predicted(self, users: np.ndarray, items: np.ndarray, over: np.ndarray) -> np.ndarray:
        """The ratings of users for the items beside them, given what neighbours add."""
        told = self.means.predict(users, items) + over
        return np.asarray(np.clip(told, self.low, self.high))
