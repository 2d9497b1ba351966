"""Evaluation of attacks on profiles: reconstruction quality, and the utility of the release."""

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
    """Recall of true nearest neighbours in a release: a measure of its utility.

    Returned by `neighbour_recall`.

    Parameters
    ----------
    recall : float
        Mean over users of the fraction of true nearest neighbours that the release finds.
    error : float
        Standard error of `recall` over users.
    chance : float
        Expected recall of n users chosen at random.
    n : int
        Number of neighbours.
    users : int
        Number of users.
    recalls : ndarray of shape (n_users,)
        Recall of each user; not part of `to_dict`.

    Examples
    --------
    >>> NeighbourRecall(0.42, 0.03, 0.05, 10, 200, np.full(200, 0.42)).recall
    0.42
    """

    recall: float
    error: float
    chance: float
    n: int
    users: int
    recalls: np.ndarray = field(repr=False, compare=False)

    @property
    def k(self) -> int:
        """Deprecated name of `n`."""
        warnings.warn("NeighbourRecall: k is now called n.", DeprecationWarning, stacklevel=2)
        return self.n

    def to_dict(self) -> dict[str, Any]:
        """Convert the figures to plain JSON values.

        Returns
        -------
        dict
            One entry per parameter except `recalls`; n is under the key "k".
        """
        names = ("recall", "error", "chance", "n", "users")
        return {"k" if name == "n" else name: getattr(self, name) for name in names}


@renamed_arguments(k="n", measure="metric")
def neighbour_recall(
    released: Any, interactions: Interactions, n: int = 10, metric: str = "cosine"
) -> NeighbourRecall:
    """Measure how many true nearest neighbours of each user a release finds.

    Parameters
    ----------
    released : ReleasedProfiles
        Released profiles with a method `nearest_rows`, of at least 2 users.
    interactions : Interactions
        The raw interactions.
    n : int, default=10
        Number of neighbours, at least 1 and below the number of users.
    metric : {"cosine", "jaccard", "inner"}, default="cosine"
        Similarity, used for both raw and released profiles.

    Returns
    -------
    NeighbourRecall
        Mean recall with its standard error, and the expected recall of random users.

    Notes
    -----
    **Guarantee.** A user who is as similar as the n-th nearest counts as correct, but no more of
    these ties than remaining ranks. A neighbour that the release does not name, as at epsilon 0,
    counts as a miss. The standard error treats users as independent, though they are each other's
    neighbours.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.5.4 (utility of released profiles), with n = 10.
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> raw = Interactions([1, 1, 2, 2, 3], ["tea", "rum", "tea", "rum", "ale"], [1] * 5)
    >>> mixed = SimpleNamespace(
    ...     users_=np.array([1, 2, 3]),
    ...     nearest_rows=lambda rows, n, *, metric: (np.array([[1], [2], [0]]), None))
    >>> found = neighbour_recall(mixed, raw, n=1)
    >>> round(found.recall, 3), round(found.chance, 3)  # the third is equally far from both
    (0.667, 0.667)
    """
    owner = "neighbour_recall"
    users = np.asarray(released.users_)
    n = integer(1, max(users.size - 1, 1)).check(owner, "n", n)
    metric = METRICS.check(owner, "metric", metric)
    if users.size < 2:
        raise ValueError(f"{owner}: released must have at least 2 users.")
    true = _Similarity(_matrix(interactions, users), metric)
    recalls, by_chance = np.empty(users.size), np.empty(users.size)
    step = max(1, CELLS // users.size)
    for start in range(0, users.size, step):
        rows = np.arange(start, min(start + step, users.size))
        found = np.asarray(released.nearest_rows(rows, n, metric=metric)[0])
        recalls[rows], by_chance[rows] = _recalls(true.of(rows), found, rows, n)
    error = float(recalls.std(ddof=1)) / math.sqrt(recalls.size)
    return NeighbourRecall(
        float(recalls.mean()), error, float(by_chance.mean()), n, users.size, recalls
    )


def _matrix(interactions: Interactions, users: np.ndarray) -> Any:
    """Sparse users x items, 1 where the user has the item."""
    from scipy.sparse import csr_array

    of, items, ids = profiles(interactions, users)
    return csr_array((np.ones(of.size), (of, items)), shape=(users.size, max(ids.size, 1)))


class _Similarity:
    """Similarities of rows of a table with all of its rows, 0 where a profile is empty.

    Cosines are squared: a quotient of integers is the same float wherever it is the same fraction,
    so that ties are exact; a square root would make some of them differ.
    """

    def __init__(self, matrix: Any, metric: str) -> None:
        self._matrix, self._metric = matrix, metric
        self._turned = matrix.T.tocsr()
        self._sizes = np.asarray(matrix.sum(axis=1)).ravel()

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Similarity of these rows with all rows."""
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
    """Recall of each row, and the expected recall of k random others."""
    at = np.arange(rows.size)
    similar[at, rows] = -1.0  # a user is not their own neighbour
    least = -np.partition(-similar, k - 1, axis=1)[:, k - 1 : k]
    sure, tied = (similar > least).sum(axis=1), (similar == least).sum(axis=1)
    near = np.where(found >= 0, np.take_along_axis(similar, np.maximum(found, 0), axis=1), -1.0)
    right = (near > least).sum(axis=1)
    right = right + np.minimum((near == least).sum(axis=1), k - sure)
    others = similar.shape[1] - 1
    return right / k, (k * sure / others + _capped(others, tied, k, sure)) / k


def _capped(others: int, tied: np.ndarray, k: int, sure: np.ndarray) -> np.ndarray:
    """Mean of min(T, k - sure), where T is the number of k random others among the tied."""
    from scipy.special import gammaln

    def ways(n: Any, m: Any) -> Any:
        inside = (m >= 0) & (m <= n)
        n, m = np.where(inside, n, 1), np.where(inside, m, 0)
        return np.where(inside, gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1), -np.inf)

    drawn = np.arange(k + 1)
    tied, open_ = tied[:, None], (k - sure)[:, None]
    log = ways(tied, drawn) + ways(others - tied, k - drawn) - ways(others, k)
    return np.asarray((np.exp(log) * np.minimum(drawn, open_)).sum(axis=1))


CELLS = 1 << 22  # of a table at a time
RANKS = integer(1, 2**20)


@dataclass(frozen=True)
class Reconstruction:
    """Quality of reconstructed profiles.

    Returned by `reconstruction`.

    Parameters
    ----------
    cosine : float
        Mean cosine of true and reconstructed profiles over users, (3.36).
    cosine_low : float
        10 % quantile of the cosines.
    cosine_high : float
        90 % quantile of the cosines.
    cosine_error : float
        Standard error of `cosine`.
    precision : float
        Mean precision over users with a nonempty reconstruction; NaN if there is none.
    recall : float
        Mean recall over users with a nonempty profile; NaN if there is none.
    average_precision : float
        Mean precision over the first `ranks` ranks, mAP@R of (3.37).
    average_precision_error : float
        Standard error of `average_precision`.
    ranks : int
        Number of ranks of `average_precision`.
    users : int
        Number of users.
    cosines : ndarray of shape (n_users,)
        Cosine of each user; not part of `to_dict`.

    Examples
    --------
    >>> truth = np.array([[True, True, False, False], [True, False, False, True]])
    >>> reconstruction(truth.astype(float), truth, 2).cosine
    1.0
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
        """Privacy as defined in thesis section 3.5.4: 1 - cosine under this attack."""
        return 1 - self.cosine

    def to_dict(self) -> dict[str, Any]:
        """Convert the figures to plain JSON values.

        Returns
        -------
        dict
            One entry per parameter except `cosines`; NaN becomes None.
        """
        figures = {each.name: getattr(self, each.name) for each in fields(self)}
        del figures["cosines"]
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in figures.items()
        }


def reconstruction(scores: Matrix, truth: Any, sizes: Any, *, ranks: int = 10) -> Reconstruction:
    """Evaluate profiles rebuilt from the items of highest score.

    Parameters
    ----------
    scores : array_like of shape (n_users, n_candidates)
        Score of each item, higher for items more likely in the profile; infinities are allowed, NaN
        is not.
    truth : GroundTruth or array_like of bool, shape (n_users, n_candidates)
        True profiles.
    sizes : array_like of shape (n_users,) or float
        Number of items to take of each row, or one number for all. Estimates are rounded and
        clipped to the range from 0 to the number of candidates.
    ranks : int, default=10
        R in mAP@R (3.37), from 1 to 2**20; ranks beyond the last candidate find nothing.

    Returns
    -------
    Reconstruction
        Cosine, precision, recall and mean average precision, averaged over users.

    Raises
    ------
    ValueError
        If shapes disagree, or a score or size is NaN.

    Notes
    -----
    **Guarantee.** Ties are not broken at random: every figure is the mean over all orders of equal
    scores. Items outside the candidates cannot be found and count as missed. An empty profile that
    is rebuilt as empty has cosine 1.

    In the cosine (3.36), |P| is read as the norm of a 0/1 vector: the number of common items over
    the root of the product of both sizes. The average precision (3.37) averages precision over all
    ranks, not only over those of correct items.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.5, equations (3.36) (cosine of a reconstruction) and (3.37)
       (mAP@R). https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> truth = np.array([[True, True, False, False]])
    >>> found = reconstruction([[0.9, 0.5, 0.5, 0.1]], truth, 2)
    >>> found.cosine, found.precision  # the first item, and one of two tied, of which one is right
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
        *_summary(cosines),
        _mean(precision[taken > 0]),
        _mean(recall[true > 0]),
        _mean(precisions),
        _error(precisions),
        ranks,
        len(table),
        cosines,
    )


def _scores(owner: str, scores: Any) -> np.ndarray:
    """Scores as a float64 table; ValueError if one is NaN."""
    table = np.asarray(scores)
    if table.ndim != 2 or not table.size or table.dtype.kind not in "biuf":
        raise ValueError(f"{owner}: scores must be a table of numbers, users x candidates.")
    if table.dtype.kind == "f" and np.isnan(table).any():
        row = int(np.isnan(table).any(axis=1).argmax())
        raise ValueError(f"{owner}: scores must be numbers, but one of row {row} is NaN.")
    return table.astype(np.float64, copy=False)


def _taken(owner: str, sizes: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Number of items to take of each row, rounded and clipped."""
    given = np.asarray(sizes, np.float64)
    if given.shape not in ((), shape[:1]) or np.isnan(given).any():
        raise ValueError(
            f"{owner}: sizes must be a number, or one for each of {shape[0]} users, and not NaN; "
            "where a release shows no size, give the mean size of known profiles."
        )
    cut = np.clip(np.rint(given), 0, shape[1]).astype(np.int64)
    return np.broadcast_to(cut, shape[:1])


def _right(owner: str, truth: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Booleans of the true profiles, and the number of items outside the candidates."""
    right, outside = truth if isinstance(truth, GroundTruth) else (np.asarray(truth), 0)
    if right.shape != shape or right.dtype != np.bool_:
        raise ValueError(f"{owner}: truth must be booleans in the shape of scores, {shape}.")
    return right, np.broadcast_to(outside, shape[0])


def _hits(
    scores: np.ndarray, right: np.ndarray, taken: np.ndarray, ranks: int
) -> tuple[np.ndarray, np.ndarray]:
    """Correct items among those taken of each row, and the mean precision over the first ranks."""
    depth = min(max(int(taken.max()), ranks), scores.shape[1])
    hits, precisions = np.empty(len(scores)), np.empty(len(scores))
    step = max(1, CELLS // scores.shape[1])
    for start in range(0, len(scores), step):
        part = slice(start, start + step)
        found = np.zeros((len(scores[part]), depth + 1))  # right items among the first 0, 1, 2, ...
        np.cumsum(_hit_probabilities(scores[part], right[part], depth), axis=1, out=found[:, 1:])
        hits[part] = np.take_along_axis(found, taken[part, None], axis=1)[:, 0]
        at = np.arange(1, ranks + 1)
        precisions[part] = (found[:, np.minimum(at, depth)] / at).mean(axis=1)
    return hits, precisions


def _hit_probabilities(scores: np.ndarray, right: np.ndarray, depth: int) -> np.ndarray:
    """Probability that each of the first ranks of a row is a correct item, over all tie orders."""
    least = -scores
    order = np.argpartition(least, depth - 1, axis=1)[:, :depth]
    values = np.take_along_axis(least, order, axis=1)
    within_order = np.argsort(values, axis=1)
    order = np.take_along_axis(order, within_order, axis=1)
    values = np.take_along_axis(values, within_order, axis=1)
    probabilities = _tied_means(values, np.take_along_axis(right, order, axis=1).astype(np.float64))
    # Only the last run of equal scores may extend beyond the depth: average it over the row.
    last = least == values[:, -1:]
    last_probability = (last & right).sum(axis=1) / last.sum(axis=1)
    return np.where(values == values[:, -1:], last_probability[:, None], probabilities)


def _tied_means(values: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Mean over each run of equal values in a row, repeated at each of its positions."""
    new = np.ones(values.shape, bool)
    new[:, 1:] = values[:, 1:] != values[:, :-1]
    starts = np.flatnonzero(new)
    lengths = np.diff(np.append(starts, new.size))
    means = np.add.reduceat(right.ravel(), starts) / lengths
    return np.repeat(means, lengths).reshape(values.shape)


def _summary(cosines: np.ndarray) -> tuple[float, float, float, float]:
    """Mean, 10 % and 90 % quantiles, and standard error of the mean."""
    low, high = np.quantile(cosines, (0.1, 0.9))
    return _mean(cosines), float(low), float(high), _error(cosines)


def _mean(values: np.ndarray) -> float:
    """Mean, NaN if empty."""
    return float(values.mean()) if values.size else math.nan


def _error(values: np.ndarray) -> float:
    """Standard error of the mean, NaN for fewer than two values."""
    return float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else math.nan
