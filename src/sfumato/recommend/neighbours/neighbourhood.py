"""Neighbourhoods: nearest profiles and their weights, also for new users."""

from typing import Any

import numpy as np

from sfumato.core.arrays import top_n
from sfumato.core.ids import kind_of, unique
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.neighbours.popularity_shrinkage import BLOCK, memberships, parts
from sfumato.recommend.neighbours.profiles import Profiles, RawProfiles

__all__ = [
    "catalogue_of",
    "checked_profiles",
    "most",
    "nearest_to",
    "neighbours",
    "weighed",
]

Near = tuple[np.ndarray, np.ndarray]


def neighbours(profiles: Profiles, rows: np.ndarray, settings: dict[str, Any]) -> Near:
    """Return the rows of each row's neighbours, -1 for none, and their weights, which sum to 1.

    A row of -1 is an unknown user, without neighbours.
    """
    count = most(profiles, settings)
    found, near = np.full((rows.size, count), -1, np.int64), np.full((rows.size, count), -np.inf)
    there = rows >= 0
    if there.any():
        nearest = profiles.nearest_rows(rows[there], count, metric=settings["metric"])
        found[there], near[there] = nearest
    return weighed(found, near, settings)


def weighed(found: np.ndarray, near: np.ndarray, settings: dict[str, Any]) -> Near:
    """Return the nearest rows that are similar enough, and their weights, 0 for all others."""
    least = -np.inf if settings["threshold"] is None else settings["threshold"]
    with np.errstate(invalid="ignore"):  # NaN is no similarity
        chosen = (found >= 0) & (near > 0) & (near >= least) & (near < np.inf)
    # Noise may put estimates of cosine and Jaccard above 1, the largest similarity.
    similarity = near if settings["metric"] == "inner" else np.minimum(near, 1.0)
    weights = np.where(chosen, similarity if settings["weighting"] == "similarity" else 1.0, 0.0)
    sums = weights.sum(axis=1, keepdims=True)
    return np.where(chosen, found, -1), np.divide(weights, sums, out=weights, where=sums > 0)


def most(profiles: Profiles, settings: dict[str, Any]) -> int:
    """Return the largest number of neighbours: as configured, at most all other users."""
    others = max(len(profiles.users_) - 1, 1)
    return others if settings["neighbours"] is None else min(int(settings["neighbours"]), others)


def checked_profiles(owner: str, profiles: Any, settings: dict[str, Any]) -> Any:
    """Return the profiles; raise if they are none, empty, or do not support the settings."""
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
            if settings[name] == raw:
                raise ValueError(
                    f"{owner}: {name} must be {other} for released profiles, which hold no "
                    f"ratings, not {raw!r}."
                )
    return profiles


def catalogue_of(owner: str, profiles: Any, catalogue: Any) -> Catalogue:
    """Return the items that may be recommended; those of the profiles only if these are raw."""
    raw = isinstance(profiles, RawProfiles)
    if catalogue is None:
        if not raw:
            raise ValueError(
                f"{owner}: catalogue must be given for released profiles, a public column of ids: "
                "a release does not list its items."
            )
        return Catalogue(profiles.items_)
    items = catalogue if isinstance(catalogue, Catalogue) else Catalogue(catalogue)
    if raw and items.kind != kind_of(profiles.items_):
        raise TypeError(
            f"{owner}: catalogue holds {items.kind}, but items of the data are "
            f"{kind_of(profiles.items_)}; none of them could be recommended."
        )
    return items


def nearest_to(
    profiles: Any, items: np.ndarray, n: int, metric: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows most similar to a user with these items, (1, n), and their similarities.

    Raw profiles compute it by their own `nearest_to`; for released ones the overlap is the sum of
    memberships, and sizes come from `estimate_size`.
    """
    if items.size and hasattr(profiles, "nearest_to"):
        found, near = profiles.nearest_to(items, n, metric=metric)
        return np.asarray(found), np.asarray(near)
    if not items.size:
        return np.full((1, n), -1, np.int64), np.full((1, n), -np.inf)
    return top_n(_similarities(profiles, unique(items), metric)[None], n)


def _similarities(profiles: Any, items: np.ndarray, metric: str) -> np.ndarray:
    """Return the estimated similarity of every profile to a set of items."""
    rows = np.arange(len(profiles.users_))
    common = np.zeros(rows.size)
    for part in parts(rows, max(1, BLOCK // items.size)):
        common[part] = memberships(profiles, items, part).sum(axis=1)
    if metric == "inner":
        return common
    # Noise may put a size near 0, which would make everything similar.
    sizes = np.maximum(np.nan_to_num(profiles.estimate_size(), nan=1.0), 1.0)
    if metric == "jaccard":
        similarity = common / np.maximum(sizes + items.size - common, 1.0)
    else:
        similarity = common / np.sqrt(sizes * items.size)
    return np.asarray(np.clip(similarity, 0.0, 1.0))
