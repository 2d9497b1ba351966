"""Neighbourhoods: whom a user is compared with, who counts as a neighbour, and by how much."""

from typing import Any

import numpy as np

from sfumato.recommend._catalogue import Catalogue
from sfumato.recommend._profiles import Profiles, RawProfiles
from sfumato.sketch._ids import kind_of

__all__ = ["checked_profiles", "most", "neighbours", "shelf_of", "weighed"]

Near = tuple[np.ndarray, np.ndarray]


def neighbours(profiles: Profiles, rows: np.ndarray, told: dict[str, Any]) -> Near:
    """The rows of the neighbours of each row, -1 for none, and their weights, which add up to 1.

    A row of -1 stands for somebody who is not in the profiles, and has no neighbours.
    """
    count = most(profiles, told)
    found, near = np.full((rows.size, count), -1, np.int64), np.full((rows.size, count), -np.inf)
    there = rows >= 0
    if there.any():
        asked = profiles.nearest_rows(rows[there], count, measure=told["measure"])
        found[there], near[there] = asked
    return weighed(found, near, told)


def weighed(found: np.ndarray, near: np.ndarray, told: dict[str, Any]) -> Near:
    """Of the nearest those who are alike enough, and their weights, 0 for all others."""
    least = -np.inf if told["threshold"] is None else told["threshold"]
    with np.errstate(invalid="ignore"):  # NaN is nobody's similarity
        chosen = (found >= 0) & (near > 0) & (near >= least) & (near < np.inf)
    # Noise puts estimates of cosine and Jaccard above 1, which nobody's similarity is.
    alike = near if told["measure"] == "inner" else np.minimum(near, 1.0)
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
            ("measure", "pearson", "cosine, jaccard or inner"),
            ("predicts", "ratings", "memberships"),
        ):
            if told[name] == raw:
                raise ValueError(
                    f"{owner}: {name} must be {other} for released profiles, which hold no "
                    f"ratings, not {raw!r}."
                )
    return profiles


def shelf_of(owner: str, profiles: Any, catalogue: Any) -> Catalogue:
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
