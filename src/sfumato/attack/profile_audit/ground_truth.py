"""True profiles as a matrix, and the priors that an attacker learns from known users.

Ids are matched by their text, so that 7 and "7" are one item, as in released profiles.
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
    "smoothed_proportions",
    "truth_matrix",
]

ENOUGH = 20  # users and items, below which no beta distribution is fitted
LARGEST = 14.0  # of |log a| and |log b|: counts without variance would make them diverge


def smoothed_proportions(counts: np.ndarray, users: int) -> np.ndarray:
    """Expected proportion of users with each item, given the counts among some users.

    Guarantee: above 0 and below 1: (count + a) / (users + a + b), the posterior mean under a
    beta(a, b) prior of proportions. a and b maximise the likelihood of the counts of all items.
    With fewer than 20 users or items, a is the mean proportion and a + b is 1: the prior weighs as
    much as one user.

    >>> smoothed_proportions(np.array([2, 1, 0]), 2).round(3)  # a = 4 / 8
    array([0.833, 0.5  , 0.167])
    """
    a = (counts.sum() + 1) / (users * counts.size + 2)
    b = 1 - a
    if users >= ENOUGH and counts.size >= ENOUGH:
        a, b = _likeliest(counts, users, a, b)
    return np.asarray((counts + a) / (users + a + b))


def _likeliest(counts: np.ndarray, users: int, a: float, b: float) -> tuple[float, float]:
    """Maximum-likelihood a and b of a beta-binomial distribution, by L-BFGS over their logs."""
    from scipy.optimize import minimize
    from scipy.special import betaln, digamma

    values, times = np.unique(counts, return_counts=True)

    def surprise(logs: np.ndarray) -> tuple[float, np.ndarray]:
        a, b = np.exp(logs)
        found = times @ (betaln(values + a, users - values + b) - betaln(a, b))
        all_of = counts.size * (digamma(users + a + b) - digamma(a + b))
        up = times @ (digamma(values + a) - digamma(a)) - all_of
        down = times @ (digamma(users - values + b) - digamma(b)) - all_of
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
    """True profiles of users: which candidates they contain, and how many other items.

    Returned by `truth_matrix`.

    Parameters
    ----------
    present : ndarray of shape (n_users, n_candidates)
        Booleans, True where the profile contains the candidate.
    outside : ndarray of shape (n_users,)
        Number of items of each profile that are not candidates.

    Examples
    --------
    >>> truth = GroundTruth(np.array([[True, False], [True, True]]), np.array([1, 0]))
    >>> truth.sizes
    array([2, 2])
    """

    present: np.ndarray
    outside: np.ndarray

    def __repr__(self) -> str:
        return described(
            self, **dict(zip(("users", "candidates"), self.present.shape, strict=True))
        )

    @property
    def sizes(self) -> np.ndarray:
        """Number of items of each profile, candidates or not."""
        return np.asarray(self.present.sum(axis=1) + self.outside)


@dataclass(frozen=True)
class SizePrior:
    """Distribution of the sizes of known profiles.

    Returned by `size_prior`.

    Parameters
    ----------
    sizes : ndarray of int
        Sizes that occur, in increasing order.
    chances : ndarray of float
        Probability of each size; they sum to 1.

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
        """Mean number of items of a profile."""
        return float(self.sizes @ self.chances)

    def to_dict(self) -> dict[str, Any]:
        """Convert the distribution to plain JSON values.

        Returns
        -------
        dict
            "mean", "sizes" and "chances".
        """
        return {
            "mean": self.mean,
            "sizes": self.sizes.tolist(),
            "chances": self.chances.tolist(),
        }


def truth_matrix(interactions: Interactions, users: Ids, candidates: Ids) -> GroundTruth:
    """Build the true profiles of users over a list of candidates.

    Parameters
    ----------
    interactions : Interactions
        Raw interactions.
    users : array_like or scalar
        Distinct ids of the users, one row each.
    candidates : array_like or scalar
        Distinct ids of the items, one column each.

    Returns
    -------
    GroundTruth
        Which candidates each user has, and the number of other items.

    Notes
    -----
    **Guarantee.** An item that occurs twice counts once; a user without rows has an empty profile;
    rows of other users are ignored.

    Examples
    --------
    >>> raw = Interactions([1, 1, 1, 2], ["tea", "rum", "tea", "ale"], [1, 1, 1, 1])
    >>> truth = truth_matrix(raw, [2, 1], ["tea", "milk"])
    >>> truth.present.tolist(), truth.outside
    ([[False, False], [True, False]], array([1, 1]))
    """
    users = distinct_ids("truth_matrix", "users", users)
    candidates = distinct_ids("truth_matrix", "candidates", candidates)
    of, items, ids = profiles(interactions, users)
    position = positions_by_text(ids, candidates)[items]
    inside = position >= 0
    present = np.zeros((users.size, candidates.size), bool)
    present[of[inside], position[inside]] = True
    return GroundTruth(present, np.bincount(of[~inside], minlength=users.size))


def item_prior(interactions: Interactions, candidates: Ids, users: Ids | None = None) -> np.ndarray:
    """Estimate the prior probability of each item from known users.

    Parameters
    ----------
    interactions : Interactions
        Interactions of known users.
    candidates : array_like or scalar
        Distinct ids of the items.
    users : array_like, scalar or None, default=None
        Known users, if some have no rows or some rows are to be ignored; None takes all who occur.

    Returns
    -------
    ndarray of shape (n_candidates,)
        Probability that a profile contains each candidate.

    Notes
    -----
    **Guarantee.** Above 0 and below 1. An item that k of n known users have gets (k + a) / (n + a +
    b), the posterior mean of its proportion under a beta prior that is fitted to all candidates. So
    an item that no known user has gets the probability that such items have on average.

    Examples
    --------
    >>> raw = Interactions([1, 1, 2], ["tea", "rum", "tea"], [1, 1, 1])
    >>> item_prior(raw, ["tea", "rum", "ale"]).round(3)
    array([0.833, 0.5  , 0.167])
    """
    owner = "item_prior"
    known = _known(owner, interactions, users)
    candidates = distinct_ids(owner, "candidates", candidates)
    _, items, ids = profiles(interactions, known)
    position = positions_by_text(ids, candidates)[items]
    counts = np.bincount(position[position >= 0], minlength=candidates.size)
    return smoothed_proportions(counts, known.size)


def size_prior(interactions: Interactions, users: Ids | None = None) -> SizePrior:
    """Compute the distribution of profile sizes among known users.

    Parameters
    ----------
    interactions : Interactions
        Interactions of known users.
    users : array_like, scalar or None, default=None
        Known users, at least one, if some have no rows or some rows are to be ignored; None takes
        all who occur.

    Returns
    -------
    SizePrior
        The empirical distribution of the number of distinct items.

    Notes
    -----
    With `occupancy` of `sfumato.attack.bounds`, the mean occupancy (3.8) of a Bloom filter is
    ``prior.chances @ occupancy(bits, hashes, prior.sizes)``. Its sum includes empty profiles, which
    set no bit.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.1, equation (3.8) (occupancy for random profile sizes).
       https://theses.hal.science/tel-01430156

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
    """Distinct (user, item) pairs of these users as positions, and the items' ids."""
    coded = interactions.coded()
    of = positions_by_text(coded.user_ids, users)[coded.user_codes]
    mask = of >= 0
    items = max(coded.item_ids.size, 1)
    pairs = np.unique(of[mask] * items + coded.item_codes[mask])
    return pairs // items, pairs % items, coded.item_ids


def distinct_ids(owner: str, name: str, ids: Any) -> np.ndarray:
    """A column of ids; ValueError if one occurs twice."""
    column = ids_of(ids, name)
    if unique(column).size != column.size:
        raise ValueError(f"{owner}: {name} must be distinct ids.")
    return column


def _known(owner: str, interactions: Interactions, users: Any) -> np.ndarray:
    """The known users: those given, else all who occur."""
    return interactions.coded().user_ids if users is None else distinct_ids(owner, "users", users)
