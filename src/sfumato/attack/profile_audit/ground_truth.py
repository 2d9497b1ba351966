"""True profiles as a table, and what an attacker knows of them from others: priors of items, sizes.

Ids are found by their text, so that 7 and "7" are one item, as in released profiles.

Shares of items among users, when only some users were seen: a beta law fitted to all items.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sfumato.core.ids import ids_of, positions_by_text, unique
from sfumato.core.tables import described
from sfumato.core.typing import Ids
from sfumato.data.interactions import Interactions

__all__ = [
    "GroundTruth",
    "SizePrior",
    "distinct_ids",
    "item_prior",
    "profiles",
    "size_prior",
    "smoothed_shares",
    "truth_matrix",
]

ENOUGH = 20  # users and items, below which there is no law to fit
LARGEST = 14.0  # of |log a| and |log b|: counts without a spread would drive them on for ever


def smoothed_shares(counts: np.ndarray, users: int) -> np.ndarray:
    """The expected share of each item among all users, given how many of some users have it.

    Guarantee: above 0 and below 1: (count + a) / (users + a + b), the mean after a beta(a, b) law
    of shares. a and b make the counts of all items likeliest; of fewer than 20 users or items a is
    the mean share and a + b is 1, so that the law weighs as much as one user.

    >>> smoothed_shares(np.array([2, 1, 0]), 2).round(3)  # a = 4 / 8
    array([0.833, 0.5  , 0.167])
    """
    a = (counts.sum() + 1) / (users * counts.size + 2)
    b = 1 - a
    if users >= ENOUGH and counts.size >= ENOUGH:
        a, b = _likeliest(counts, users, a, b)
    return np.asarray((counts + a) / (users + a + b))


def _likeliest(counts: np.ndarray, users: int, a: float, b: float) -> tuple[float, float]:
    """The likeliest a and b of a beta-binomial law, by descent from these on, over their logs."""
    from scipy.optimize import minimize
    from scipy.special import betaln, digamma

    seen, times = np.unique(counts, return_counts=True)

    def surprise(logs: np.ndarray) -> tuple[float, np.ndarray]:
        a, b = np.exp(logs)
        found = times @ (betaln(seen + a, users - seen + b) - betaln(a, b))
        all_of = counts.size * (digamma(users + a + b) - digamma(a + b))
        up = times @ (digamma(seen + a) - digamma(a)) - all_of
        down = times @ (digamma(users - seen + b) - digamma(b)) - all_of
        return -found / counts.size, -np.array([a * up, b * down]) / counts.size

    ends = [(-LARGEST, LARGEST)] * 2
    found = minimize(
        surprise,
        np.log([a, b]),
        jac=True,
        method="L-BFGS-B",
        bounds=ends,
        options={"ftol": 1e-14, "gtol": 1e-9},
    )
    a, b = np.exp(found.x).tolist()
    return a, b


class GroundTruth(NamedTuple):
    """Which candidates are in which profile, and how many more items it has.

    present: booleans, users x candidates; outside: for each user the items that are no candidates.

    Parameters
    ----------
    present : ndarray
        TODO.
    outside : ndarray
        TODO.
    """

    present: np.ndarray
    outside: np.ndarray

    def __repr__(self) -> str:
        return described(
            self, **dict(zip(("users", "candidates"), self.present.shape, strict=True))
        )

    @property
    def sizes(self) -> np.ndarray:
        """The items of each profile, candidates or not."""
        return np.asarray(self.present.sum(axis=1) + self.outside)


@dataclass(frozen=True)
class SizePrior:
    """The sizes of known profiles: `sizes` that occur, rising, `chances` of each, and their mean.

    Parameters
    ----------
    sizes : ndarray
        TODO.
    chances : ndarray
        TODO.

    Examples
    --------
    >>> prior = size_prior(Interactions([1, 1, 2], ["tea", "rum", "tea"], [1, 1, 1]))
    >>> prior.sizes, prior.chances, prior.mean
    (array([1, 2]), array([0.5, 0.5]), 1.5)
    """

    sizes: np.ndarray
    chances: np.ndarray

    def __repr__(self) -> str:
        return f"SizePrior(mean={self.mean:.6g}, sizes={self.sizes.size})"

    @property
    def mean(self) -> float:
        """TODO."""
        return float(self.sizes @ self.chances)

    def to_dict(self) -> dict[str, Any]:
        """The law as plain JSON values.

        Returns
        -------
        dict
            The law as plain JSON values.
        """
        return {
            "mean": self.mean,
            "sizes": self.sizes.tolist(),
            "chances": self.chances.tolist(),
        }


def truth_matrix(interactions: Interactions, users: Ids, candidates: Ids) -> GroundTruth:
    """The true profiles of these users: which candidates they have, and how many other items.

    interactions;

    Parameters
    ----------
    interactions : Interactions
        TODO.
    users : array_like or scalar
        Columns of distinct ids.
    candidates : array_like or scalar
        Columns of distinct ids.

    Returns
    -------
    GroundTruth
        The true profiles of these users: which candidates they have, and how many other items.

    Notes
    -----
    **Guarantee.** An item that occurs twice counts once; a user without rows has an empty profile;
    rows of other users are left out.

    Examples
    --------
    >>> had = Interactions([1, 1, 1, 2], ["tea", "rum", "tea", "ale"], [1, 1, 1, 1])
    >>> truth = truth_matrix(had, [2, 1], ["tea", "milk"])
    >>> truth.present.tolist(), truth.outside
    ([[False, False], [True, False]], array([1, 1]))
    """
    users = distinct_ids("truth_matrix", "users", users)
    candidates = distinct_ids("truth_matrix", "candidates", candidates)
    of, items, ids = profiles(interactions, users)
    place = positions_by_text(ids, candidates)[items]
    inside = place >= 0
    present = np.zeros((users.size, candidates.size), bool)
    present[of[inside], place[inside]] = True
    return GroundTruth(present, np.bincount(of[~inside], minlength=users.size))


def item_prior(interactions: Interactions, candidates: Ids, users: Ids | None = None) -> np.ndarray:
    """How likely each candidate is in a profile, from those of known users.

    interactions of known users;

    Parameters
    ----------
    interactions : Interactions
        TODO.
    candidates : array_like or scalar
        A column of distinct ids.
    users : array_like, scalar or None, default=None
        The known users where some have no rows or some rows are not to be used, None for all who
        occur.

    Returns
    -------
    ndarray
        How likely each candidate is in a profile, from those of known users.

    Notes
    -----
    **Guarantee.** Above 0 and below 1. An item that k of n known users have gets (k + a) / (n + a +
    b), the mean of its share after a beta law that is fitted to all candidates, so that items
    nobody known has keep the chance that such items have (where many are new, that matters).

    Examples
    --------
    >>> had = Interactions([1, 1, 2], ["tea", "rum", "tea"], [1, 1, 1])
    >>> item_prior(had, ["tea", "rum", "ale"]).round(3)
    array([0.833, 0.5  , 0.167])
    """
    owner = "item_prior"
    known = _known(owner, interactions, users)
    candidates = distinct_ids(owner, "candidates", candidates)
    _, items, ids = profiles(interactions, known)
    place = positions_by_text(ids, candidates)[items]
    counts = np.bincount(place[place >= 0], minlength=candidates.size)
    return smoothed_shares(counts, known.size)


def size_prior(interactions: Interactions, users: Ids | None = None) -> SizePrior:
    """How many items the profiles of known users have: the law of (3.8), as it was seen.

    interactions and users as of `item_prior`; at least one user. With `occupancy` of `bounds`,
    (3.8) is prior.chances @ occupancy(bits, hashes, prior.sizes); its sum begins at an empty
    profile, which sets no bit.

    Parameters
    ----------
    interactions : Interactions
        TODO.
    users : array_like, scalar or None, default=None
        TODO.

    Returns
    -------
    SizePrior
        How many items the profiles of known users have: the law of (3.8), as it was seen.

    Examples
    --------
    >>> size_prior(Interactions([1, 1], ["tea", "tea"], [1, 1]), users=[1, 2]).mean
    0.5
    """
    known = _known("size_prior", interactions, users)
    if not known.size:
        raise ValueError("size_prior: users must be at least one.")
    of, _, _ = profiles(interactions, known)
    sizes, counts = np.unique(np.bincount(of, minlength=known.size), return_counts=True)
    return SizePrior(sizes, counts / known.size)


def profiles(
    interactions: Interactions, users: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each item of each of these users once: place of the user, place of the item, items' ids."""
    coded = interactions.coded()
    of = positions_by_text(coded.user_ids, users)[coded.user_codes]
    kept = of >= 0
    items = max(coded.item_ids.size, 1)
    pairs = np.unique(of[kept] * items + coded.item_codes[kept])
    return pairs // items, pairs % items, coded.item_ids


def distinct_ids(owner: str, name: str, ids: Any) -> np.ndarray:
    """A column of ids, refused where one occurs twice."""
    column = ids_of(ids, name)
    if unique(column).size != column.size:
        raise ValueError(f"{owner}: {name} must be distinct ids.")
    return column


def _known(owner: str, interactions: Interactions, users: Any) -> np.ndarray:
    return interactions.coded().user_ids if users is None else distinct_ids(owner, "users", users)
