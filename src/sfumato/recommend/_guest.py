"""Somebody who is in no profile: whose profiles are most like a list of items."""

from typing import Any

import numpy as np

from sfumato.kernels import largest
from sfumato.recommend._crowd import BLOCK, memberships, parts
from sfumato.sketch._ids import unique

__all__ = ["nearest_to"]


def nearest_to(
    profiles: Any, items: np.ndarray, n: int, measure: str
) -> tuple[np.ndarray, np.ndarray]:
    """The rows most like somebody who has these items, (1, n), and how alike they are.

    Profiles that know it exactly have `nearest_to`; of released ones the items in common are the
    sum of their memberships, and the rest follows from `estimate_size`.
    """
    if items.size and hasattr(profiles, "nearest_to"):
        found, near = profiles.nearest_to(items, n, measure=measure)
        return np.asarray(found), np.asarray(near)
    places, scores = np.full((1, n), -1, np.int64), np.full((1, n), -np.inf)
    if items.size:
        largest.largest(_alike(profiles, unique(items), measure)[None], places, scores)
    return places, scores


def _alike(profiles: Any, items: np.ndarray, measure: str) -> np.ndarray:
    rows = np.arange(len(profiles.users_))
    common = np.zeros(rows.size)
    for part in parts(rows, max(1, BLOCK // items.size)):
        common[part] = memberships(profiles, items, part).sum(axis=1)
    if measure == "inner":
        return common
    # Noise may put a size near 0, which would make everything alike.
    sizes = np.maximum(np.nan_to_num(profiles.estimate_size(), nan=1.0), 1.0)
    if measure == "jaccard":
        alike = common / np.maximum(sizes + items.size - common, 1.0)
    else:
        alike = common / np.sqrt(sizes * items.size)
    return np.asarray(np.clip(alike, 0.0, 1.0))
