"""Rows that a model learned from and rows that it did not, as an attacker sees them."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sfumato.attack.membership.divergence import LEAST as LEAST_ROWS
from sfumato.attack.membership.divergence import KLDivergence, checked_errors, kl_divergence
from sfumato.data.interactions import Interactions
from sfumato.recommend.base import predictions

__all__ = ["Quarter", "Records", "Sides", "look", "quarters"]

LEAST = 40  # of each side: 20 to learn from, 20 to measure on
ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Records:
    """Rows of one side in random order, with the model's predictions.

    `activity` and `popularity` count the ratings of the user and the item in both sides together,
    which does not depend on the row's side; `quarter` is the user's quarter by activity, from 0 to
    3.
    """

    pairs: Interactions
    predicted: np.ndarray
    activity: np.ndarray
    popularity: np.ndarray
    quarter: np.ndarray

    @property
    def ratings(self) -> np.ndarray:
        return np.asarray(self.pairs.ratings)

    @property
    def errors(self) -> np.ndarray:
        """Predicted minus true ratings, the errors of thesis section 4.2.3."""
        return np.asarray(self.predicted - self.pairs.ratings, np.float64)

    def part(self, rows: np.ndarray) -> "Records":
        """The rows at these positions, or where a mask is true."""
        columns = (self.predicted, self.activity, self.popularity, self.quarter)
        return Records(self.pairs.filter(rows), *(column[rows] for column in columns))

    def __len__(self) -> int:
        return len(self.pairs)


class Sides(NamedTuple):
    """Members, which the model learned from, and others; with the quarters of activity.

    `quarters` has the lowest activity of users in the second to the fourth quarter; `left_out`
    counts the rows of pairs that are on both sides, which are excluded.
    """

    members: Records
    others: Records
    quarters: tuple[int, ...]
    left_out: int

    def halves(self) -> tuple["Sides", "Sides"]:
        """One half to train an attack, the other to measure it; rows are in random order."""
        sides = [np.array_split(np.arange(len(side)), 2) for side in self[:2]]
        first, second = (
            self._replace(members=self.members.part(a), others=self.others.part(b))
            for a, b in zip(*sides, strict=True)
        )
        return first, second


def look(
    owner: str, model: Any, train: Any, test: Any, sample: int, random: np.random.Generator
) -> Sides:
    """Up to `sample` random rows of each side, with predictions."""
    for name, side in (("train", train), ("test", test)):
        _enough(owner, name, len(side))
    hashes = [side.hashed() for side in (train, test)]
    users, items = (_Counts(column) for column in zip(*hashes, strict=True))
    twice = _on_both([u * ODD ^ i for u, i in hashes])
    quarters = np.quantile(users.counts, (0.25, 0.5, 0.75), method="higher")
    sides: list[Records] = []
    for at, (name, side) in enumerate((("train", train), ("test", test))):
        rows = random.permutation(np.flatnonzero(~twice[at]))[:sample]
        _enough(owner, name, rows.size, " that the other side has not")
        activity = users.of(at, rows)
        pairs = side.filter(rows)
        columns = activity, items.of(at, rows), np.searchsorted(quarters, activity, "right")
        sides.append(Records(pairs, _predicted(owner, name, model, pairs), *columns))
    left_out = sum(int(side.sum()) for side in twice)
    return Sides(sides[0], sides[1], tuple(map(int, quarters)), left_out)


def _enough(owner: str, name: str, rows: int, which: str = "") -> None:
    """Raise ValueError if a side has too few rows."""
    if rows < LEAST:
        raise ValueError(f"{owner}: {name} must have at least {LEAST} ratings{which}, not {rows}.")


def _predicted(owner: str, name: str, model: Any, pairs: Interactions) -> np.ndarray:
    """The model's predictions of these pairs, checked."""
    predicted = predictions(model, pairs)
    if predicted.shape != (len(pairs),):
        raise ValueError(f"{owner}: model must predict one number for each of {len(pairs)} rows.")
    checked_errors(owner, f"errors of model on {name}", predicted - pairs.ratings)
    return predicted


class _Counts:
    """Number of occurrences of each id of a column in both sides together."""

    def __init__(self, columns: tuple[np.ndarray, ...]) -> None:
        _, positions, counts = np.unique(
            np.concatenate(columns), return_inverse=True, return_counts=True
        )
        self.counts = counts
        self._positions = np.split(positions, np.cumsum([c.size for c in columns])[:-1])

    def of(self, side: int, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.counts[self._positions[side][rows]])


def _on_both(keys: list[np.ndarray]) -> list[np.ndarray]:
    """Masks of the rows of each side whose pair of user and item is on the other side too."""
    ordered = [np.sort(side) for side in keys]
    positions = [
        np.minimum(np.searchsorted(ordered[1 - at], keys[at]), keys[1 - at].size - 1)
        for at in (0, 1)
    ]
    return [ordered[1 - at][positions[at]] == keys[at] for at in (0, 1)]


@dataclass(frozen=True)
class Quarter:
    """A quarter of the users: those with at least `least` ratings and fewer than the next one's.

    `train` and `test` count the rows; divergence and root mean squared errors are None for too few.
    """

    least: int
    train: int
    test: int
    train_rmse: float | None
    test_rmse: float | None
    divergence: KLDivergence | None

    def to_dict(self) -> dict[str, Any]:
        """Convert the figures to plain JSON values."""
        found = None if self.divergence is None else self.divergence.to_dict()
        return {**vars(self), "divergence": found}


def quarters(sides: Sides) -> tuple[Quarter, ...]:
    """All four quarters, the least active users first."""
    return tuple(_quarter(sides, at) for at in range(4))


def _quarter(sides: Sides, at: int) -> Quarter:
    errors = [side.errors[side.quarter == at] for side in sides[:2]]
    least = (1, *sides.quarters)[at]
    rows = [side.size for side in errors]
    if min(rows) < LEAST_ROWS:
        return Quarter(least, rows[0], rows[1], None, None, None)
    rmse = [float(np.sqrt((side**2).mean())) for side in errors]
    return Quarter(least, rows[0], rows[1], rmse[0], rmse[1], kl_divergence(*errors))
