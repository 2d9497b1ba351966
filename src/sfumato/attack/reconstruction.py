"""How much of profiles an attack rebuilds, and how useful the release is that it was given."""

import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from sfumato._require import whole
from sfumato.attack._neighbour_recall import NeighbourRecall, neighbour_recall
from sfumato.attack._truth import SizePrior, Truth, item_prior, size_prior, truth_matrix

__all__ = [
    "NeighbourRecall",
    "Reconstruction",
    "SizePrior",
    "Truth",
    "item_prior",
    "neighbour_recall",
    "reconstruction",
    "size_prior",
    "truth_matrix",
]

CELLS = 1 << 22  # of a table at a time
RANKS = whole(1, 2**20)


@dataclass(frozen=True)
class Reconstruction:
    """How well profiles were rebuilt.

    cosine: (3.36), the mean over users, with cosine_low and cosine_high, its 10 % and 90 %
    quantiles, and cosine_error, the standard error of the mean; precision and recall of the rebuilt
    profiles, means over users who have such a figure; average_precision: (3.37) over `ranks`
    ranks, with its standard error; users, how many; cosines, of every user, not in `to_dict`.
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

    @property
    def privacy(self) -> float:
        """1 - cosine: what 3.5.4 calls privacy, under the attack that was made."""
        return 1 - self.cosine

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain JSON values, None for those that do not exist."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        del told["cosines"]
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in told.items()
        }


def reconstruction(scores: Any, truth: Any, sizes: Any, *, ranks: int = 10) -> Reconstruction:
    """How much of each profile is among its items of highest score, as many as it seems to have.

    Guarantee: equal scores favour nobody: where a cut goes through candidates of one score, each of
    them is counted with the same share, so every figure is the mean over all ways to break the
    ties, and no chance is involved. Items outside the candidates cannot be found and count as
    missed. An empty profile that is rebuilt as empty has cosine 1.
    Parameters: scores, users x candidates, higher for what is likelier in the profile, infinities
    allowed; truth, a `Truth`, or booleans in that shape; sizes, how many items to take of each row
    (an estimate; it is rounded and cut to 0 and the number of candidates) or one number for all;
    ranks, R in (3.37): beyond the last candidate nothing is found.

    >>> truth = np.array([[True, True, False, False]])
    >>> told = reconstruction([[0.9, 0.5, 0.5, 0.1]], truth, 2)
    >>> told.cosine, told.precision  # the first, and one of two, of which one is right
    (0.75, 0.75)

    Thesis (3.36), where |P| must be read as the norm of a vector of zeros and ones: the items in
    common over the root of the product of both sizes. (3.37) averages precision over all ranks,
    not only those of right items.
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
    right, outside = truth if isinstance(truth, Truth) else (np.asarray(truth), 0)
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
