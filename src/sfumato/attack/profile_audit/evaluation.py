"""How much of profiles an attack rebuilds, and how useful the release is that it was given.

How many of each user's nearest neighbours a release finds: what it is still useful for.
"""

import math
import warnings
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from sfumato.attack.profile_audit.ground_truth import (
    GroundTruth,
    SizePrior,
    item_prior,
    profiles,
    size_prior,
    truth_matrix,
)
from sfumato.core.deprecation import renamed_arguments
from sfumato.core.typing import Matrix
from sfumato.core.validation import integer, one_of
from sfumato.data.interactions import Interactions

__all__ = [
    "GroundTruth",
    "NeighbourRecall",
    "Reconstruction",
    "SizePrior",
    "item_prior",
    "neighbour_recall",
    "reconstruction",
    "size_prior",
    "truth_matrix",
]

METRICS = one_of(("cosine", "jaccard", "inner"))
K = integer(1, 2**20)


@dataclass(frozen=True)
class NeighbourRecall:
    """The share of true nearest neighbours that a release finds.

    recall: the mean over users; error: its standard error; chance: what n users picked at random
    would get; n; users, how many; recalls, of every user, not in `to_dict`.

    Parameters
    ----------
    recall : float
        TODO.
    error : float
        TODO.
    chance : float
        TODO.
    n : int
        TODO.
    users : int
        TODO.
    recalls : ndarray
        TODO.
    """

    recall: float
    error: float
    chance: float
    n: int
    users: int
    recalls: np.ndarray = field(repr=False, compare=False)

    @property
    def k(self) -> int:
        """The old name of `n`."""
        warnings.warn("NeighbourRecall: k is now called n.", DeprecationWarning, stacklevel=2)
        return self.n

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain JSON values; n is called k, as reports do.

        Returns
        -------
        dict
            The figures as plain JSON values; n is called k, as reports do.
        """
        names = ("recall", "error", "chance", "n", "users")
        return {"k" if name == "n" else name: getattr(self, name) for name in names}


@renamed_arguments(k="n", measure="metric")
def neighbour_recall(
    released: Any, interactions: Interactions, n: int = 10, metric: str = "cosine"
) -> NeighbourRecall:
    """How many of each user's n nearest on raw profiles are among the n nearest of the release.

    Thesis 3.5.4, with n = 10.

    Parameters
    ----------
    released : object
        Profiles whose `nearest_rows` is asked.
    interactions : Interactions
        The raw profiles.
    n : int, default=10
        Below the number of users.
    metric : str, default="cosine"
        "cosine", "jaccard" or "inner", for both. A place that the release leaves open, as at
        epsilon 0, finds nobody.

    Returns
    -------
    NeighbourRecall
        How many of each user's n nearest on raw profiles are among the n nearest of the release.

    Notes
    -----
    **Guarantee.** A user who is as near as the n-th nearest is as right as that one, but no more of
    them than there are places left. The standard error takes users as independent, though they are
    each other's neighbours.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> had = Interactions([1, 1, 2, 2, 3], ["tea", "rum", "tea", "rum", "ale"], [1] * 5)
    >>> mixed = SimpleNamespace(
    ...     users_=np.array([1, 2, 3]),
    ...     nearest_rows=lambda rows, n, *, metric: (np.array([[1], [2], [0]]), None))
    >>> told = neighbour_recall(mixed, had, n=1)
    >>> round(told.recall, 3), round(told.chance, 3)  # both others are as far from the third
    (0.667, 0.667)
    """
    owner = "neighbour_recall"
    users = np.asarray(released.users_)
    n = integer(1, max(users.size - 1, 1)).check(owner, "n", n)
    metric = METRICS.check(owner, "metric", metric)
    if users.size < 2:
        raise ValueError(f"{owner}: released must hold at least 2 users.")
    true = _Similarity(_matrix(interactions, users), metric)
    recalls, chances = np.empty(users.size), np.empty(users.size)
    step = max(1, CELLS // users.size)
    for start in range(0, users.size, step):
        rows = np.arange(start, min(start + step, users.size))
        found = np.asarray(released.nearest_rows(rows, n, metric=metric)[0])
        recalls[rows], chances[rows] = _recalls(true.of(rows), found, rows, n)
    error = float(recalls.std(ddof=1)) / math.sqrt(recalls.size)
    return NeighbourRecall(
        float(recalls.mean()), error, float(chances.mean()), n, users.size, recalls
    )


def _matrix(interactions: Interactions, users: np.ndarray) -> Any:
    """Users x items, 1 where the user has the item."""
    from scipy.sparse import csr_array

    of, items, ids = profiles(interactions, users)
    return csr_array((np.ones(of.size), (of, items)), shape=(users.size, max(ids.size, 1)))


class _Similarity:
    """Rows of a table compared with all of its rows, 0 where a profile is empty.

    Cosines are squared: a quotient of integers is the same float wherever it is the same
    fraction, so that ties are ties; a root would make some of them differ.
    """

    def __init__(self, matrix: Any, metric: str) -> None:
        self._matrix, self._metric = matrix, metric
        self._turned = matrix.T.tocsr()
        self._sizes = np.asarray(matrix.sum(axis=1)).ravel()

    def of(self, rows: np.ndarray) -> np.ndarray:
        """The similarity of these rows to all."""
        common = (self._matrix[rows] @ self._turned).toarray()
        if self._metric == "inner":
            return np.asarray(common)
        own, other = self._sizes[rows, None], self._sizes[None]
        if self._metric == "cosine":
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


CELLS = 1 << 22  # of a table at a time
RANKS = integer(1, 2**20)


@dataclass(frozen=True)
class Reconstruction:
    """How well profiles were rebuilt.

    cosine: (3.36), the mean over users, with cosine_low and cosine_high, its 10 % and 90 %
    quantiles, and cosine_error, the standard error of the mean; precision and recall of the rebuilt
    profiles, means over users who have such a figure; average_precision: (3.37) over `ranks` ranks,
    with its standard error; users, how many; cosines, of every user, not in `to_dict`.

    Parameters
    ----------
    cosine : float
        TODO.
    cosine_low : float
        TODO.
    cosine_high : float
        TODO.
    cosine_error : float
        TODO.
    precision : float
        TODO.
    recall : float
        TODO.
    average_precision : float
        TODO.
    average_precision_error : float
        TODO.
    ranks : int
        TODO.
    users : int
        TODO.
    cosines : ndarray
        TODO.
    """

    cosine: float
    cosine_low: float
    cosine_high: float
    cosine_error: float
    precision: float
    recall: float
    average_precision: float
    average_precision_error: float
    ranks: int
    users: int
    cosines: np.ndarray = field(repr=False, compare=False)

    def __repr__(self) -> str:
        cosine = f"cosine={self.cosine:.4g} +- {self.cosine_error:.2g}"
        found = f"precision={self.precision:.4g}, recall={self.recall:.4g}"
        average = f"average_precision={self.average_precision:.4g} at {self.ranks} ranks"
        return f"Reconstruction({cosine}, {found}, {average}, users={self.users})"

    @property
    def privacy(self) -> float:
        """1 - cosine: what 3.5.4 calls privacy, under the attack that was made."""
        return 1 - self.cosine

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain JSON values, None for those that do not exist.

        Returns
        -------
        dict
            The figures as plain JSON values, None for those that do not exist.
        """
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        del told["cosines"]
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in told.items()
        }


def reconstruction(scores: Matrix, truth: Any, sizes: Any, *, ranks: int = 10) -> Reconstruction:
    """How much of each profile is among its items of highest score, as many as it seems to have.

    Thesis (3.36), where |P| must be read as the norm of a vector of zeros and ones: the items in
    common over the root of the product of both sizes. (3.37) averages precision over all ranks, not
    only those of right items.

    Parameters
    ----------
    scores : array_like
        Users x candidates, higher for what is likelier in the profile, infinities allowed.
    truth : object
        A `GroundTruth`, or booleans in that shape.
    sizes : object
        How many items to take of each row (an estimate; it is rounded and cut to 0 and the number
        of candidates) or one number for all.
    ranks : int, default=10
        R in (3.37): beyond the last candidate nothing is found.

    Returns
    -------
    Reconstruction
        How much of each profile is among its items of highest score, as many as it seems to have.

    Notes
    -----
    **Guarantee.** Equal scores favour nobody: where a cut goes through candidates of one score,
    each of them is counted with the same share, so every figure is the mean over all ways to break
    the ties, and no chance is involved. Items outside the candidates cannot be found and count as
    missed. An empty profile that is rebuilt as empty has cosine 1.

    Examples
    --------
    >>> truth = np.array([[True, True, False, False]])
    >>> told = reconstruction([[0.9, 0.5, 0.5, 0.1]], truth, 2)
    >>> told.cosine, told.precision  # the first, and one of two, of which one is right
    (0.75, 0.75)
    """
    owner = "reconstruction"
    ranks = RANKS.check(owner, "ranks", ranks)
    table = _scores(owner, scores)
    right, outside = _right(owner, truth, table.shape)
    taken = _taken(owner, sizes, table.shape)
    true = right.sum(axis=1) + outside
    hits, precisions = _hits(table, right, taken, ranks)
    with np.errstate(divide="ignore", invalid="ignore"):
        cosines = np.where(
            (true == 0) | (taken == 0), (true == taken) * 1.0, hits / np.sqrt(true * taken)
        )
        precision, recall = hits / taken, hits / true
    return Reconstruction(
        *_spread(cosines),
        _mean(precision[taken > 0]),
        _mean(recall[true > 0]),
        _mean(precisions),
        _error(precisions),
        ranks,
        len(table),
        cosines,
    )


def _scores(owner: str, scores: Any) -> np.ndarray:
    table = np.asarray(scores)
    if table.ndim != 2 or not table.size or table.dtype.kind not in "biuf":
        raise ValueError(f"{owner}: scores must be a table of numbers, users x candidates.")
    if table.dtype.kind == "f" and np.isnan(table).any():
        row = int(np.isnan(table).any(axis=1).argmax())
        raise ValueError(f"{owner}: scores must be numbers, but one of row {row} is NaN.")
    return table.astype(np.float64, copy=False)


def _taken(owner: str, sizes: Any, shape: tuple[int, ...]) -> np.ndarray:
    given = np.asarray(sizes, np.float64)
    if given.shape not in ((), shape[:1]) or np.isnan(given).any():
        raise ValueError(
            f"{owner}: sizes must be a number, or one for each of {shape[0]} users, and not NaN; "
            "where a release tells no size, give the mean one of known profiles."
        )
    cut = np.clip(np.rint(given), 0, shape[1]).astype(np.int64)
    return np.broadcast_to(cut, shape[:1])


def _right(owner: str, truth: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    right, outside = truth if isinstance(truth, GroundTruth) else (np.asarray(truth), 0)
    if right.shape != shape or right.dtype != np.bool_:
        raise ValueError(f"{owner}: truth must be booleans in the shape of scores, {shape}.")
    return right, np.broadcast_to(outside, shape[0])


def _hits(
    scores: np.ndarray, right: np.ndarray, taken: np.ndarray, ranks: int
) -> tuple[np.ndarray, np.ndarray]:
    """Right items among those taken of each row, and the mean precision over the first ranks."""
    depth = min(max(int(taken.max()), ranks), scores.shape[1])
    hits, precisions = np.empty(len(scores)), np.empty(len(scores))
    step = max(1, CELLS // scores.shape[1])
    for start in range(0, len(scores), step):
        part = slice(start, start + step)
        found = np.zeros((len(scores[part]), depth + 1))  # right items among the first 0, 1, 2, ...
        np.cumsum(_shares(scores[part], right[part], depth), axis=1, out=found[:, 1:])
        hits[part] = np.take_along_axis(found, taken[part, None], axis=1)[:, 0]
        at = np.arange(1, ranks + 1)
        precisions[part] = (found[:, np.minimum(at, depth)] / at).mean(axis=1)
    return hits, precisions


def _shares(scores: np.ndarray, right: np.ndarray, depth: int) -> np.ndarray:
    """How likely each of the first so many ranks of a row holds a right item, over broken ties."""
    least = -scores
    order = np.argpartition(least, depth - 1, axis=1)[:, :depth]
    values = np.take_along_axis(least, order, axis=1)
    within_order = np.argsort(values, axis=1)
    order = np.take_along_axis(order, within_order, axis=1)
    values = np.take_along_axis(values, within_order, axis=1)
    shares = _tied_means(values, np.take_along_axis(right, order, axis=1).astype(np.float64))
    # Only the last run of equal scores may go on beyond the depth: its share is that of the row.
    last = least == values[:, -1:]
    share = (last & right).sum(axis=1) / last.sum(axis=1)
    return np.where(values == values[:, -1:], share[:, None], shares)


def _tied_means(values: np.ndarray, right: np.ndarray) -> np.ndarray:
    """In each row the mean over every run of equal values, at each of its places."""
    new = np.ones(values.shape, bool)
    new[:, 1:] = values[:, 1:] != values[:, :-1]
    starts = np.flatnonzero(new)
    lengths = np.diff(np.append(starts, new.size))
    means = np.add.reduceat(right.ravel(), starts) / lengths
    return np.repeat(means, lengths).reshape(values.shape)


def _spread(cosines: np.ndarray) -> tuple[float, float, float, float]:
    low, high = np.quantile(cosines, (0.1, 0.9))
    return _mean(cosines), float(low), float(high), _error(cosines)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else math.nan


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else math.nan
