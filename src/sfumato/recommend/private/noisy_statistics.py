"""Noisy sums of clipped integers: the only access of a private factorization to its data.

Each event adds to the row of its user, or of its item, a vector of integers whose squared norm is
bounded by construction: residuals are clipped, the more the longer the public vector is that they
multiply. A residual is an integer computed from its own event and noisy numbers alone, so no event
changes what another one adds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from sfumato.kernels.recommend import noisy_als as kernels
from sfumato.privacy.noise.discrete import add_gaussian
from sfumato.privacy.random_source import Source
from sfumato.recommend.private.inputs import GRID, Budget, Events

__all__ = ["Biases", "EventSums", "Measured", "NoisySums", "on_grid"]

Biases = np.ndarray | Callable[[Events], np.ndarray]


class EventSums(Protocol):
    """Events whose integers can be summed: `Events` in memory, or rows of an engine."""

    @property
    def sizes(self) -> dict[str, int]:
        """Number of "users" and "items"."""
        ...

    def total(self, cells: Callable[[Events], np.ndarray]) -> np.ndarray:
        """Return the exact sum of the integers that the function returns for all parts."""
        ...


ONE = 2**10  # grid steps per unit of a vector's component
CUT = 3 * 2**GRID // 4  # residuals are clipped here: three quarters of half the range
COUNTED = 2**GRID * ONE // 2  # what an event adds to the count of its row
ENERGY = ONE // 5  # weight of a squared residual, for units of one event
UNIT = float(2**GRID * ONE)
LARGEST = 2**46  # bound on the squared norm of what one event adds
WIDEST = 2**40  # largest standard deviation of the noise
MOST_SQUARE = CUT * CUT >> GRID
LONGEST = 2**22  # no number on a grid is larger, so that squares of 64 of them are exact floats


@dataclass(frozen=True)
class Measured:
    """One noisy step: sums (rows, 1 + vectors) of residual * (1, x), the x, and the noise variance.

    counts: noisy number of events per row, of variance count_variance, or None. energy: noisy sum
    of squares of all clipped residuals.
    """

    sums: np.ndarray
    vectors: np.ndarray
    variance: float
    counts: np.ndarray | None
    count_variance: float
    energy: float


def on_grid(numbers: np.ndarray, steps: int) -> np.ndarray:
    """Return the numbers as integer multiples of 1 / steps, far within 64 bits."""
    inside = np.clip(np.nan_to_num(numbers), -LONGEST, LONGEST)
    return np.asarray(np.clip(np.trunc(inside * steps), -LONGEST, LONGEST), np.int64)


class NoisySums:
    """Noisy sums over events; each call spends a fraction of the budget.

    Guarantee: all results together cost at most `budget.loss` for one unit of at most `most` events
    of different items. `source` of the noise is for tests only.
    """

    def __init__(
        self, events: EventSums, budget: Budget, most: int = 1, source: Source | None = None
    ) -> None:
        self.events: EventSums
        self.budget: Budget
        self.most: int
        self.source: Source | None
        self.events, self.budget, self.most, self.source = events, budget, most, source
        self.remaining = Fraction(1)
        if budget.sigma(most**2 * LARGEST, Fraction(1, 16)) > WIDEST:
            raise ValueError(
                "NoisySums: epsilon must be larger for this delta and unit: the noise would "
                "overflow 64 bits."
            )

    def total(self, fraction: Fraction) -> tuple[float, float]:
        """Return the noisy number of events and the noisy sum of their ratings."""
        cells = self.events.total(_number_and_ratings)
        self._add_noise(cells, self.most**2 * 2 * 4**GRID, fraction)
        number, rated = cells / 2.0**GRID
        return float(number), float(rated)

    def measure(
        self,
        side: str,
        own: np.ndarray,
        others: Biases,
        vectors: np.ndarray | None,
        fraction: Fraction,
        *,
        length: float = 0.0,
        counted: bool = False,
    ) -> Measured:
        """Return sums of residual * (1, vector of the other side) for each row of `side`.

        own, others: (rows, 1 + components), biases and components that predict the ratings; others
        may be a function of events, of whose users the rows are then. vectors: None for no
        components. length: for a vector of this norm residuals are clipped at CUT; for a longer one
        earlier.
        """
        x = None if vectors is None else on_grid(vectors, ONE)
        width = 0 if x is None else x.shape[1]
        shape = len(own), 1 + width
        most_product = int(CUT * length * ONE)
        step = _StepCells(side, own, others, x, most_product, counted, self._weight)
        cells = self.events.total(step)
        norm = self.most * sensitivity_squared(most_product, counted)
        energy = self.most * (MOST_SQUARE * self._weight)
        sigma = self._add_noise(cells, norm + energy**2, fraction)
        size = shape[0] * shape[1]
        return Measured(
            cells[:size].reshape(shape) / UNIT,
            np.empty((0, 0)) if x is None else x / float(ONE),
            (sigma / UNIT) ** 2,
            cells[size:-1] / float(COUNTED) if counted else None,
            (sigma / COUNTED) ** 2,
            float(cells[-1]) / (2.0**GRID * self._weight),
        )

    @property
    def _weight(self) -> int:
        """Weight of squared residuals: a unit of many events changes their sum by all of them."""
        return max(ENERGY // self.most, 1)

    def _add_noise(self, cells: np.ndarray, norm_squared: int, fraction: Fraction) -> int:
        """Add noise for a fraction of the budget, in place; return its standard deviation."""
        if fraction > self.remaining:
            raise ValueError("NoisySums: the fractions of the budget sum to more than 1.")
        self.remaining -= fraction
        sigma = self.budget.sigma(norm_squared, fraction)
        add_gaussian(cells, sigma, source=self.source)
        return sigma


def _number_and_ratings(events: Events) -> np.ndarray:
    """Return the number of events and the sum of their ratings, on the grid."""
    return np.array([events.ratings.size << GRID, events.ratings.sum()], np.int64)


@dataclass(frozen=True)
class _StepCells:
    """Exact integers of one step: the sums of each row, perhaps its count, and the energy.

    They are sums over events, so that those of parts of the events add up to those of all.
    """

    side: str
    own: np.ndarray
    others: Biases
    x: np.ndarray | None  # on the grid
    most_product: int
    counted: bool
    weight: int

    def __call__(self, events: Events) -> np.ndarray:
        others = self.others(events) if callable(self.others) else self.others
        residual = self._residuals(events, others)
        sums = self._collected(events, residual, len(others))
        counts = self._counts(events) if self.counted else np.empty(0, np.int64)
        return np.concatenate([sums.reshape(-1), counts, [self._energy(residual)]])

    def _energy(self, residual: np.ndarray) -> int:
        """Return the weighted sum of squares of the clipped residuals."""
        cut = np.clip(residual, -CUT, CUT)
        return int((cut * cut >> GRID).sum()) * self.weight

    def _counts(self, events: Events) -> np.ndarray:
        """Return the number of events of each row, times COUNTED."""
        rows = np.bincount(events.of(self.side), minlength=len(self.own))
        return np.asarray(rows * COUNTED, np.int64)

    def _residuals(self, events: Events, others: np.ndarray) -> np.ndarray:
        """Return the integer residual of each event from biases and components on the grid."""
        p, q = (self.own, others) if self.side == "users" else (others, self.own)
        out = np.empty(events.ratings.size, np.int64)
        grids = on_grid(p, 2**GRID), on_grid(q, 2**GRID)
        kernels.residuals(events.users, events.items, events.ratings, *grids, GRID, out)
        return out

    def _collected(self, events: Events, residual: np.ndarray, others: int) -> np.ndarray:
        """Return exact sums of clipped residuals times (1, x) for each row of `side`."""
        x = np.empty((others, 0), np.int64) if self.x is None else self.x
        out = np.zeros((len(self.own), 1 + x.shape[1]), np.int64)
        own, other = events.of(self.side), events.of("items" if self.side == "users" else "users")
        limits = residual_limits(x, self.most_product)
        kernels.collect(own, other, residual, CUT, ONE, x, limits, out)
        return out


def sensitivity_squared(most_product: int, counted: bool) -> int:
    """Return the largest squared norm of what one event adds to its row, in integers."""
    return int((CUT * ONE) ** 2 + most_product**2 + (COUNTED**2 if counted else 0))


def residual_limits(x: np.ndarray, most_product: int) -> np.ndarray:
    """Return the clipping bound of residuals for each vector, so that products stay bounded."""
    squares = (x * x).sum(axis=1)
    # The float root is never below the root's integer part, so that plus 1 is above the root.
    longer = np.floor(np.sqrt(squares.astype(np.float64))).astype(np.int64) + 1
    return np.asarray(most_product // longer)
