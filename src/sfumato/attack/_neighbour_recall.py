"""How many of each user's nearest neighbours a release finds: what it is still useful for."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato._require import one_of, whole
from sfumato.attack._truth import profiles
from sfumato.data.interactions import Interactions

__all__ = ["NeighbourRecall", "neighbour_recall"]

MEASURES = one_of(("cosine", "jaccard", "inner"))
K = whole(1, 2**20)
CELLS = 1 << 22  # similarities at a time


@dataclass(frozen=True)
class NeighbourRecall:
    """The share of true nearest neighbours that a release finds.

    recall: the mean over users; error: its standard error; chance: what k users picked at random
    would get; k; users, how many; recalls, of every user, not in `to_dict`.
    """

    recall: float
    error: float
    chance: float
    k: int
    users: int
    recalls: np.ndarray = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain JSON values."""
        names = ("recall", "error", "chance", "k", "users")
        return {name: getattr(self, name) for name in names}


def neighbour_recall(
    released: Any, interactions: Interactions, k: int = 10, measure: str = "cosine"
) -> NeighbourRecall:
    """How many of each user's k nearest on raw profiles are among the k nearest of the release.

    Guarantee: a user who is as near as the k-th nearest is as right as that one, but no more of
    them than there are places left. The standard error takes users as independent, though they are
    each other's neighbours.
    Parameters: released, profiles whose `nearest_rows` is asked; interactions, the raw profiles;
    k, below the number of users; measure, "cosine", "jaccard" or "inner", for both. A place that
    the release leaves open, as at epsilon 0, finds nobody.

    >>> from types import SimpleNamespace
    >>> had = Interactions([1, 1, 2, 2, 3], ["tea", "rum", "tea", "rum", "ale"], [1] * 5)
    >>> mixed = SimpleNamespace(
    ...     users_=np.array([1, 2, 3]),
    ...     nearest_rows=lambda rows, n, *, measure: (np.array([[1], [2], [0]]), None))
    >>> told = neighbour_recall(mixed, had, k=1)
    >>> round(told.recall, 3), round(told.chance, 3)  # both others are as far from the third
    (0.667, 0.667)

    Thesis 3.5.4, with k = 10.
    """
    owner = "neighbour_recall"
    users = np.asarray(released.users_)
    k = whole(1, max(users.size - 1, 1)).check(owner, "k", k)
    measure = MEASURES.check(owner, "measure", measure)
    if users.size < 2:
        raise ValueError(f"{owner}: released must hold at least 2 users.")
    true = _Similarity(_matrix(interactions, users), measure)
    recalls, chances = np.empty(users.size), np.empty(users.size)
    step = max(1, CELLS // users.size)
    for start in range(0, users.size, step):
        rows = np.arange(start, min(start + step, users.size))
        found = np.asarray(released.nearest_rows(rows, k, measure=measure)[0])
        recalls[rows], chances[rows] = _recalls(true.of(rows), found, rows, k)
    error = float(recalls.std(ddof=1)) / math.sqrt(recalls.size)
    return NeighbourRecall(
        float(recalls.mean()), error, float(chances.mean()), k, users.size, recalls
    )


def _matrix(interactions: Interactions, users: np.ndarray) -> Any:
    """Users x items, 1 where the user has the item."""
    from scipy.sparse import csr_array

    of, items, ids = profiles(interactions, users)
    return csr_array((np.ones(of.size), (of, items)), shape=(users.size, max(ids.size, 1)))


class _Similarity:
    """Rows of a table compared with all of its rows, 0 where a profile is empty.

    Cosines are squared: a quotient of whole numbers is the same float wherever it is the same
    fraction, so that ties are ties; a root would make some of them differ.
    """

    def __init__(self, matrix: Any, measure: str) -> None:
        self._matrix, self._measure = matrix, measure
        self._turned = matrix.T.tocsr()
        self._sizes = np.asarray(matrix.sum(axis=1)).ravel()

    def of(self, rows: np.ndarray) -> np.ndarray:
        """The similarity of these rows to all."""
        common = (self._matrix[rows] @ self._turned).toarray()
        if self._measure == "inner":
            return np.asarray(common)
        own, other = self._sizes[rows, None], self._sizes[None]
        if self._measure == "cosine":
            return np.asarray(common**2 / np.maximum(own * other, 1))
        return np.asarray(common / np.maximum(own + other - common, 1))


def _recalls(
    similar: np.ndarray, found: np.ndarray, rows: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """The recall of each row, and what k others picked at random would get."""
    at = np.arange(rows.size)
    similar[at, rows] = -1.0  # nobody is their own neighbour
    least = -np.partition(-similar, k - 1, axis=1)[:, k - 1 : k]
    sure, tied = (similar > least).sum(axis=1), (similar == least).sum(axis=1)
    near = np.where(found >= 0, np.take_along_axis(similar, np.maximum(found, 0), axis=1), -1.0)
    right = (near > least).sum(axis=1)
    right = right + np.minimum((near == least).sum(axis=1), k - sure)
    chance = (k * sure / (similar.shape[1] - 1) + _capped(similar.shape[1] - 1, tied, k, sure)) / k
    return right / k, chance


def _capped(others: int, tied: np.ndarray, k: int, sure: np.ndarray) -> np.ndarray:
    """The mean of min(T, k - sure), T being how many of k random others are among the tied."""
    from scipy.special import gammaln

    def ways(n: Any, m: Any) -> Any:
        inside = (m >= 0) & (m <= n)
        n, m = np.where(inside, n, 1), np.where(inside, m, 0)
        return np.where(inside, gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1), -np.inf)

    drawn = np.arange(k + 1)
    tied, left = tied[:, None], (k - sure)[:, None]
    log = ways(tied, drawn) + ways(others - tied, k - drawn) - ways(others, k)
    return np.asarray((np.exp(log) * np.minimum(drawn, left)).sum(axis=1))
