"""Neighbourhoods: whom a user is compared with, who counts as a neighbour, and by how much.

Somebody who is in no profile: whose profiles are most like a list of items. Ratings from
neighbours: damped means, and by how much users who are alike departed from them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.core.arrays import top_n
from sfumato.core.ids import kind_of, unique
from sfumato.recommend.bias import DampedMeans
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.neighbours.popularity_shrinkage import BLOCK, memberships, parts
from sfumato.recommend.neighbours.profiles import Profiles, RawProfiles

__all__ = [
    "Deviations",
    "catalogue_of",
    "checked_profiles",
    "most",
    "nearest_to",
    "neighbours",
    "weighed",
]

Near = tuple[np.ndarray, np.ndarray]


def neighbours(profiles: Profiles, rows: np.ndarray, told: dict[str, Any]) -> Near:
    """The rows of the neighbours of each row, -1 for none, and their weights, which add up to 1.

    A row of -1 stands for somebody who is not in the profiles, and has no neighbours.
    """
    count = most(profiles, told)
    found, near = np.full((rows.size, count), -1, np.int64), np.full((rows.size, count), -np.inf)
    there = rows >= 0
    if there.any():
        asked = profiles.nearest_rows(rows[there], count, metric=told["metric"])
        found[there], near[there] = asked
    return weighed(found, near, told)


def weighed(found: np.ndarray, near: np.ndarray, told: dict[str, Any]) -> Near:
    """Of the nearest those who are alike enough, and their weights, 0 for all others."""
    least = -np.inf if told["threshold"] is None else told["threshold"]
    with np.errstate(invalid="ignore"):  # NaN is nobody's similarity
        chosen = (found >= 0) & (near > 0) & (near >= least) & (near < np.inf)
    # Noise puts estimates of cosine and Jaccard above 1, which nobody's similarity is.
    alike = near if told["metric"] == "inner" else np.minimum(near, 1.0)
    weights = np.where(chosen, alike if told["weighting"] == "similarity" else 1.0, 0.0)
    sums = weights.sum(axis=1, keepdims=True)
    return np.where(chosen, found, -1), np.divide(weights, sums, out=weights, where=sums > 0)


def most(profiles: Profiles, told: dict[str, Any]) -> int:
    """How many neighbours a user can have: as many as asked for, or as there are others."""
    others = max(len(profiles.users_) - 1, 1)
    return others if told["neighbours"] is None else min(int(told["neighbours"]), others)


def checked_profiles(owner: str, profiles: Any, told: dict[str, Any]) -> Any:
    """The profiles, or the sentence that says why they cannot be asked in this way."""
    if not isinstance(profiles, Profiles):
        raise TypeError(
            f"{owner}: train must be Interactions, RawProfiles or released profiles, not "
            f"{type(profiles).__name__}."
        )
    if not len(profiles.users_):
        raise ValueError(f"{owner}: train must have at least one profile, not 0.")
    if not isinstance(profiles, RawProfiles):
        for name, raw, other in (
            ("metric", "pearson", "cosine, jaccard or inner"),
            ("predicts", "ratings", "memberships"),
        ):
            if told[name] == raw:
                raise ValueError(
                    f"{owner}: {name} must be {other} for released profiles, which hold no "
                    f"ratings, not {raw!r}."
                )
    return profiles


def catalogue_of(owner: str, profiles: Any, catalogue: Any) -> Catalogue:
    """The items that may be recommended; those that occur only where the profiles are raw."""
    raw = isinstance(profiles, RawProfiles)
    if catalogue is None:
        if not raw:
            raise ValueError(
                f"{owner}: catalogue must be given for released profiles, a public column of ids: "
                "a release does not tell which items there are."
            )
        return Catalogue(profiles.items_)
    shelf = catalogue if isinstance(catalogue, Catalogue) else Catalogue(catalogue)
    if raw and shelf.kind != kind_of(profiles.items_):
        raise TypeError(
            f"{owner}: catalogue holds {shelf.kind}, but items of the data are "
            f"{kind_of(profiles.items_)}; none of them could be recommended."
        )
    return shelf


def nearest_to(
    profiles: Any, items: np.ndarray, n: int, metric: str
) -> tuple[np.ndarray, np.ndarray]:
    """The rows most like somebody who has these items, (1, n), and how alike they are.

    Profiles that know it exactly have `nearest_to`; of released ones the items in common are the
    sum of their memberships, and the rest follows from `estimate_size`.
    """
    if items.size and hasattr(profiles, "nearest_to"):
        found, near = profiles.nearest_to(items, n, metric=metric)
        return np.asarray(found), np.asarray(near)
    if not items.size:
        return np.full((1, n), -1, np.int64), np.full((1, n), -np.inf)
    return top_n(_alike(profiles, unique(items), metric)[None], n)


def _alike(profiles: Any, items: np.ndarray, metric: str) -> np.ndarray:
    rows = np.arange(len(profiles.users_))
    common = np.zeros(rows.size)
    for part in parts(rows, max(1, BLOCK // items.size)):
        common[part] = memberships(profiles, items, part).sum(axis=1)
    if metric == "inner":
        return common
    # Noise may put a size near 0, which would make everything alike.
    sizes = np.maximum(np.nan_to_num(profiles.estimate_size(), nan=1.0), 1.0)
    if metric == "jaccard":
        alike = common / np.maximum(sizes + items.size - common, 1.0)
    else:
        alike = common / np.sqrt(sizes * items.size)
    return np.asarray(np.clip(alike, 0.0, 1.0))


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
